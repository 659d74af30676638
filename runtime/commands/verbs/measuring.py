"""The verbs that check, measure and draw."""

from __future__ import annotations

from pathlib import Path

from runtime.command_line.tables import PROGRAM, Option, Verb
from runtime.command_line.values import counts
from runtime.commands.verbs.options import (
    ENGINE,
    ENTRY,
    HIDDEN_LOG_FORMAT,
    HOW,
    JSON,
    LIMITS,
    MAX_MEMORY,
    RANKS,
    ROWS,
    SET,
    SPILL_DIR,
)
from runtime.commands.verbs.running import EXECUTE

CHECK = Verb(
    "check",
    "check that a program is well formed and safe to run, and that its files exist",
    "The command checks all indices, names, types, sizes, paths and operators. It runs no operation.",
    ("runtime check digits.pb",),
    (PROGRAM, HIDDEN_LOG_FORMAT),
)


PROFILE = Verb(
    "profile",
    "measure time and memory of a step by op type, stage, source line, thread and op",
    "Changed states are discarded. Feeds without data and without --feed are zeros.",
    (
        "runtime profile digits.pb --steps 50",
        "runtime profile digits.pb --entry predict --by op",
        "runtime profile digits.pb --threads 2 --trace steps.json",
        "runtime profile digits.pb --json > profile.json",
    ),
    (
        PROGRAM,
        ENTRY,
        Option("--steps N", "number of measured steps, after two others; default 20", default=20, ranks="equal"),
        SET,
        *HOW,
        Option("--by {type,stage,line,thread,op}", "print this table only"),
        Option("--trace FILE", "write times and memory, for chrome://tracing", Path, ranks="first"),
        Option("--force", "replace the file of --trace"),
        JSON,
        *RANKS,
        *LIMITS,
        *ROWS,
    ),
    like=EXECUTE,
)


BENCH = Verb(
    "bench",
    "measure the speed of steps: steps and operations a second, the share of peak performance, and each group",
    "Engines and numbers of threads alternate; the command prints medians. A multiplication and an addition count\n"
    "as two operations, any other op as one for each element. Changed states are discarded.",
    (
        "runtime bench digits.pb",
        "runtime bench digits.pb --against reference --threads 1,2",
        "runtime bench digits.pb --entry predict --json > bench.json",
    ),
    (
        PROGRAM,
        ENTRY,
        Option(
            "--threads N,...",
            "numbers of threads, the first of which groups are shown for; default one for each usable core",
            counts,
            default="auto",
        ),
        ENGINE,
        ENGINE._replace(usage=f"--against {ENGINE.value}", help="another engine to compare with"),
        SPILL_DIR,
        MAX_MEMORY,
        JSON,
        *ROWS,
    ),
)


CACHE = Verb(
    "cache",
    "list the cached machine code: folder, program, instruction set and size",
    "The native engine stores compiled code for later runs; PROGRAD_CACHE names the folder.",
    ("runtime cache", "runtime cache --clear", "runtime cache --json"),
    (
        Option("--clear", "remove all cached code"),
        Option("--json", "print one JSON object instead of a table"),
        HIDDEN_LOG_FORMAT,
    ),
)


PLOT = Verb(
    "plot",
    "draw metrics of one or several runs, and tables of metrics",
    "Files of execute --metrics give curves and the histograms of --watch; .npy files give confusion matrices or\n"
    "ROC curves. It needs the extra `plot`.",
    (
        "runtime plot metrics.jsonl -o curves.svg",
        "runtime plot run1.jsonl run2.csv --metric loss --metric accuracy -o curves.html",
        "runtime plot confusion.npy --classes penguins.pb -o confusion.png",
    ),
    (
        Option("files FILE", "file of metrics, .jsonl or .csv, or array, .npy", Path, nargs="+"),
        Option("-o FILE", "picture to write: .svg, .png or self-contained .html", Path, required=True),
        Option("--metric NAME", "metric to draw; default all", many=True),
        Option(
            "--watch PATTERN",
            "parameters whose histograms are drawn, as in 'layer1.*'; default all, or none with --metric",
            many=True,
        ),
        Option("--classes PROGRAM", "program whose encoding names the classes of confusion matrices", Path),
        Option("--force", "replace the picture"),
        HIDDEN_LOG_FORMAT,
    ),
)
