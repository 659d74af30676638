"""The verbs that show, check and compare programs, and those that list passes and operators."""

from __future__ import annotations

from compiler.commands.verbs.options import FORCE
from runtime.command_line.tables import PROGRAM, Option, Verb, one_word
from runtime.command_line.values import rank, threads
from runtime.engines.choice import ENGINES

SHOW = Verb(
    "show",
    "print a program as text, or how one of its entries runs",
    "--entry prints the training form of one entry. The other views show the entry that the program runs,\n"
    "unless --entry names another one, with its first sizes, unless --bind names others.",
    ("compiler show digits.pb --entry train --bound", "compiler show digits.pb --memory --html memory.html"),
    (
        PROGRAM,
        Option("--entry NAME", "print the block of this entry only"),
        Option("--bound", "with --entry: print sizes instead of symbols", needs={"--entry": "--bound is for --entry"}),
        Option(
            "--bind SYMBOL=SIZE",
            "use these sizes, as in batch=1",
            many=True,
            needs={
                "--memory --order --html --svg --bound --engine": "--bind is for --memory, --order, --html and --svg, "
                "and for --entry with --bound"
            },
        ),
        Option("--memory", "show each buffer with its lifetime, and the peak of the arena"),
        Option(
            "--sort {offset,bytes,time}",
            "with --memory: order of the buffers; default offset",
            needs={"--memory": "--sort is for --memory"},
        ),
        Option("--order", "show when each forward op, its gradients and its updates run"),
        Option(
            "--lists",
            "show which ops mixed precision lowers, lets follow and keeps in float32",
            excludes={
                f"--{view}": f"--lists is a view of its own; leave out --{view}"
                for view in ("engine", "memory", "order", "bound", "html", "svg", "bind", "rank", "zero")
            },
        ),
        Option(
            f"--engine {one_word(ENGINES)}",
            "show how this engine computes a step: groups, phases, memory",
            excludes={
                f"--{view}": f"--engine and --{view} are two views; ask for one of them"
                for view in ("memory", "order", "html", "svg", "bound")
            },
        ),
        Option(
            "--ir",
            "with --engine: print the LLVM IR of the generated code",
            needs={"--engine": "--ir is for --engine"},
            excludes={
                "--after": "--ir is what there is after all passes, and --after after one of them; give one of both"
            },
        ),
        Option(
            "--after PASS",
            "with --engine: show the step after this pass of the engine",
            needs={"--engine": "--after is for --engine"},
        ),
        Option(
            "--threads N",
            "with --engine and --memory: number of threads of a run; default 1",
            default=1,
            needs={"--engine --memory": "--threads is for the views of a run: --engine or --memory"},
        ),
        Option(
            "--rank R/N",
            "show the step of process R of N in a run with --mpi, with its exchanges, as in 0/4",
            rank,
            needs={
                "--engine --memory --order --html --svg --bound": "--rank is for the step that runs; "
                "add --entry train --bound, or --memory, or --engine"
            },
        ),
        Option(
            "--zero",
            "with --rank: the states are cut as by runtime execute --zero",
            needs={"--rank": "--zero cuts states among ranks; say which one to show, as in --rank 0/4"},
        ),
        Option("--html FILE", "write an HTML page with a picture of the arena over time"),
        Option("--svg FILE", "write the same picture as SVG"),
        Option(
            "--force", "replace the file of --html or --svg", needs={"--html --svg": "--force is for --html and --svg"}
        ),
    ),
)


SUMMARY = Verb(
    "summary",
    "print a summary of a program: layers with their states, entries with their ops and memory",
    "States whose names are equal up to the last dot form a layer. The arena of an entry is listed in bytes\n"
    "for each engine, in a run on --threads threads.",
    ("compiler summary digits.pb",),
    (
        PROGRAM,
        Option(
            "--threads N",
            "threads of the run; default one for each core that a process may use",
            threads,
            default="auto",
        ),
    ),
)


DRAW = Verb(
    "draw",
    "draw the forward pass of an entry by scope, with the shapes of what its ops read",
    "An HTML page has scopes that open and close, and shows the inputs of each op. A picture, .svg or .png, has\n"
    "layers, in which each op stands below its inputs. A .png needs the extra `plot`.",
    ("compiler draw digits.pb -o digits.svg", "compiler draw digits.pb --all -o digits.html"),
    (
        PROGRAM,
        Option("--entry NAME", "entry to draw; default the one that the program runs"),
        Option("--all", "draw gradients and updates too, with a colour for each stage"),
        Option("-o, --output FILE", ".html, .svg or .png file to write", required=True),
        FORCE,
    ),
)


CHECK = Verb(
    "check",
    "verify that a program is well formed and its memory plans are valid, and print its size",
    "The command runs no operation.",
    ("compiler check digits.pb",),
    (PROGRAM,),
)


DIFF = Verb(
    "diff",
    "print the differences of two programs: one line for each, grouped by entry, state or op",
    "The exit code is 0 if they are equal and 1 if they differ. Source lines of the user are not compared.",
    ("compiler diff old.pb new.pb",),
    (Option("old", "a program file"), Option("new", "another program file")),
)


PASSES = Verb(
    "passes",
    "print the passes of `compile`, of `plan` and of the native engine in order",
    "For each pass, print what it does, requires and establishes, with the reasons.",
    ("compiler passes plan",),
    (
        Option("tables TABLE", "compile, plan or native; default all", nargs="*"),
        Option("--json", "print one JSON object instead of text"),
        Option("--markdown", "print the page docs/passes.md"),
    ),
)


OPS = Verb(
    "ops",
    "list all operators, or describe the named ones",
    "Each line of the list has the operands, the attributes and the first sentence of an operator.",
    ("compiler ops conv2d matmul",),
    (
        Option("names", "operators to describe", nargs="*"),
        Option("--markdown", "print the whole reference, docs/ops.md"),
    ),
)
