"""The verbs that make a run, and those that repeat one."""

from __future__ import annotations

from argparse import ArgumentTypeError
from pathlib import Path

from runtime.command_line.tables import PROGRAM, Either, Option, Verb
from runtime.command_line.values import fold, interval, part, tolerance
from runtime.commands.verbs.options import DECODE, HOW, LENGTH, LOAD, MLFLOW, RANKS, REPORTS, ROWS, SET, STATES, WANDB


def sha256(text: str) -> str:
    """Return 64 hexadecimal digits in lower case."""
    if len(text) != 64 or not set(text.lower()) <= set("0123456789abcdef"):
        raise ArgumentTypeError(f"{text!r} is no SHA-256: 64 hexadecimal digits")
    return text.lower()


def metrics_file(text: str) -> Path:
    """Return the path of a file of metrics, whose name ends in .csv or .jsonl."""
    path = Path(text)
    if path.suffix not in (".csv", ".jsonl"):
        raise ArgumentTypeError(f"{text!r} ends in neither .csv nor .jsonl")
    return path


EXECUTE = Verb(
    "execute",
    "run a program: its declared training and evaluation, or one of its entries",
    "Results go to stdout, where the last line is a summary; progress and messages go to stderr.",
    (
        "runtime execute digits.pb",
        "runtime execute digits.pb --epochs 3 --save trained.safetensors",
        "runtime execute digits.pb --set rate=3e-4",
        "runtime execute digits.pb --checkpoint run1 --every 100    # to continue it later:",
        "runtime execute digits.pb --checkpoint run1 --every 100 --resume",
        "runtime execute digits.pb --entry evaluate --load trained.safetensors",
        "runtime execute digits.pb --entry predict --load trained.safetensors \\",
        "    --feed image=@images.npy --fetch probabilities=@p.npy",
        "runtime execute iris.pb --entry predict --load trained.safetensors --data new.csv --out predictions.csv",
        "runtime execute small.pb --spill-dir /var/tmp    # made by compiler plan --spill",
        "mpiexec -n 4 runtime execute big.pb --mpi    # a program with shards",
    ),
    (
        PROGRAM,
        "what to run",
        *LENGTH,
        SET,
        *HOW,
        *RANKS,
        Option(
            "--check-nan",
            "check the outputs of all ops for NaN and Inf, and name the first such op with its inputs",
            ranks="equal",
        ),
        Option(
            "--reproduce DIR",
            "with --check-nan: write the failing step as a program with its states and rows",
            Path,
            needs={"--check-nan": "--reproduce keeps what --check-nan finds; give --check-nan"},
            excludes={"--zero": "--reproduce keeps whole states, and --zero cuts them; leave one of them out"},
            ranks="first",
        ),
        Option(
            "--fold I/K",
            "evaluate on the I-th of K parts of the rows of the training split, and train on the others",
            fold,
            excludes={
                flag: f"{flag} says what to replay, and --fold is no part of it; leave one out"
                for flag in ("--record", "--attest")
            },
            entries="training",
            ranks="equal",
        ),
        Option(
            "--part I/N",
            "compute the I-th of N ranges of the rows, as a job of an array; for entries with results for each row",
            part,
            excludes={
                "--out": "--part joins arrays of --fetch; leave --out out",
                "--mpi": "--part and --mpi both share the rows; give one of them",
                "--scheduler": "--scheduler makes the parts itself; leave --part out",
            },
            entries="prediction",
        ),
        Option(
            "--scheduler ADDRESS",
            "compute such parts on the workers of a Dask cluster, as in tcp://host:8786; needs the extra `cluster`",
            excludes={
                "--out": "--scheduler joins arrays of --fetch; leave --out out",
                "--mpi": "--scheduler and --mpi both share the rows; give one of them",
            },
            entries="prediction",
        ),
        *ROWS,
        "output arrays",
        Option(
            "--out FILE",
            "write predictions as a table with ids, classes, probabilities or numbers: .csv, .tsv, .jsonl or .parquet",
            Path,
            excludes={"--expect": "--out writes a table, and --expect compares arrays; leave one of them out"},
        ),
        Option(
            "--id COLUMN",
            "with --out: column of the table of --data that names its rows; default id",
            needs={"--out": "--id names the rows of a table of predictions; give --out predictions.csv"},
        ),
        Option(
            "--fetch NAME[=@FILE]",
            "print a fetch or any other tensor of the entry, or write it to a .npy file",
            many=True,
            ranks="equal",
        ),
        DECODE,
        Option(
            "--expect NAME=@FILE",
            "compare a fetch with a .npy file; a difference gives the exit code 1",
            many=True,
            ranks="equal",
        ),
        Option(
            "--rtol X",
            "relative tolerance of --expect; default 1e-5",
            tolerance,
            default=1e-05,
            needs={"--expect": "--rtol is a tolerance of --expect; give --expect NAME=@FILE"},
        ),
        Option(
            "--atol X",
            "absolute tolerance of --expect; default 1e-8",
            tolerance,
            default=1e-08,
            needs={"--expect": "--atol is a tolerance of --expect; give --expect NAME=@FILE"},
        ),
        "states",
        *STATES,
        Option("--save FILE", "write all states at the end", Path, ranks="states"),
        Option(
            "--in-place",
            "save to the file that --load names",
            needs={"--load": "--in-place saves to the file of --load; give --load"},
            excludes={"--save": "--in-place and --save both say where to save; give one of them"},
            ranks="states",
        ),
        Option("--checkpoint DIR", "write checkpoints to a folder", Path, entries="training"),
        Option(
            "--every N",
            "steps between two checkpoints; default an epoch",
            needs={"--checkpoint": "--every says how often to write checkpoints; give --checkpoint"},
            ranks="equal",
        ),
        Option("--keep K", "number of checkpoints to keep; default 3", default=3),
        Option(
            "--keep-best K",
            "number of checkpoints of the best evaluations to keep besides; default the program's",
            needs={"--checkpoint": "--keep-best keeps checkpoints; give --checkpoint"},
            ranks="equal",
        ),
        Option(
            "--resume",
            "continue from the newest checkpoint in --checkpoint, or from the file of --load",
            needs={"--checkpoint --load": "--resume goes on from --checkpoint DIR or --load FILE"},
            excludes={"--seed": "--seed begins a run, and --resume goes on with one"},
            entries="training",
            ranks="equal",
        ),
        Option(
            "--retarget-schedule",
            "resume with another total number of steps",
            needs={"--resume": "--retarget-schedule belongs to --resume"},
        ),
        *(
            Option(
                f"--change-{what}",
                help,
                needs={"--resume": f"--change-{what} belongs to --resume"},
                excludes={
                    flag: f"{flag} says what a run was from its start, and --change-{what} makes two of it; "
                    "leave one of them out"
                    for flag in ("--record", "--attest")
                },
            )
            for what, help in (("settings", "resume with other values of settings"), ("data", "resume with other rows"))
        ),
        Option("--force", "replace files, and remove another run's checkpoints"),
        "files that describe the run",
        Option(
            "--metrics FILE",
            "write metrics of each step and epoch to a .csv or .jsonl file",
            Path,
            entries="training",
            ranks="first",
        ),
        Option(
            "--tensorboard DIR",
            "write metrics of each step and epoch to an event file for TensorBoard",
            Path,
            entries="training",
            ranks="first",
        ),
        MLFLOW,
        WANDB,
        Option(
            "--watch PATTERN",
            "parameters, as in 'layer1.*', whose histograms, with those of their gradients, are written each epoch "
            "to a .jsonl file of --metrics or to --tensorboard",
            many=True,
            entries="training",
            ranks="equal",
        ),
        Option(
            "--trace FILE",
            "write the time of each op, for chrome://tracing",
            Path,
            excludes={"--check-nan": "--trace and --check-nan both look at every op; give one of them"},
            ranks="first",
        ),
        Option(
            "--record FILE",
            "write the inputs, the results and the machine of the run, for runtime replay",
            Path,
            ranks="first",
        ),
        Option(
            "--attest FILE",
            "write an in-toto statement with a chain of hashes through the training, for runtime audit",
            Path,
            excludes={"--mpi": "--attest follows a run of one process; leave --mpi out"},
            entries="training",
        ),
        Option(
            "--chain N",
            "with --attest: steps between two links of the chain; default 100",
            needs={"--attest": "--chain says how often --attest takes the states' hash; give --attest"},
        ),
        Option(
            "--sign FILE",
            "with --attest: sign it by a private Ed25519 key, a PEM file",
            Path,
            needs={"--attest": "--sign signs the statement of --attest; give --attest"},
        ),
        *REPORTS,
    ),
)


