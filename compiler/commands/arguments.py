"""The command line: the verbs, and the options of each."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from compiler.commands.data_arguments import add_pack, add_show, with_verbs_of_two_words
from compiler.commands.models.arguments import (
    add_build,
    add_compare,
    add_export,
    add_gradcheck,
    add_lora,
    add_merge,
    add_quantize,
    add_weights,
)
from runtime.command_line.parsing import add_completion, add_verb, new_parser, parsed
from runtime.command_line.values import duration, int64, one_of, positive, rank, size, threads
from runtime.engines.choice import ENGINES


def parse(arguments: Sequence[str], command: str = "compiler") -> argparse.Namespace:
    """Return the options; an error of usage ends the process with code 2."""
    return parsed(command_parser(command), with_verbs_of_two_words(arguments))


def command_parser(command: str = "compiler") -> tuple[argparse.ArgumentParser, Any]:
    """Return the parser of the whole command, and its verbs by name in `choices`."""
    parser, verbs = new_parser(command, "Inspect, check and compile program files.")
    add_verbs(verbs)
    return parser, verbs


def add_verbs(verbs: Any, *, shared: bool = True) -> None:
    """Add the verbs of `compiler` to a parser, without those that `runtime` has too unless they are `shared`."""
    programs = _show, _summary, _draw, _check, _compile, _diff, _freeze, _thaw, _plan, _passes, _ops
    models = _import_onnx, _import_torch, _import_lm, add_export, add_compare, add_gradcheck, add_merge, add_quantize
    outside = (add_build,)
    for add in (*programs, *models, *outside, add_pack, add_show):
        if shared or add is not _check:
            add(verbs)
    if shared:
        add_completion(verbs, "completion").set_defaults(module="completion")


def _show(verbs: Any) -> None:
    verb = _verb(
        verbs,
        "show",
        "print a program as text, or how one of its entries runs",
        "--entry prints the training form of one entry. The other views show the entry that the program runs,\n"
        "unless --entry names another one, with its first sizes, unless --bind names others.",
        "compiler show digits.pb --entry train --bound",
        "compiler show digits.pb --memory --html memory.html",
    )
    verb.add_argument("program", help="a program file")
    verb.add_argument("--entry", metavar="NAME", help="print the block of this entry only")
    verb.add_argument("--bound", action="store_true", help="with --entry: print sizes instead of symbols")
    _add_bind(verb, "use these sizes, as in batch=1")
    verb.add_argument(
        "--memory", action="store_true", help="show each buffer with its lifetime, and the peak of the arena"
    )
    verb.add_argument(
        "--sort", type=one_of("offset", "bytes", "time"), metavar="{offset,bytes,time}",
        help="with --memory: order of the buffers; default offset",
    )  # fmt: skip
    verb.add_argument(
        "--order", action="store_true", help="show when each forward op, its gradients and its updates run"
    )
    verb.add_argument(
        "--lists", action="store_true", help="show which ops mixed precision lowers, lets follow and keeps in float32"
    )
    verb.add_argument(
        "--engine", metavar=f"{{{','.join(ENGINES)}}}",
        help="show how this engine computes a step: groups, phases, memory",
    )  # fmt: skip
    verb.add_argument("--ir", action="store_true", help="with --engine: print the LLVM IR of the generated code")
    verb.add_argument("--after", metavar="PASS", help="with --engine: show the step after this pass of the engine")
    verb.add_argument(
        "--threads", type=positive, default=1, metavar="N",
        help="with --engine and --memory: number of threads of a run; default 1",
    )  # fmt: skip
    verb.add_argument(
        "--rank", type=rank, metavar="R/N",
        help="show the step of process R of N in a run with --mpi, with its exchanges, as in 0/4",
    )  # fmt: skip
    verb.add_argument(
        "--zero", action="store_true", help="with --rank: the states are cut as by runtime execute --zero"
    )
    verb.add_argument("--html", metavar="FILE", help="write an HTML page with a picture of the arena over time")
    verb.add_argument("--svg", metavar="FILE", help="write the same picture as SVG")
    verb.add_argument("--force", action="store_true", help="replace the file of --html or --svg")


def _summary(verbs: Any) -> None:
    verb = _verb(
        verbs,
        "summary",
        "print a summary of a program: layers with their states, entries with their ops and memory",
        "States whose names are equal up to the last dot form a layer. The arena of an entry is listed in bytes\n"
        "for each engine, in a run on --threads threads.",
        "compiler summary digits.pb",
    )
    verb.add_argument("program", help="a program file")
    verb.add_argument(
        "--threads", type=threads, default="auto", metavar="N",
        help="threads of the run; default one for each core that a process may use",
    )  # fmt: skip


def _draw(verbs: Any) -> None:
    verb = _verb(
        verbs,
        "draw",
        "draw the forward pass of an entry by scope, with the shapes of what its ops read",
        "An HTML page has scopes that open and close, and shows the inputs of each op. A picture, .svg or .png, has\n"
        "layers, in which each op stands below its inputs. A .png needs the extra `plot`.",
        "compiler draw digits.pb -o digits.svg",
        "compiler draw digits.pb --all -o digits.html",
    )
    verb.add_argument("program", help="a program file")
    verb.add_argument("--entry", metavar="NAME", help="entry to draw; default the one that the program runs")
    verb.add_argument("--all", action="store_true", help="draw gradients and updates too, with a colour for each stage")
    _add_output(verb, ".html, .svg or .png file to write", required=True)


def _check(verbs: Any) -> None:
    verb = _verb(
        verbs,
        "check",
        "verify that a program is well formed and its memory plans are valid, and print its size",
        "The command runs no operation.",
        "compiler check digits.pb",
    )
    verb.add_argument("program", help="a program file")


def _add_mixed(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--mixed",
        metavar="DTYPE",
        help="compute products with operands of this dtype, and keep activations in it: bfloat16",
    )


def _compile(verbs: Any) -> None:
    verb = _verb(
        verbs,
        "compile",
        "compile a program or its text form again",
        "It can bind other sizes, leave out passes, and print the program after a pass.",
        "compiler compile digits.pb --bind batch=64 -o digits64.pb",
        "compiler compile net.pb --qat int8 --keep head -o learns.pb",
    )
    verb.add_argument("program", help="a program file, or its text form ending in .txt")
    _add_bind(verb, "size of a symbol; batch=32,5 adds a last training step of 5 rows")
    _add_output(verb, "the program file to write")
    _add_dump_after(verb)
    verb.add_argument("--without", action="append", default=[], metavar="PASS", help="leave out this pass")
    _add_mixed(verb)
    verb.add_argument(
        "--qat", metavar="FORM", help="train with the numbers of codes, so that `compiler quantize` loses nothing: int8"
    )
    verb.add_argument(
        "--keep",
        action="append",
        default=[],
        metavar="PATTERN",
        help="with --qat: leave matching parameters as they are",
    )
    verb.add_argument(
        "--option", action="append", default=[], metavar="PASS.NAME=VALUE", help="option of a pass; see compiler passes"
    )


def _diff(verbs: Any) -> None:
    verb = _verb(
        verbs,
        "diff",
        "print the differences of two programs: one line for each, grouped by entry, state or op",
        "The exit code is 0 if they are equal and 1 if they differ. Source lines of the user are not compared.",
        "compiler diff old.pb new.pb",
    )
    verb.add_argument("old", help="a program file")
    verb.add_argument("new", help="another program file")


def _import_onnx(verbs: Any) -> None:
    verb = _verb(
        verbs,
        "import onnx",
        "write an ONNX file as a program, with its weights beside it",
        "The program predicts under the names of the file. With --loss and --optimizer it also trains the parameters\n"
        "that match --train, all of them unless given. Reading runs no code. It needs the extra `onnx`.",
        "compiler import model.onnx -o model.pb",
        "compiler import onnx model.onnx --loss softmax_cross_entropy --train 'head.*' --optimizer adam:1e-3 --batch 16"
        " -o tune.pb",
    )
    verb.set_defaults(module="imports.import_onnx", verb="import_onnx")
    verb.add_argument("source", metavar="FILE", help="an ONNX file; its external data is read from its folder")
    verb.add_argument(
        "--input", action="append", default=[], metavar="NAME=[SHAPE]",
        help="the shape of an input in place of the file's, as in image=[batch,3,224,224]",
    )  # fmt: skip
    verb.add_argument(
        "--dim", action="append", default=[], metavar="NAME=SIZE", help="fix a dimension that the file names"
    )
    verb.add_argument(
        "--constant", action="append", default=[], metavar="NAME=VALUES",
        help="the values of an input that has to be known while importing, as in shape=1,64",
    )  # fmt: skip
    verb.add_argument(
        "--max-rows", action="append", default=[], metavar="NAME=COUNT",
        help="bound a result whose number of rows is data, as of NonZero",
    )  # fmt: skip
    verb.add_argument(
        "--outputs", nargs="+", action="extend", default=[], metavar="NAME",
        help="import these results alone; any tensor of the file may be one",
    )  # fmt: skip
    verb.add_argument("--max-memory", type=size, metavar="SIZE", help="memory limit of the process, as in 2GiB")
    verb.add_argument("--max-time", type=duration, metavar="TIME", help="time limit of the import, as in 5min")
    verb.add_argument("--check", action="store_true", help="print what cannot be imported, and write nothing")
    verb.add_argument("--loss", metavar="NAME", help="train: a loss of ops, of the first result and an input `target`")
    verb.add_argument("--train", action="append", default=[], metavar="PATTERN", help="train matching parameters only")
    verb.add_argument("--optimizer", metavar="NAME:RATE", help="train with it, as in adam:1e-3")
    add_lora(verb)
    verb.add_argument("--tie", action="store_true", help="make matrices that are copies of others one parameter again")
    verb.add_argument("--untie", action="store_true", help="give each node its own copy of a weight that several read")
    verb.add_argument(
        "--fake-quantize", action="store_true", help="round as a quantised file does, and let gradients pass"
    )
    verb.add_argument(
        "--integers", action="store_true", help="compute products of a quantised file in integers, without gradients"
    )
    verb.add_argument("--names", action="store_true", help="print a row for each weight: name, shape, trained, why")
    verb.add_argument("--batch", type=positive, metavar="N", help="the size of the first axis of the first input")
    _add_bind(verb, "the size of a symbol in the written program; 1 unless given")
    _add_mixed(verb)
    _add_output(verb, "the program file to write")


def _import_torch(verbs: Any) -> None:
    verb = _verb(
        verbs,
        "import torch",
        "write a module of PyTorch as a program, with its weights beside it",
        "The source is a function that makes the module, or a file that torch.export.save wrote. Both run code: the\n"
        "function is called, and a file is read by PyTorch's loader. It needs the extra `torch`.",
        "compiler import torch mypackage.nets:make --input image=float32[batch,3,224,224] -o net.pb",
        "compiler import torch net.pt2 -o net.pb --bind batch=32",
    )
    verb.set_defaults(module="import_torch", verb="import_torch")
    verb.add_argument("source", metavar="SOURCE", help="module:function, or a .pt2 file")
    verb.add_argument(
        "--input", action="append", default=[], metavar="NAME=DTYPE[SHAPE]",
        help="an input of a module in the order of its arguments, as in image=float32[batch,3,224,224]",
    )  # fmt: skip
    verb.add_argument(
        "--layout", type=one_of("prograd", "torch"), default="torch", metavar="{prograd,torch}",
        help="prograd has the channels of images last",
    )  # fmt: skip
    _add_bind(verb, "the size of a symbol in the written program; 1 unless given")
    _add_mixed(verb)
    add_lora(verb)
    verb.add_argument("--explain", action="store_true", help="print what cannot be imported, and write nothing")
    _add_output(verb, "the program file to write")


def _import_lm(verbs: Any) -> None:
    verb = _verb(
        verbs,
        "import lm",
        "write a language model of Hugging Face's form as a program that trains and answers",
        "The source is a folder with config.json, model.safetensors and tokenizer.json. Weights in the folder of the\n"
        "program, or below, are read where they are. --lora or --train names what is trained.",
        "compiler import lm smollm2/ --data rows.safetensors --lora 'q_proj,v_proj:r=8,alpha=16' \\",
        "    --optimizer adamw:2e-4 --batch 4 -o smol.pb",
        "compiler import lm smollm2/ -o smol.pb    # to talk with it: runtime chat smol.pb",
    )
    verb.set_defaults(module="imports.import_lm", verb="import_lm")
    verb.add_argument("source", metavar="DIR", help="the folder of the model")
    verb.add_argument("--data", metavar="FILE", help="rows of compiler data pack --chat, which the program trains on")
    verb.add_argument("--length", type=positive, metavar="N", help="codes in a row; default those of --data, or 256")
    verb.add_argument(
        "--classes", metavar="NAMES",
        help="classes of an encoder, as in 'bad,good', or their number; default those of --data, or of the folder",
    )  # fmt: skip
    verb.add_argument(
        "--vocabulary", type=positive, metavar="N", help="codes of the model; further ones begin as the mean of others"
    )
    verb.add_argument("--batch", type=positive, default=1, metavar="N", help="rows of a step; default 1")
    add_lora(verb)
    verb.add_argument(
        "--train", action="append", default=[], metavar="PATTERN",
        help="train these weights whole, as in 'model.layers.28.*'; several times",
    )  # fmt: skip
    add_weights(verb, None)
    verb.add_argument("--peft", metavar="DIR", help="begin with the adapters of a folder of PEFT, and train them")
    verb.add_argument("--optimizer", metavar="NAME:RATE", help="default adamw:2e-4; --set rate=1e-4 changes the rate")
    verb.add_argument("--accumulate", type=positive, default=1, metavar="N", help="steps of one update; default 1")
    verb.add_argument("--epochs", type=positive, default=3, metavar="N", help="passes over the rows; default 3")
    verb.add_argument("--seed", type=int64, default=0, metavar="N", help="seed of the program; default 0")
    verb.add_argument(
        "--positions", type=positive, metavar="N", help="codes of a text that is written, with its prompt; default 512"
    )
    verb.add_argument("--texts", type=positive, default=1, metavar="N", help="texts written at a time; default 1")
    _add_mixed(verb)
    _add_output(verb, "the program file to write")


def _freeze(verbs: Any) -> None:
    verb = _verb(
        verbs,
        "freeze",
        "write a program that no longer trains the matching parameters",
        "The program has none of their gradients, updates and slots. The file keeps the source blocks, so that\n"
        "thawing restores the original program with the same hash.",
        "compiler freeze digits.pb --states 'hidden.*' -o other.pb",
    )
    _add_states(verb)


def _thaw(verbs: Any) -> None:
    verb = _verb(
        verbs,
        "thaw",
        "write a program that trains the matching frozen parameters again",
        "See compiler freeze.",
        "compiler thaw digits.pb --states 'hidden.*' -o other.pb",
    )
    verb.set_defaults(module="freeze")
    _add_states(verb)


def _plan(verbs: Any) -> None:
    verb = _verb(
        verbs,
        "plan",
        "plan the memory of each entry: for the smallest arena, within a budget, or for threads",
        "The command prints the size of each arena, the ops at its peak and the times of the updates. To keep a\n"
        "budget, it recomputes values instead of storing them; with --spill it may also move values to a file. For\n"
        "several threads, an arena may grow by half, or to the budget, if more ops can then run at once. No bit of a\n"
        "result changes. The command writes the program only with -o or --in-place.",
        "compiler plan digits.pb --budget 800KiB -o small.pb",
        "compiler plan smol.pb --recompute 'layers.*' -o small.pb",
        "compiler plan digits.pb --threads 2 -o roomy.pb",
        "compiler plan digits.pb --budget 600KiB --spill -o s.pb    # then runtime execute s.pb --spill-dir /var/tmp",
    )
    verb.add_argument("program", help="a program file")
    verb.add_argument("--budget", type=size, metavar="SIZE", help="upper bound on each arena, as in 800KiB or 1000000")
    verb.add_argument(
        "--recompute", action="append", default=[], metavar="SCOPES",
        help="run the forward ops of these scopes again for their gradients, as in 'layers.*'; several times",
    )  # fmt: skip
    verb.add_argument("--spill", action="store_true", help="allow values to be moved to a file to keep the budget")
    _add_max_time(verb, "time limit of the search, as in 90, 1.5min or 2h; default 60")
    verb.add_argument(
        "--threads", type=positive, default=1, metavar="N", help="number of threads to plan for; default 1"
    )
    verb.add_argument(
        "--ranks", type=positive, metavar="N",
        help="also print the memory of each of N processes with --mpi, and their exchanges",
    )  # fmt: skip
    verb.add_argument(
        "--zero", action="store_true", help="with --ranks: the states are cut as by runtime execute --zero"
    )
    _add_dump_after(verb)
    _add_output_or_in_place(verb)


def _passes(verbs: Any) -> None:
    verb = _verb(
        verbs,
        "passes",
        "print the passes of `compile`, of `plan` and of the native engine in order",
        "For each pass, print what it does, requires and establishes, with the reasons.",
        "compiler passes plan",
    )
    verb.add_argument("tables", nargs="*", metavar="TABLE", help="compile, plan or native; default all")
    verb.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    verb.add_argument("--markdown", action="store_true", help="print the page docs/passes.md")


def _ops(verbs: Any) -> None:
    verb = _verb(
        verbs,
        "ops",
        "list all operators, or describe the named ones",
        "Each line of the list has the operands, the attributes and the first sentence of an operator.",
        "compiler ops conv2d matmul",
    )
    verb.add_argument("names", nargs="*", help="operators to describe")
    verb.add_argument("--markdown", action="store_true", help="print the whole reference, docs/ops.md")


def _verb(verbs: Any, name: str, summary: str, more: str, *examples: str) -> argparse.ArgumentParser:
    verb = add_verb(verbs, name, summary, more, *examples)
    verb.set_defaults(module=name)
    return verb


def _add_bind(verb: argparse.ArgumentParser, help: str) -> None:
    verb.add_argument("--bind", action="append", default=[], metavar="SYMBOL=SIZE", help=help)


def _add_dump_after(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--dump-after", metavar="PASS", help="print the program after this pass")


def _add_output(verb: argparse.ArgumentParser, help: str, *, required: bool = False) -> None:
    verb.add_argument("-o", "--output", metavar="FILE", required=required, help=help)
    verb.add_argument("--force", action="store_true", help="replace the file of -o if it exists")


def _add_output_or_in_place(verb: argparse.ArgumentParser) -> None:
    where = verb.add_mutually_exclusive_group()
    where.add_argument("-o", "--output", metavar="FILE", help="the program file to write")
    where.add_argument("--in-place", action="store_true", help="write to the program's own file")
    verb.add_argument("--force", action="store_true", help="replace the file of -o if it exists")


def _add_states(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("program", help="a program file")
    verb.add_argument(
        "--states", action="append", required=True, metavar="PATTERN", help="names of parameters, as in 'hidden.*'"
    )
    _add_output(verb, "the program file to write", required=True)


def _add_max_time(verb: argparse.ArgumentParser, help: str) -> None:
    verb.add_argument("--max-time", dest="seconds", type=duration, default=60.0, metavar="TIME", help=help)
