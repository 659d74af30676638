"""The verbs and their options on the command line."""

from __future__ import annotations

import argparse
from argparse import ArgumentTypeError
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runtime.command_line.parsing import add_completion, add_verb, new_parser, parsed
from runtime.command_line.values import (
    choices,
    counts,
    duration,
    int64,
    one_of,
    port,
    positive,
    size,
    tolerance,
)
from runtime.commands.options import (
    add_engine,
    add_entry,
    add_file_of_states,
    add_files,
    add_how,
    add_length,
    add_limits,
    add_load,
    add_memory,
    add_no_log_format,
    add_reports,
    add_rows,
    add_settings,
    add_spill,
    add_states,
    add_what,
)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the parsed options; an error of usage ends the process with code 2."""
    return parsed(command_parser(), arguments)


def command_parser() -> tuple[argparse.ArgumentParser, Any]:
    """Return the parser of the whole command, and the object with its verbs by name in `choices`."""
    parser, verbs = new_parser("runtime", "Loads, checks and runs program files.")
    for name, add in (
        ("execute", _execute),
        ("replay", _replay),
        ("check", _check),
        ("profile", _profile),
        ("bench", _bench),
        ("cache", _cache),
        ("sweep", _sweep),
        ("serve", _serve),
        ("plot", _plot),
        ("completion", add_completion),
    ):
        add(verbs, name)
    return parser, verbs


def _execute(verbs: Any, name: str) -> None:
    verb = _verb(
        verbs,
        name,
        "run a program: train and evaluate as it says, or one of its entries",
        "Results go to stdout, and the last line of it sums them up; progress and messages go to stderr.",
        "runtime execute digits.pb",
        "runtime execute digits.pb --epochs 3 --save trained.safetensors",
        "runtime execute digits.pb --set rate=3e-4",
        "runtime execute digits.pb --checkpoint run1 --every 100    # and to go on later:",
        "runtime execute digits.pb --checkpoint run1 --every 100 --resume",
        "runtime execute digits.pb --entry evaluate --load trained.safetensors",
        "runtime execute digits.pb --entry predict --load trained.safetensors \\",
        "    --feed image=@images.npy --fetch probabilities=@p.npy",
        "runtime execute small.pb --spill-dir /var/tmp    # compiler plan --spill made it",
    )
    what = verb.add_argument_group("what to run")
    add_what(what)
    add_how(what)
    what.add_argument(
        "--check-nan", action="store_true",
        help="look at every output for NaN and Inf, and name the op that makes the first and what it reads",
    )  # fmt: skip
    what.add_argument(
        "--reproduce", type=Path, metavar="DIR",
        help="with --check-nan: write the step that fails, as a program with its states and rows",
    )  # fmt: skip
    add_rows(verb)
    out = verb.add_argument_group("arrays out")
    out.add_argument(
        "--fetch", action="append", default=[], metavar="NAME[=@FILE]",
        help="print what the entry fetches, or any tensor of it, or write it to a .npy file",
    )  # fmt: skip
    out.add_argument(
        "--decode", action="append", default=[], metavar="NAME[=COLUMN]",
        help="give numbers that the entry fetches as the values of a packed column that they stand for",
    )  # fmt: skip
    out.add_argument(
        "--expect", action="append", default=[], metavar="NAME=@FILE",
        help="compare with a .npy file, and end with code 1 if it differs",
    )  # fmt: skip
    out.add_argument("--rtol", type=tolerance, default=1e-5, metavar="X", help="relative, 1e-5 unless given")
    out.add_argument("--atol", type=tolerance, default=1e-8, metavar="X", help="absolute, 1e-8 unless given")
    add_states(verb)
    add_files(verb)
    add_reports(verb)


def _replay(verbs: Any, name: str) -> None:
    verb = _verb(
        verbs,
        name,
        "run a program again, anew, and compare: does it give what it gave",
        "Ends with 0 if the hash of all states, and the metrics if asked, are the expected ones, and else with 1.",
        "runtime execute digits.pb --record run.json --metrics m.csv",
        "runtime replay digits.pb --record run.json --expect-metrics m.csv",
        "runtime replay digits.pb --epochs 3 --expect-sha256 ba807f...",
    )
    wanted = verb.add_argument_group("what it gave")
    one = wanted.add_mutually_exclusive_group(required=True)
    one.add_argument("--record", dest="recorded", type=Path, metavar="FILE", help="what execute --record wrote")
    one.add_argument("--expect-sha256", type=_sha256, metavar="HEX", help="the state_sha256 of a result line")
    wanted.add_argument("--expect-metrics", type=_metrics, metavar="FILE", help="what execute --metrics wrote")
    what = verb.add_argument_group("what to run")
    add_what(what)
    add_how(what)
    add_rows(verb)
    add_file_of_states(verb)
    add_reports(verb)
    verb.set_defaults(fetch=[], decode=[], expect=[], rtol=0.0, atol=0.0, save=None, in_place=False, force=False)
    verb.set_defaults(only=[], rename=[], layout="prograd")
    verb.set_defaults(checkpoint=None, every=None, keep=3, resume=False, retarget_schedule=False)
    verb.set_defaults(change_settings=False, change_data=False)
    verb.set_defaults(metrics=None, tensorboard=None, trace=None, record=None, check_nan=False, reproduce=None)


def _check(verbs: Any, name: str) -> None:
    verb = _verb(
        verbs,
        name,
        "is a program well formed, safe to run, and are its files there",
        "Looks at every index, name, type, size, path and operator; nothing is run.",
        "runtime check digits.pb",
    )
    add_no_log_format(verb)


def _profile(verbs: Any, name: str) -> None:
    verb = _verb(
        verbs,
        name,
        "where the time of a step goes: by type of op, stage, line of yours, thread, or op by op, and its memory",
        "The states that the steps change are not kept. Feeds without data and without --feed are zeros.",
        "runtime profile digits.pb --steps 50",
        "runtime profile digits.pb --entry predict --by op",
        "runtime profile digits.pb --threads 2 --trace steps.json",
        "runtime profile digits.pb --json > profile.json",
    )
    add_entry(verb)
    verb.add_argument(
        "--steps", type=positive, default=20, metavar="N", help="to measure, after twelve that are not; default 20"
    )
    add_settings(verb)
    add_how(verb)
    verb.add_argument(
        "--by", type=one_of("type", "stage", "line", "thread", "op"), metavar="{type,stage,line,thread,op}",
        help="one table instead of several",
    )  # fmt: skip
    verb.add_argument("--trace", type=Path, metavar="FILE", help="write times and memory, for chrome://tracing")
    verb.add_argument("--force", action="store_true", help="replace the file of --trace")
    verb.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    add_limits(verb)
    add_rows(verb)


def _bench(verbs: Any, name: str) -> None:
    verb = _verb(
        verbs,
        name,
        "how fast steps are: steps and operations a second, what share of the machine that is, and each group",
        "Engines and numbers of threads take turns, and medians are printed. A multiplication and an addition are two\n"
        "operations, anything else one for each element. States that the steps change are not kept.",
        "runtime bench digits.pb",
        "runtime bench digits.pb --against reference --threads 1,2",
        "runtime bench digits.pb --entry predict --json > bench.json",
    )
    add_entry(verb)
    verb.add_argument(
        "--threads", type=counts, default="auto", metavar="N,...",
        help="numbers of threads, one for each core that the process may use unless given; the groups are of the first",
    )  # fmt: skip
    add_engine(verb)
    add_engine(verb, "--against", "another engine")
    add_spill(verb)
    add_memory(verb)
    verb.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    add_rows(verb)


def _cache(verbs: Any, name: str) -> None:
    verb = add_verb(
        verbs,
        name,
        "what compiled code is kept, and where: for which program and instruction set, how large",
        "The native engine keeps what it compiles, so that it need not do so again; PROGRAD_CACHE names the folder.",
        "runtime cache",
        "runtime cache --clear",
        "runtime cache --json",
    )
    verb.add_argument("--clear", action="store_true", help="remove all of it")
    verb.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    add_no_log_format(verb)


def _sweep(verbs: Any, name: str) -> None:
    verb = _verb(
        verbs,
        name,
        "run a program with several values of its settings and several seeds, and compare",
        "Each run is a process of its own: one that fails ends no other. They are sorted by the metric that the "
        "program keeps the best states by, else by the loss. Below the table stand the commands that make them again.",
        "runtime sweep digits.pb --set rate=1e-4,3e-4,1e-3 --seeds 3 --jobs 2",
        "runtime sweep digits.pb --set rate=1e-3,1e-2 --set drop=0,0.5 --epochs 5 --results runs.jsonl",
    )
    what = verb.add_argument_group("what to run")
    what.add_argument(
        "--set", dest="choices", action="append", default=[], type=choices, metavar="NAME=NUMBER,NUMBER",
        help="values of a setting; of several settings, all combinations",
    )  # fmt: skip
    what.add_argument("--seeds", type=positive, default=1, metavar="N", help="so many, from --seed on; default 1")
    what.add_argument("--jobs", type=positive, default=1, metavar="N", help="runs at once; default 1")
    add_length(what)
    add_how(what)
    verb.set_defaults(threads=None)  # concurrent runs share the cores
    what.add_argument("--data", type=Path, metavar="FILE", help="in place of the program's data file, with its keys")
    what.add_argument("--split", metavar="NAME", help="the rows; those that the program names unless given")
    add_file_of_states(what)
    add_memory(what, "each run")
    what.add_argument("--max-time", type=duration, metavar="TIME", help="of each run, as in 90, 1.5min or 2h")
    out = verb.add_argument_group("results")
    out.add_argument("--results", type=Path, metavar="FILE", help="write a line of JSON for each run, as it ends")
    out.add_argument("--force", action="store_true", help="replace the file of --results")
    out.add_argument("--json", action="store_true", help="print these lines instead of the table")


def _plot(verbs: Any, name: str) -> None:
    verb = add_verb(
        verbs,
        name,
        "draw the metrics of runs, several in one picture, and tables of metrics",
        'Files of execute --metrics are curves, also of --watch; .npy files are confusion matrices or ROC curves. '
        'It needs pip install "prograd[plot]".',
        "runtime plot metrics.jsonl -o curves.svg",
        "runtime plot run1.jsonl run2.csv --metric loss --metric accuracy -o curves.html",
        "runtime plot confusion.npy -o confusion.png",
    )  # fmt: skip
    verb.add_argument("files", nargs="+", type=Path, metavar="FILE", help="of metrics, .jsonl or .csv; or .npy")
    verb.add_argument(
        "-o", type=Path, required=True, metavar="FILE", help="the picture: .svg, .png, or .html that needs nothing else"
    )
    verb.add_argument("--metric", action="append", default=[], metavar="NAME", help="draw this one; all unless given")
    verb.add_argument(
        "--watch", action="append", default=[], metavar="PATTERN",
        help="draw the histograms of these, as 'layer1.*'; all unless given, or none where metrics are named",
    )  # fmt: skip
    verb.add_argument("--force", action="store_true", help="replace the picture")
    add_no_log_format(verb)


def _serve(verbs: Any, name: str) -> None:
    verb = _verb(
        verbs,
        name,
        "answer requests for predictions over HTTP, on this machine",
        'SIGTERM or Ctrl-C ends it, when all that was taken is answered. It needs pip install "prograd[serve]".',
        "runtime serve digits.pb --load trained.safetensors",
        "runtime serve digits.pb --load trained.safetensors --port 0 --threads 2 --max-body 1MiB",
        "curl http://127.0.0.1:8000/predict -H 'Content-Type: application/octet-stream' --data-binary @images.raw",
    )
    what = verb.add_argument_group("what to serve")
    what.add_argument("--entry", metavar="NAME", help="an entry that does not train; predict unless given")
    what.add_argument("--seed", type=int64, metavar="N", help="in place of the program's seed")
    add_settings(what)
    add_how(what)
    add_load(verb.add_argument_group("states"))
    how = verb.add_argument_group("requests")
    how.add_argument("--port", type=port, default=8000, metavar="PORT", help="of 127.0.0.1; 0 for any that is free")
    how.add_argument(
        "--max-body", type=size, default=16 << 20, metavar="SIZE", help="of a request, as in 1MiB; default 16MiB"
    )
    how.add_argument(
        "--answer-time", type=duration, default=30.0, metavar="TIME",
        help="from a request to its answer, as in 500ms; default 30s",
    )  # fmt: skip
    how.add_argument("--queue", type=positive, default=256, metavar="N", help="requests that may wait; default 256")
    how.add_argument(
        "--together", type=positive, metavar="N",
        help="rows of several requests that are computed together; those of the largest step unless given",
    )  # fmt: skip
    limits = verb.add_argument_group("limits")
    add_memory(limits)
    limits.add_argument("--max-time", type=duration, metavar="TIME", help="stop after it, as at a signal")


def _verb(verbs: Any, name: str, summary: str, more: str, *examples: str) -> argparse.ArgumentParser:
    verb = add_verb(verbs, name, summary, more, *examples)
    verb.add_argument("program", help="a program file")
    return verb


def _sha256(text: str) -> str:
    if len(text) != 64 or not set(text.lower()) <= set("0123456789abcdef"):
        raise ArgumentTypeError(f"{text!r} is no SHA-256: 64 hexadecimal digits")
    return text.lower()


def _metrics(text: str) -> Path:
    path = Path(text)
    if path.suffix not in (".csv", ".jsonl"):
        raise ArgumentTypeError(f"{text!r} ends in neither .csv nor .jsonl")
    return path
