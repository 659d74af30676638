"""The options that several verbs have."""

from __future__ import annotations

import argparse
from argparse import ArgumentTypeError
from pathlib import Path
from typing import Any

from runtime.command_line.parsing import add_old_word
from runtime.command_line.values import duration, int64, one_of, positive, setting, size, threads
from runtime.engines.choice import ENGINES


def add_what(group: Any) -> None:
    """Add the options for the entry, its length, seed and settings."""
    add_length(group)
    add_settings(group)


def add_entry(group: Any) -> None:
    """Add the option for the entry."""
    group.add_argument("--entry", metavar="NAME", help="the entry; the one that the program names unless given")


def add_length(group: Any) -> None:
    """Add the options for the entry, its length and its seed."""
    add_entry(group)
    group.add_argument("--steps", type=positive, metavar="N", help="train for so many steps in all")
    group.add_argument("--epochs", type=positive, metavar="N", help="train for so many epochs in all")
    group.add_argument("--seed", type=int64, metavar="N", help="in place of the program's seed")


def add_settings(group: Any) -> None:
    """Add the options for settings of the program."""
    group.add_argument(
        "--set", dest="settings", action="append", default=[], type=setting, metavar="NAME=NUMBER",
        help="a setting of the program, as in rate=3e-4; its own value unless given",
    )  # fmt: skip


def _add_threads(group: Any) -> None:
    group.add_argument(
        "--threads", type=threads, default="auto", metavar="N",
        help="one for each core that the process may use unless given; the results do not depend on it",
    )  # fmt: skip
    group.add_argument(
        "--schedule", type=one_of("fifo", "parallel"), metavar="{fifo,parallel}",
        help="the order of the op list, or each op when it can; parallel with more than one thread",
    )  # fmt: skip


def add_spill(group: Any) -> None:
    """Add the option for the folder of the spill file."""
    group.add_argument(
        "--spill-dir", dest="spill", type=Path, metavar="DIR",
        help="a folder on a disk, for the file that a program needs that `compiler plan --spill` made",
    )  # fmt: skip
    add_old_word(group, "--spill", dest="spill", type=Path)


def add_engine(group: Any, flag: str = "--engine", what: str = "what computes") -> None:
    """Add the option for the engine."""
    group.add_argument(flag, type=one_of(*ENGINES), metavar=f"{{{','.join(ENGINES)}}}", help=what)


def add_how(group: Any) -> None:
    """Add the options for the engine and its way of computing."""
    _add_threads(group)
    add_spill(group)
    add_engine(group)
    group.add_argument("--math", type=one_of("exact"), default="exact", metavar="{exact}", help="how it computes")


def add_memory(group: Any, whose: str = "the process") -> None:
    """Add the option for the memory limit."""
    group.add_argument("--max-memory", type=size, metavar="SIZE", help=f"of {whose}, as in 200MiB")


def add_limits(group: Any) -> None:
    """Add the options for the limits of the process."""
    add_memory(group)
    group.add_argument("--max-time", type=duration, metavar="TIME", help="of the run, as in 90, 1.5min or 2h")
    group.add_argument(
        "--sandbox", action="store_true", help="let the system limit memory, time and files, for a stranger's program"
    )


def add_rows(verb: argparse.ArgumentParser) -> None:
    """Add the options for the source of rows."""
    rows = verb.add_argument_group("rows in")
    rows.add_argument(
        "--data", type=Path, metavar="FILE", help="in place of the program's data file, with its keys; or a .csv"
    )
    rows.add_argument(
        "--split", metavar="NAME", help="the rows; those that the program names for the entry unless given"
    )
    rows.add_argument(
        "--feed", action="append", default=[], metavar="NAME=@FILE",
        help="a .npy file, or a JSON value, for a feed; then all feeds of the entry are given so",
    )  # fmt: skip


def add_file_of_states(group: Any) -> None:
    """Add the argument for a file of states."""
    group.add_argument("--load", type=Path, metavar="FILE", help="take parameters and buffers from a file")


