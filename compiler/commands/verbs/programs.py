"""The verbs that write a program anew."""

from __future__ import annotations

from compiler.commands.verbs.options import DUMP_AFTER, FORCE, MIXED, OUTPUT, REQUIRED_OUTPUT, STATES
from runtime.command_line.tables import PROGRAM, Either, Option, Verb

COMPILE = Verb(
    "compile",
    "compile a program or its text form again",
    "It can bind other sizes, leave out passes, and print the program after a pass.",
    (
        "compiler compile digits.pb --bind batch=64 -o digits64.pb",
        "compiler compile net.pb --qat int8 --keep head -o learns.pb",
    ),
    (
        Option("program", "a program file, or its text form ending in .txt"),
        Option("--bind SYMBOL=SIZE", "size of a symbol; batch=32,5 adds a last training step of 5 rows", many=True),
        OUTPUT,
        FORCE,
        DUMP_AFTER,
        Option("--without PASS", "leave out this pass", many=True),
        MIXED,
        Option("--qat FORM", "train with the numbers of codes, so that `compiler quantize` loses nothing: int8"),
        Option(
            "--keep PATTERN",
            "with --qat: leave matching parameters as they are",
            many=True,
            needs={"--qat": "--keep leaves parameters out of --qat int8; give that too"},
        ),
        Option("--option PASS.NAME=VALUE", "option of a pass; see compiler passes", many=True),
    ),
)


FREEZE = Verb(
    "freeze",
    "write a program that no longer trains the matching parameters",
    "The program has none of their gradients, updates and slots. The file keeps the source blocks, so that\n"
    "thawing restores the original program with the same hash.",
    ("compiler freeze digits.pb --states 'hidden.*' -o other.pb",),
    (PROGRAM, STATES, REQUIRED_OUTPUT, FORCE),
)


THAW = FREEZE._replace(
    name="thaw",
    summary="write a program that trains the matching frozen parameters again",
    more="See compiler freeze.",
    examples=("compiler thaw digits.pb --states 'hidden.*' -o other.pb",),
    function="compiler.commands.freeze.thaw",
)


PLAN = Verb(
    "plan",
    "plan the memory of each entry: for the smallest arena, within a budget, or for threads",
    "The command prints the size of each arena, the ops at its peak and the times of the updates. To keep a\n"
    "budget, it recomputes values instead of storing them; with --spill it may also move values to a file. For\n"
    "several threads, an arena may grow by half, or to the budget, if more ops can then run at once. No bit of a\n"
    "result changes. The command writes the program only with -o or --in-place.",
    (
        "compiler plan digits.pb --budget 800KiB -o small.pb",
        "compiler plan smol.pb --recompute 'layers.*' -o small.pb",
        "compiler plan digits.pb --threads 2 -o roomy.pb",
        "compiler plan digits.pb --budget 600KiB --spill -o s.pb    # then runtime execute s.pb --spill-dir /var/tmp",
    ),
    (
        PROGRAM,
        Option("--budget SIZE", "upper bound on each arena, as in 800KiB or 1000000"),
        Option(
            "--recompute SCOPES",
            "run the forward ops of these scopes again for their gradients, as in 'layers.*'; several times",
            many=True,
        ),
        Option(
            "--spill",
            "allow values to be moved to a file to keep the budget",
            needs={"--budget": "--spill is a way to keep a budget; give --budget"},
        ),
        Option(
            "--max-time TIME",
            "time limit of the search, as in 90, 1.5min or 2h; default 60",
            default=60.0,
            dest="seconds",
        ),
        Option("--threads N", "number of threads to plan for; default 1", default=1),
        Option("--ranks N", "also print the memory of each of N processes with --mpi, and their exchanges"),
        Option(
            "--zero",
            "with --ranks: the states are cut as by runtime execute --zero",
            needs={"--ranks": "--zero cuts states among ranks; say how many there are, as in --ranks 4"},
        ),
        DUMP_AFTER,
        Either((OUTPUT, Option("--in-place", "write to the program's own file"))),
        FORCE,
    ),
)