REPLAY = Verb(
    "replay",
    "repeat a run, and compare its result with that of the first run",
    "The exit code is 0 if the hash of all states, and the metrics where given, are as expected, and else 1.",
    (
        "runtime execute digits.pb --record run.json --metrics m.csv",
        "runtime replay digits.pb --record run.json --expect-metrics m.csv",
        "runtime replay digits.pb --epochs 3 --expect-sha256 ba807f...",
    ),
    (
        PROGRAM,
        "expected result",
        Either(
            (
                Option("--record FILE", "file written by execute --record", Path, dest="recorded"),
                Option("--expect-sha256 HEX", "state_sha256 of a result line", sha256),
            ),
            required=True,
        ),
        Option("--expect-metrics FILE", "file written by execute --metrics", metrics_file),
        "what to run",
        *LENGTH,
        SET,
        *HOW,
        *ROWS,
        "options",
        LOAD,
        *REPORTS,
    ),
    like=EXECUTE,
)


AUDIT = Verb(
    "audit",
    "repeat a part of an attested run, and name the first step that differs",
    "The exit code is 0 if all files are those of the statement and all steps of the interval are equal, else 1.",
    (
        "runtime execute digits.pb --attest run.intoto.json --chain 100 --checkpoint run1 --keep 1000",
        "runtime audit digits.pb --attest run.intoto.json --checkpoint run1 --interval 300:400",
        "runtime audit digits.pb --attest run.intoto.json    # all of it, from the start",
    ),
    (
        PROGRAM,
        "what to audit",
        Option("--attest FILE", "statement written by execute --attest", Path, required=True),
        Option(
            "--interval A:B",
            "repeat the steps after step A up to step B, at which the chain has links; default all",
            interval,
        ),
        Option("--checkpoint DIR", "folder with the checkpoint of step A; without, A is 0", Path),
        Option("--key FILE", "public Ed25519 key that must have signed, a PEM file", Path),
        *HOW,
        *ROWS,
        "options",
        LOAD,
        *REPORTS,
    ),
    like=EXECUTE,
)
