"""The options that several verbs have."""

from __future__ import annotations

import argparse
from argparse import ArgumentTypeError
from pathlib import Path
from typing import Any

from runtime.command_line.values import duration, fold, int64, one_of, part, positive, setting, size, threads
from runtime.engines.choice import ENGINES


def add_what(group: Any) -> None:
    """Add the options for the entry, its length, seed and settings."""
    add_length(group)
    add_settings(group)


def add_entry(group: Any) -> None:
    """Add the option for the entry."""
    group.add_argument("--entry", metavar="NAME", help="entry to run; default that of the program")


def add_length(group: Any) -> None:
    """Add the options for the entry, its length and its seed."""
    add_entry(group)
    group.add_argument("--steps", type=positive, metavar="N", help="total number of training steps")
    group.add_argument("--epochs", type=positive, metavar="N", help="total number of training epochs")
    group.add_argument("--seed", type=int64, metavar="N", help="seed in place of the program's")


def add_fold(group: Any) -> None:
    """Add the option for one run of a cross-validation."""
    group.add_argument(
        "--fold", type=fold, metavar="I/K",
        help="evaluate on the I-th of K parts of the rows of the training split, and train on the others",
    )  # fmt: skip


def add_settings(group: Any) -> None:
    """Add the options for settings of the program."""
    group.add_argument(
        "--set", dest="settings", action="append", default=[], type=setting, metavar="NAME=NUMBER",
        help="value of a setting, as in rate=3e-4; default that of the program",
    )  # fmt: skip


def _add_threads(group: Any) -> None:
    group.add_argument(
        "--threads", type=threads, default="auto", metavar="N",
        help="number of threads, which changes no result; default at most one for each usable core",
    )  # fmt: skip
    group.add_argument(
        "--schedule", type=one_of("fifo", "parallel"), metavar="{fifo,parallel}",
        help="run ops in the order of the list, or when their inputs are ready; default parallel with several threads",
    )  # fmt: skip


def add_spill(group: Any) -> None:
    """Add the option for the folder of the spill file."""
    group.add_argument(
        "--spill-dir", dest="spill", type=Path, metavar="DIR",
        help="folder on a disk for spilled values; programs of `compiler plan --spill` need it",
    )  # fmt: skip


def add_decode(group: Any) -> None:
    """Add the option by which fetches become values of columns, or texts."""
    group.add_argument(
        "--decode", action="append", default=[], metavar="NAME[=COLUMN]",
        help="decode a fetch of numbers to the values of a packed column, or of bytes to texts by NAME=utf-8",
    )  # fmt: skip


def add_engine(group: Any, flag: str = "--engine", what: str = "engine that computes the steps") -> None:
    """Add the option for the engine."""
    group.add_argument(flag, type=one_of(*ENGINES), metavar=f"{{{','.join(ENGINES)}}}", help=what)


def add_how(group: Any) -> None:
    """Add the options for the engine and its way of computing."""
    _add_threads(group)
    add_spill(group)
    add_engine(group)
    group.add_argument(
        "--math",
        type=one_of("exact"),
        default="exact",
        metavar="{exact}",
        help="arithmetic; exact computes as the program says",
    )


def add_ranks(group: Any) -> None:
    """Add the options for a run of several processes."""
    group.add_argument(
        "--mpi", action="store_true",
        help="share the run with the other processes that mpiexec or srun started; changes no result",
    )  # fmt: skip
    group.add_argument(
        "--zero", action="store_true",
        help="with --mpi: each process has its part of the optimizer's states only; changes no result",
    )  # fmt: skip
    group.add_argument(
        "--collective-timeout", type=duration, default=300.0, metavar="TIME",
        help="with --mpi: time without an answer after which another process is lost; default 5min",
    )  # fmt: skip


def add_parts(group: Any) -> None:
    """Add the options for parts of a batch prediction."""
    group.add_argument(
        "--part", type=part, metavar="I/N",
        help="compute the I-th of N ranges of the rows, as a job of an array; for entries with results for each row",
    )  # fmt: skip
    group.add_argument(
        "--scheduler", metavar="ADDRESS",
        help="compute such parts on the workers of a Dask cluster, as in tcp://host:8786; needs the extra `cluster`",
    )  # fmt: skip


def add_memory(group: Any, whose: str = "the process") -> None:
    """Add the option for the memory limit."""
    group.add_argument("--max-memory", type=size, metavar="SIZE", help=f"memory limit of {whose}, as in 200MiB")


def add_limits(group: Any) -> None:
    """Add the options for the limits of the process."""
    add_memory(group)
    group.add_argument(
        "--max-time", type=duration, metavar="TIME", help="time limit of the run, as in 90, 1.5min or 2h"
    )
    group.add_argument(
        "--sandbox",
        action="store_true",
        help="let the operating system limit memory, time and files, for untrusted programs",
    )


def add_rows(verb: argparse.ArgumentParser) -> None:
    """Add the options for the source of rows."""
    rows = verb.add_argument_group("input rows")
    rows.add_argument(
        "--data",
        type=Path,
        metavar="FILE",
        help="data file in place of the program's, with the same keys, or a table: .csv, .jsonl, .parquet",
    )
    rows.add_argument(
        "--split", metavar="NAME", help="split to read; default the one that the program names for the entry"
    )
    rows.add_argument(
        "--feed", action="append", default=[], metavar="NAME=@FILE",
        help=".npy file, JSON value or text in quotes for a feed; the other feeds of the entry need one too",
    )  # fmt: skip