def add_load(states: Any) -> None:
    """Add the options for a file of states, and for the states to load from it."""
    add_file_of_states(states)
    states.add_argument(
        "--only", action="append", default=[], metavar="PATTERN",
        help="of --load: states such as 'trunk.*', and no others",
    )  # fmt: skip
    states.add_argument(
        "--rename", action="append", default=[], type=_rule, metavar="OLD=NEW",
        help="of --load: tensors that begin with OLD begin with NEW; or with a * in both",
    )  # fmt: skip
    states.add_argument(
        "--layout", type=one_of("prograd", "torch"), default="prograd", metavar="{prograd,torch}",
        help="whose names and axes the file of --load has, or without --load that of --save",
    )  # fmt: skip


def add_states(verb: argparse.ArgumentParser) -> None:
    """Add the options for files of states: read, written, checkpoints."""
    states = verb.add_argument_group("states")
    add_load(states)
    states.add_argument("--save", type=Path, metavar="FILE", help="write all states at the end")
    states.add_argument("--in-place", action="store_true", help="save to the file that --load names")
    states.add_argument("--checkpoint", type=Path, metavar="DIR", help="write checkpoints into a folder")
    states.add_argument("--every", type=positive, metavar="N", help="steps between two; each epoch unless given")
    states.add_argument("--keep", type=positive, default=3, metavar="K", help="how many stay; default 3")
    states.add_argument(
        "--resume", action="store_true",
        help="go on from the newest checkpoint of --checkpoint, or from the file that --load names",
    )  # fmt: skip
    states.add_argument(
        "--retarget-schedule", action="store_true", help="resume although the number of steps in all is another"
    )
    states.add_argument(
        "--change-settings", action="store_true", help="resume although --set names another value than the run has"
    )
    states.add_argument(
        "--change-data", action="store_true", help="resume although the rows are others than the run began with"
    )
    states.add_argument("--force", action="store_true", help="replace files, and remove another run's checkpoints")


def add_no_log_format(verb: argparse.ArgumentParser) -> None:
    """Add the hidden option --log-format to a verb that reports nothing meanwhile, so that all verbs accept it."""
    verb.add_argument("--log-format", type=one_of("text", "json"), default="text", help=argparse.SUPPRESS)


def add_files(verb: argparse.ArgumentParser) -> None:
    """Add the options for files that describe the run."""
    files = verb.add_argument_group("files about the run")
    files.add_argument(
        "--metrics", type=Path, metavar="FILE", help="write every step and epoch to a .csv or .jsonl file"
    )
    files.add_argument(
        "--tensorboard", type=Path, metavar="DIR", help="write every step and epoch to an event file for TensorBoard"
    )
    files.add_argument("--trace", type=Path, metavar="FILE", help="write the time of every op, for chrome://tracing")
    files.add_argument(
        "--record", type=Path, metavar="FILE", help="write what was run, what it gave and where, for runtime replay"
    )


def add_reports(verb: argparse.ArgumentParser) -> None:
    """Add the options for progress reports and limits."""
    reports = verb.add_argument_group("reports and limits")
    reports.add_argument(
        "--log-format", type=one_of("text", "json"), default="text", metavar="{text,json}", help="of stderr"
    )
    reports.add_argument(
        "--progress", type=one_of("auto", "bar", "plain", "none"), default="auto", metavar="{auto,bar,plain,none}",
        help="a bar on a terminal, plain lines elsewhere, unless given",
    )  # fmt: skip
    reports.add_argument(
        "--watch", action="append", default=[], metavar="PATTERN",
        help="histograms of parameters, as 'layer1.*', and of their gradients, each epoch, into metrics that are a "
        ".jsonl file or into --tensorboard",
    )  # fmt: skip
    add_limits(reports)


def _rule(text: str) -> tuple[str, str]:
    old, equals, new = text.partition("=")
    if not equals or not old:
        raise ArgumentTypeError(f"{text!r} is not OLD=NEW, as in backbone.=trunk.")
    return old, new
