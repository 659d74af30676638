"""The verb that makes many runs."""

from __future__ import annotations

from pathlib import Path

from runtime.command_line.tables import PROGRAM, Either, Option, Verb
from runtime.command_line.values import choices, part
from runtime.commands.verbs.options import ENTRY, EPOCHS, HOW, LOAD, MLFLOW, SEED, STEPS, THREADS, WANDB

SEARCHES = "tries values of settings; name them, as in --set rate=1e-5..1e-1:log"

SWEEP = Verb(
    "sweep",
    "run a program with several values of its settings and several seeds, and compare the results",
    "Each run is a process of its own, so a failure does not stop the other runs. Runs are sorted by the metric of "
    "the program's best states, else by the loss. The commands that repeat them follow the table.",
    (
        "runtime sweep digits.pb --set rate=1e-4,3e-4,1e-3 --seeds 3 --jobs 2",
        "runtime sweep digits.pb --set rate=1e-3,1e-2 --set drop=0,0.5 --epochs 5 --results runs.jsonl",
        "runtime sweep digits.pb --set rate=1e-5..1e-1:log --set drop=0..0.5 --random 20 --folds 5 --jobs 2",
        "runtime sweep digits.pb --set rate=1e-4,1e-3 --seeds 8 --part 3/16 --results parts/3.jsonl    # then:",
        "runtime sweep digits.pb --merge parts",
    ),
    (
        PROGRAM,
        "what to run",
        Option(
            "--set NAME=NUMBER,NUMBER",
            "values of a setting, of which all combinations run; or a range LOW..HIGH or LOW..HIGH:log for a search",
            choices,
            many=True,
            dest="choices",
        ),
        Either(
            (
                Option(
                    "--random N",
                    "try N random settings instead of combinations",
                    needs={"--set": f"--random {SEARCHES}"},
                ),
                Option(
                    "--bayes N",
                    "try N settings, each proposed by the results so far; needs the extra `search`",
                    needs={"--set": f"--bayes {SEARCHES}"},
                    excludes={
                        "--part": "--bayes tries settings by the results of all earlier runs, which a --part does not "
                        "have"
                    },
                ),
            )
        ),
        Option(
            "--folds K",
            "cross-validate: K runs of each settings, each evaluated on another K-th of the rows to train on",
        ),
        Option("--seeds N", "number of consecutive seeds, beginning with --seed; default 1", default=1),
        Option("--jobs N", "number of concurrent runs; default 1"),
        Option(
            "--part I/N",
            "make every N-th run only, beginning with the I-th, as a job of an array; --merge joins the parts",
            part,
        ),
        Option(
            "--scheduler ADDRESS",
            "make the runs on the workers of a Dask cluster, as in tcp://host:8786; needs the extra `cluster`",
        ),
        ENTRY,
        STEPS,
        EPOCHS,
        SEED._replace(passed=False),  # each run has one of its own
        THREADS._replace(default=None),  # concurrent runs share the cores
        *HOW[1:],
        Option("--data FILE", "data file in place of the program's, with the same keys", Path, passed=True),
        Option("--split NAME", "split to train on; default that of the program", passed=True),
        LOAD,
        Option("--max-memory SIZE", "memory limit of each run, as in 200MiB", passed=True),
        Option("--max-time TIME", "time limit of each run, as in 90, 1.5min or 2h", passed=True),
        "results",
        Option("--results FILE", "write a line of JSON at the end of each run", Path),
        Option(
            "--merge FILE",
            "make no run, and print the table of a file of --results, or of all .jsonl files in a folder",
            Path,
            many=True,
            excludes={
                "--set --part --scheduler --results": "--merge makes no run: it prints the table of runs that were "
                "made; leave other options out"
            },
        ),
        Option("--force", "replace the file of --results, and events of --tensorboard"),
        Option(
            "--tensorboard DIR",
            "write metrics of each step and epoch to an event file for TensorBoard, for each run in a folder DIR/run-N",
            Path,
        ),
        MLFLOW,
        WANDB,
        Option("--json", "print these lines instead of the table"),
    ),
)