def add_file_of_states(group: Any) -> None:
    """Add the argument for a file of states."""
    group.add_argument("--load", type=Path, metavar="FILE", help="load parameters and buffers from a file")


def add_load(states: Any) -> None:
    """Add the options for a file of states, and for the states to load from it."""
    add_file_of_states(states)
    states.add_argument(
        "--only", action="append", default=[], metavar="PATTERN",
        help="with --load: load only matching states, as in 'trunk.*'",
    )  # fmt: skip
    states.add_argument(
        "--rename", action="append", default=[], type=_rule, metavar="OLD=NEW",
        help="with --load: replace the beginning OLD of names by NEW, or match a * in both",
    )  # fmt: skip
    states.add_argument(
        "--layout", type=one_of("prograd", "torch"), default="prograd", metavar="{prograd,torch}",
        help="convention of names and axes in the file of --load, or without --load in that of --save",
    )  # fmt: skip


def add_states(verb: argparse.ArgumentParser) -> None:
    """Add the options for files of states: read, written, checkpoints."""
    states = verb.add_argument_group("states")
    add_load(states)
    states.add_argument("--save", type=Path, metavar="FILE", help="write all states at the end")
    states.add_argument("--in-place", action="store_true", help="save to the file that --load names")
    states.add_argument("--checkpoint", type=Path, metavar="DIR", help="write checkpoints to a folder")
    states.add_argument("--every", type=positive, metavar="N", help="steps between two checkpoints; default an epoch")
    states.add_argument(
        "--keep", type=positive, default=3, metavar="K", help="number of checkpoints to keep; default 3"
    )
    states.add_argument(
        "--keep-best", type=positive, metavar="K",
        help="number of checkpoints of the best evaluations to keep besides; default the program's",
    )  # fmt: skip
    states.add_argument(
        "--resume", action="store_true",
        help="continue from the newest checkpoint in --checkpoint, or from the file of --load",
    )  # fmt: skip
    states.add_argument("--retarget-schedule", action="store_true", help="resume with another total number of steps")
    states.add_argument("--change-settings", action="store_true", help="resume with other values of settings")
    states.add_argument("--change-data", action="store_true", help="resume with other rows")
    states.add_argument("--force", action="store_true", help="replace files, and remove another run's checkpoints")


def add_no_log_format(verb: argparse.ArgumentParser) -> None:
    """Add the hidden option --log-format to a verb that reports nothing meanwhile, so that all verbs accept it."""
    verb.add_argument("--log-format", type=one_of("text", "json"), default="text", help=argparse.SUPPRESS)


def add_files(verb: argparse.ArgumentParser) -> None:
    """Add the options for files that describe the run."""
    files = verb.add_argument_group("files that describe the run")
    files.add_argument(
        "--metrics", type=Path, metavar="FILE", help="write metrics of each step and epoch to a .csv or .jsonl file"
    )
    add_trackers(files, "an event file for TensorBoard")
    files.add_argument("--trace", type=Path, metavar="FILE", help="write the time of each op, for chrome://tracing")
    files.add_argument(
        "--record",
        type=Path,
        metavar="FILE",
        help="write the inputs, the results and the machine of the run, for runtime replay",
    )
    files.add_argument(
        "--attest", type=Path, metavar="FILE",
        help="write an in-toto statement with a chain of hashes through the training, for runtime audit",
    )  # fmt: skip
    files.add_argument(
        "--chain", type=positive, metavar="N", help="with --attest: steps between two links of the chain; default 100"
    )
    files.add_argument(
        "--sign", type=Path, metavar="FILE", help="with --attest: sign it by a private Ed25519 key, a PEM file"
    )


def add_trackers(group: Any, what: str) -> None:
    """Add the options for trackers of experiments; `what` is what TensorBoard gets."""
    group.add_argument(
        "--tensorboard", type=Path, metavar="DIR", help=f"write metrics of each step and epoch to {what}"
    )
    group.add_argument(
        "--mlflow", metavar="URI", help="write them to a server or database of MLflow, as sqlite:///mlflow.db"
    )
    group.add_argument("--wandb", metavar="PROJECT", help="write them to a project of Weights & Biases")


def add_reports(verb: argparse.ArgumentParser) -> None:
    """Add the options for progress reports and limits."""
    reports = verb.add_argument_group("reports and limits")
    reports.add_argument(
        "--log-format", type=one_of("text", "json"), default="text", metavar="{text,json}", help="format of stderr"
    )
    reports.add_argument(
        "--progress", type=one_of("auto", "bar", "plain", "none"), default="auto", metavar="{auto,bar,plain,none}",
        help="display of progress; auto is a bar on a terminal and plain lines elsewhere",
    )  # fmt: skip
    reports.add_argument(
        "--watch", action="append", default=[], metavar="PATTERN",
        help="parameters, as in 'layer1.*', whose histograms, with those of their gradients, are written each epoch "
        "to a .jsonl file of --metrics or to --tensorboard",
    )  # fmt: skip
    add_limits(reports)


def _rule(text: str) -> tuple[str, str]:
    old, equals, new = text.partition("=")
    if not equals or not old:
        raise ArgumentTypeError(f"{text!r} is not OLD=NEW, as in backbone.=trunk.")
    return old, new
