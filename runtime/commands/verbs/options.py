"""The options that several verbs have."""

from __future__ import annotations

from argparse import ArgumentTypeError
from pathlib import Path
from typing import Final

from runtime.command_line.tables import Option, one_word
from runtime.command_line.values import int64, one_of, setting, threads
from runtime.engines.choice import ENGINES


def renaming(text: str) -> tuple[str, str]:
    """Return the beginning of names and its replacement, from `OLD=NEW`."""
    old, equals, new = text.partition("=")
    if not equals or not old:
        raise ArgumentTypeError(f"{text!r} is not OLD=NEW, as in backbone.=trunk.")
    return old, new


def engine(text: str) -> str:
    """Return the name of an engine, one of those that `ENGINES` has at the time of the call."""
    return one_of(*ENGINES)(text)


ENTRY = Option("--entry NAME", "entry to run; default that of the program", passed=True, ranks="equal")
STEPS = Option(
    "--steps N",
    "total number of training steps",
    excludes={"--epochs": "--steps and --epochs both say how long to train; give one of them"},
    entries="training",
    passed=True,
    ranks="equal",
)
EPOCHS = Option("--epochs N", "total number of training epochs", entries="training", passed=True, ranks="equal")
SEED = Option("--seed N", "seed in place of the program's", int64, passed=True)
SET = Option(
    "--set NAME=NUMBER",
    "value of a setting, as in rate=3e-4; default that of the program",
    setting,
    many=True,
    dest="settings",
    passed=True,
)
THREADS = Option(
    "--threads N",
    "number of threads, which changes no result; default at most one for each usable core",
    threads,
    default="auto",
    passed=True,
)
SPILL_DIR = Option(
    "--spill-dir DIR",
    "folder on a disk for spilled values; programs of `compiler plan --spill` need it",
    Path,
    dest="spill",
    passed=True,
)
ENGINE = Option(f"--engine {one_word(ENGINES)}", "engine that computes the steps", engine, passed=True)
MPI = Option("--mpi", "share the run with the other processes that mpiexec or srun started; changes no result")
ZERO = Option(
    "--zero",
    "with --mpi: each process has its part of the optimizer's states only; changes no result",
    needs={"--mpi": "--zero cuts states among the processes of a run; give --mpi"},
    ranks="equal",
)
COLLECTIVE_TIMEOUT = Option(
    "--collective-timeout TIME",
    "with --mpi: time without an answer after which another process is lost; default 5min",
    default=300.0,
    needs={"--mpi": "--collective-timeout is how long processes of a run wait for each other; give --mpi"},
)
DATA = Option(
    "--data FILE",
    "data file in place of the program's, with the same keys, or a table: .csv, .jsonl, .parquet",
    Path,
    passed=True,
)
SPLIT = Option(
    "--split NAME", "split to read; default the one that the program names for the entry", passed=True, ranks="equal"
)
FEED = Option(
    "--feed NAME=@FILE",
    ".npy file, JSON value or text in quotes for a feed; the other feeds of the entry need one too",
    many=True,
    excludes={"--split": "--feed and --split both say which rows; give one of them"},
    passed=True,
)
DECODE = Option(
    "--decode NAME[=COLUMN]",
    "decode a fetch of numbers to the values of a packed column, or of bytes to texts by NAME=utf-8",
    many=True,
)
LOAD = Option("--load FILE", "load parameters and buffers from a file", Path, passed=True)
TAKES: Final = "--only, --rename and --layout say what --load takes"
SOME_OF_LOAD: Final = {
    "--resume": f"{TAKES}, and --resume takes all; give --load alone",
    **{
        flag: f"{flag} names one file that was loaded; save what --only, --rename and --layout took, and load that file"
        for flag in ("--record", "--attest")
    },
}

ONLY = Option(
    "--only PATTERN",
    "with --load: load only matching states, as in 'trunk.*'",
    many=True,
    needs={"--load": f"{TAKES}; give --load"},
    excludes=SOME_OF_LOAD,
    passed=True,
)
RENAME = Option(
    "--rename OLD=NEW",
    "with --load: replace the beginning OLD of names by NEW, or match a * in both",
    renaming,
    many=True,
    needs={"--load": f"{TAKES}; give --load"},
    excludes=SOME_OF_LOAD,
    passed=True,
)
LAYOUT = Option(
    "--layout {prograd,torch}",
    "convention of names and axes in the file of --load, or without --load in that of --save",
    default="prograd",
    needs={"--load --save": f"{TAKES}; give --load"},
    excludes=SOME_OF_LOAD,
    passed=True,
)
MLFLOW = Option(
    "--mlflow URI",
    "write them to a server or database of MLflow, as sqlite:///mlflow.db",
    entries="training",
    ranks="first",
)
WANDB = Option("--wandb PROJECT", "write them to a project of Weights & Biases", entries="training", ranks="first")
LOG_FORMAT = Option("--log-format {text,json}", "format of stderr", default="text")
PROGRESS = Option(
    "--progress {auto,bar,plain,none}",
    "display of progress; auto is a bar on a terminal and plain lines elsewhere",
    default="auto",
)
MAX_MEMORY = Option("--max-memory SIZE", "memory limit of the process, as in 200MiB", passed=True)
MAX_TIME = Option("--max-time TIME", "time limit of the run, as in 90, 1.5min or 2h", passed=True)
SANDBOX = Option("--sandbox", "let the operating system limit memory, time and files, for untrusted programs")
HIDDEN_LOG_FORMAT = LOG_FORMAT._replace(help="")  # of verbs that report nothing meanwhile; all verbs accept it
JSON = Option("--json", "print one JSON object instead of tables")

LENGTH = (ENTRY, STEPS, EPOCHS, SEED)
HOW = (THREADS, SPILL_DIR, ENGINE)
RANKS = (MPI, ZERO, COLLECTIVE_TIMEOUT)
ROWS = ("input rows", DATA, SPLIT, FEED)
STATES = (LOAD, ONLY, RENAME, LAYOUT)
LIMITS = (MAX_MEMORY, MAX_TIME, SANDBOX)
REPORTS = ("reports and limits", LOG_FORMAT, PROGRESS, *LIMITS)
