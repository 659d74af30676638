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
    interval,
    one_of,
    part,
    port,
    positive,
    setting,
    size,
    tolerance,
)
from runtime.commands.options import (
    add_decode,
    add_engine,
    add_entry,
    add_file_of_states,
    add_files,
    add_fold,
    add_how,
    add_length,
    add_limits,
    add_load,
    add_memory,
    add_no_log_format,
    add_parts,
    add_ranks,
    add_reports,
    add_rows,
    add_settings,
    add_spill,
    add_states,
    add_trackers,
    add_what,
)


def parse(arguments: Sequence[str], command: str = "runtime") -> argparse.Namespace:
    """Return the parsed options; an error of usage ends the process with code 2."""
    return parsed(command_parser(command), arguments)


def command_parser(command: str = "runtime") -> tuple[argparse.ArgumentParser, Any]:
    """Return the parser of the whole command, and the object with its verbs by name in `choices`."""
    parser, verbs = new_parser(command, "Load, check and run program files.")
    add_verbs(verbs)
    return parser, verbs


def add_verbs(verbs: Any) -> None:
    """Add the verbs of `runtime` to a parser."""
    for name, add in (
        ("execute", _execute),
        ("replay", _replay),
        ("audit", _audit),
        ("check", _check),
        ("profile", _profile),
        ("bench", _bench),
        ("cache", _cache),
        ("sweep", _sweep),
        ("serve", _serve),
        ("chat", _chat),
        ("plot", _plot),
        ("completion", add_completion),
    ):
        add(verbs, name)


def _execute(verbs: Any, name: str) -> None:
    verb = _verb(
        verbs,
        name,
        "run a program: its declared training and evaluation, or one of its entries",
        "Results go to stdout, where the last line is a summary; progress and messages go to stderr.",
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
    )
    what = verb.add_argument_group("what to run")
    add_what(what)
    add_how(what)
    add_ranks(what)
    what.add_argument(
        "--check-nan", action="store_true",
        help="check the outputs of all ops for NaN and Inf, and name the first such op with its inputs",
    )  # fmt: skip
    what.add_argument(
        "--reproduce", type=Path, metavar="DIR",
        help="with --check-nan: write the failing step as a program with its states and rows",
    )  # fmt: skip
    add_fold(what)
    add_parts(what)
    add_rows(verb)
    out = verb.add_argument_group("output arrays")
    out.add_argument(
        "--out", type=Path, metavar="FILE",
        help="write predictions as a table with ids, classes, probabilities or numbers: .csv, .tsv, .jsonl or .parquet",
    )  # fmt: skip
    out.add_argument(
        "--id", metavar="COLUMN", help="with --out: column of the table of --data that names its rows; default id"
    )
    out.add_argument(
        "--fetch", action="append", default=[], metavar="NAME[=@FILE]",
        help="print a fetch or any other tensor of the entry, or write it to a .npy file",
    )  # fmt: skip
    add_decode(out)
    out.add_argument(
        "--expect", action="append", default=[], metavar="NAME=@FILE",
        help="compare a fetch with a .npy file; a difference gives the exit code 1",
    )  # fmt: skip
    out.add_argument(
        "--rtol", type=tolerance, default=1e-5, metavar="X", help="relative tolerance of --expect; default 1e-5"
    )
    out.add_argument(
        "--atol", type=tolerance, default=1e-8, metavar="X", help="absolute tolerance of --expect; default 1e-8"
    )
    add_states(verb)
    add_files(verb)
    add_reports(verb)
    verb.set_defaults(attestation=None)


def _replay(verbs: Any, name: str) -> None:
    verb = _verb(
        verbs,
        name,
        "repeat a run, and compare its result with that of the first run",
        "The exit code is 0 if the hash of all states, and the metrics where given, are as expected, and else 1.",
        "runtime execute digits.pb --record run.json --metrics m.csv",
        "runtime replay digits.pb --record run.json --expect-metrics m.csv",
        "runtime replay digits.pb --epochs 3 --expect-sha256 ba807f...",
    )
    wanted = verb.add_argument_group("expected result")
    one = wanted.add_mutually_exclusive_group(required=True)
    one.add_argument("--record", dest="recorded", type=Path, metavar="FILE", help="file written by execute --record")
    one.add_argument("--expect-sha256", type=_sha256, metavar="HEX", help="state_sha256 of a result line")
    wanted.add_argument("--expect-metrics", type=_metrics, metavar="FILE", help="file written by execute --metrics")
    what = verb.add_argument_group("what to run")
    add_what(what)
    add_how(what)
    add_rows(verb)
    add_file_of_states(verb)
    add_reports(verb)
    verb.set_defaults(fetch=[], decode=[], expect=[], rtol=0.0, atol=0.0, save=None, in_place=False, force=False)
    verb.set_defaults(only=[], rename=[], layout="prograd")
    verb.set_defaults(
        checkpoint=None, every=None, keep=3, keep_best=None, fold=None, resume=False, retarget_schedule=False
    )
    verb.set_defaults(change_settings=False, change_data=False)
    verb.set_defaults(metrics=None, tensorboard=None, mlflow=None, wandb=None)
    verb.set_defaults(
        trace=None,
        record=None,
        check_nan=False,
        reproduce=None,
    )
    verb.set_defaults(attest=None, chain=None, sign=None, attestation=None)
    verb.set_defaults(out=None, id=None, mpi=False, part=None, scheduler=None)


def _audit(verbs: Any, name: str) -> None:
    verb = _verb(
        verbs,
        name,
        "repeat a part of an attested run, and name the first step that differs",
        "The exit code is 0 if all files are those of the statement and all steps of the interval are equal, else 1.",
        "runtime execute digits.pb --attest run.intoto.json --chain 100 --checkpoint run1 --keep 1000",
        "runtime audit digits.pb --attest run.intoto.json --checkpoint run1 --interval 300:400",
        "runtime audit digits.pb --attest run.intoto.json    # all of it, from the start",
    )
    what = verb.add_argument_group("what to audit")
    what.add_argument(
        "--attest", type=Path, required=True, metavar="FILE", help="statement written by execute --attest"
    )
    what.add_argument(
        "--interval", type=interval, metavar="A:B",
        help="repeat the steps after step A up to step B, at which the chain has links; default all",
    )  # fmt: skip
    what.add_argument(
        "--checkpoint", type=Path, metavar="DIR", help="folder with the checkpoint of step A; without, A is 0"
    )
    what.add_argument("--key", type=Path, metavar="FILE", help="public Ed25519 key that must have signed, a PEM file")
    add_how(what)
    add_rows(verb)
    add_file_of_states(verb)
    add_reports(verb)
    verb.set_defaults(entry=None, steps=None, epochs=None, seed=None, settings=[])


def _check(verbs: Any, name: str) -> None:
    verb = _verb(
        verbs,
        name,
        "check that a program is well formed and safe to run, and that its files exist",
        "The command checks all indices, names, types, sizes, paths and operators. It runs no operation.",
        "runtime check digits.pb",
    )
    add_no_log_format(verb)


def _profile(verbs: Any, name: str) -> None:
    verb = _verb(
        verbs,
        name,
        "measure time and memory of a step by op type, stage, source line, thread and op",
        "Changed states are discarded. Feeds without data and without --feed are zeros.",
        "runtime profile digits.pb --steps 50",
        "runtime profile digits.pb --entry predict --by op",
        "runtime profile digits.pb --threads 2 --trace steps.json",
        "runtime profile digits.pb --json > profile.json",
    )
    add_entry(verb)
    verb.add_argument(
        "--steps",
        type=positive,
        default=20,
        metavar="N",
        help="number of measured steps, after twelve others; default 20",
    )
    add_settings(verb)
    add_how(verb)
    verb.add_argument(
        "--by", type=one_of("type", "stage", "line", "thread", "op"), metavar="{type,stage,line,thread,op}",
        help="print this table only",
    )  # fmt: skip
    verb.add_argument("--trace", type=Path, metavar="FILE", help="write times and memory, for chrome://tracing")
    verb.add_argument("--force", action="store_true", help="replace the file of --trace")
    verb.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    add_ranks(verb)
    add_limits(verb)
    add_rows(verb)


def _bench(verbs: Any, name: str) -> None:
    verb = _verb(
        verbs,
        name,
        "measure the speed of steps: steps and operations a second, the share of peak performance, and each group",
        "Engines and numbers of threads alternate; the command prints medians. A multiplication and an addition count\n"
        "as two operations, any other op as one for each element. Changed states are discarded.",
        "runtime bench digits.pb",
        "runtime bench digits.pb --against reference --threads 1,2",
        "runtime bench digits.pb --entry predict --json > bench.json",
    )
    add_entry(verb)
    verb.add_argument(
        "--threads", type=counts, default="auto", metavar="N,...",
        help="numbers of threads, the first of which groups are shown for; default one for each usable core",
    )  # fmt: skip
    add_engine(verb)
    add_engine(verb, "--against", "another engine to compare with")
    add_spill(verb)
    add_memory(verb)
    verb.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    add_rows(verb)


def _cache(verbs: Any, name: str) -> None:
    verb = add_verb(
        verbs,
        name,
        "list the cached machine code: folder, program, instruction set and size",
        "The native engine stores compiled code for later runs; PROGRAD_CACHE names the folder.",
        "runtime cache",
        "runtime cache --clear",
        "runtime cache --json",
    )
    verb.add_argument("--clear", action="store_true", help="remove all cached code")
    verb.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    add_no_log_format(verb)


def _sweep(verbs: Any, name: str) -> None:
    verb = _verb(
        verbs,
        name,
        "run a program with several values of its settings and several seeds, and compare the results",
        "Each run is a process of its own, so a failure does not stop the other runs. Runs are sorted by the metric of "
        "the program's best states, else by the loss. The commands that repeat them follow the table.",
        "runtime sweep digits.pb --set rate=1e-4,3e-4,1e-3 --seeds 3 --jobs 2",
        "runtime sweep digits.pb --set rate=1e-3,1e-2 --set drop=0,0.5 --epochs 5 --results runs.jsonl",
        "runtime sweep digits.pb --set rate=1e-5..1e-1:log --set drop=0..0.5 --random 20 --folds 5 --jobs 2",
        "runtime sweep digits.pb --set rate=1e-4,1e-3 --seeds 8 --part 3/16 --results parts/3.jsonl    # then:",
        "runtime sweep digits.pb --merge parts",
    )
    what = verb.add_argument_group("what to run")
    what.add_argument(
        "--set", dest="choices", action="append", default=[], type=choices, metavar="NAME=NUMBER,NUMBER",
        help="values of a setting, of which all combinations run; or a range LOW..HIGH or LOW..HIGH:log for a search",
    )  # fmt: skip
    search = what.add_mutually_exclusive_group()
    search.add_argument("--random", type=positive, metavar="N", help="try N random settings instead of combinations")
    search.add_argument(
        "--bayes", type=positive, metavar="N",
        help="try N settings, each proposed by the results so far; needs the extra `search`",
    )  # fmt: skip
    what.add_argument(
        "--folds", type=positive, metavar="K",
        help="cross-validate: K runs of each settings, each evaluated on another K-th of the rows to train on",
    )  # fmt: skip
    what.add_argument(
        "--seeds",
        type=positive,
        default=1,
        metavar="N",
        help="number of consecutive seeds, beginning with --seed; default 1",
    )
    what.add_argument("--jobs", type=positive, metavar="N", help="number of concurrent runs; default 1")
    what.add_argument(
        "--part", type=part, metavar="I/N",
        help="make every N-th run only, beginning with the I-th, as a job of an array; --merge joins the parts",
    )  # fmt: skip
    what.add_argument(
        "--scheduler", metavar="ADDRESS",
        help="make the runs on the workers of a Dask cluster, as in tcp://host:8786; needs the extra `cluster`",
    )  # fmt: skip
    add_length(what)
    add_how(what)
    verb.set_defaults(threads=None)  # concurrent runs share the cores
    what.add_argument(
        "--data", type=Path, metavar="FILE", help="data file in place of the program's, with the same keys"
    )
    what.add_argument("--split", metavar="NAME", help="split to train on; default that of the program")
    add_file_of_states(what)
    add_memory(what, "each run")
    what.add_argument(
        "--max-time", type=duration, metavar="TIME", help="time limit of each run, as in 90, 1.5min or 2h"
    )
    out = verb.add_argument_group("results")
    out.add_argument("--results", type=Path, metavar="FILE", help="write a line of JSON at the end of each run")
    out.add_argument(
        "--merge", type=Path, action="append", default=[], metavar="FILE",
        help="make no run, and print the table of a file of --results, or of all .jsonl files in a folder",
    )  # fmt: skip
    out.add_argument("--force", action="store_true", help="replace the file of --results, and events of --tensorboard")
    add_trackers(out, "an event file for TensorBoard, for each run in a folder DIR/run-N")
    out.add_argument("--json", action="store_true", help="print these lines instead of the table")


def _plot(verbs: Any, name: str) -> None:
    verb = add_verb(
        verbs,
        name,
        "draw metrics of one or several runs, and tables of metrics",
        'Files of execute --metrics give curves and the histograms of --watch; .npy files give confusion matrices or\n'
        'ROC curves. '
        'It needs the extra `plot`.',
        "runtime plot metrics.jsonl -o curves.svg",
        "runtime plot run1.jsonl run2.csv --metric loss --metric accuracy -o curves.html",
        "runtime plot confusion.npy --classes penguins.pb -o confusion.png",
    )  # fmt: skip
    verb.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help="file of metrics, .jsonl or .csv, or array, .npy"
    )
    verb.add_argument(
        "-o", type=Path, required=True, metavar="FILE", help="picture to write: .svg, .png or self-contained .html"
    )
    verb.add_argument("--metric", action="append", default=[], metavar="NAME", help="metric to draw; default all")
    verb.add_argument(
        "--watch", action="append", default=[], metavar="PATTERN",
        help="parameters whose histograms are drawn, as in 'layer1.*'; default all, or none with --metric",
    )  # fmt: skip
    verb.add_argument(
        "--classes", type=Path, metavar="PROGRAM",
        help="program whose encoding names the classes of confusion matrices",
    )  # fmt: skip
    verb.add_argument("--force", action="store_true", help="replace the picture")
    add_no_log_format(verb)


def _serve(verbs: Any, name: str) -> None:
    verb = _verb(
        verbs,
        name,
        "answer requests for predictions over HTTP on this machine",
        "SIGTERM or Ctrl-C stops the server after it has answered all accepted requests.\nIt needs the extra `serve`.",
        "runtime serve digits.pb --load trained.safetensors",
        "runtime serve digits.pb --load trained.safetensors --port 0 --threads 2 --max-body 1MiB",
        "runtime serve smol.pb --load tuned.safetensors --chat",
        "curl http://127.0.0.1:8000/predict -H 'Content-Type: application/octet-stream' --data-binary @images.raw",
    )
    what = verb.add_argument_group("what to serve")
    what.add_argument("--entry", metavar="NAME", help="entry to serve, which must not train; default predict")
    what.add_argument(
        "--chat", action="store_true", help="serve the texts of a language model, as clients of the OpenAI kind ask"
    )
    what.add_argument("--tokenizer", type=Path, metavar="DIR", help="with --chat: folder of the tokenizer")
    what.add_argument("--seed", type=int64, metavar="N", help="seed in place of the program's")
    add_settings(what)
    add_how(what)
    add_load(verb.add_argument_group("states"))
    how = verb.add_argument_group("requests")
    add_decode(how)
    how.add_argument("--port", type=port, default=8000, metavar="PORT", help="port; 0 picks a free one")
    how.add_argument(
        "--host", default="127.0.0.1", metavar="ADDRESS",
        help="address to listen at; one that other machines reach needs a token; default 127.0.0.1",
    )  # fmt: skip
    how.add_argument(
        "--token-file", type=Path, metavar="FILE",
        help="file with the token that requests must bring; default that of the variable PROGRAD_TOKEN, or none",
    )  # fmt: skip
    how.add_argument("--access-log", type=Path, metavar="FILE", help="append a line for each request to a file")
    how.add_argument(
        "--max-body",
        type=size,
        default=16 << 20,
        metavar="SIZE",
        help="upper bound on the body of a request, as in 1MiB; default 16MiB",
    )
    how.add_argument(
        "--answer-time", type=duration, default=30.0, metavar="TIME",
        help="time limit from a request to its answer, as in 500ms; default 30s",
    )  # fmt: skip
    how.add_argument(
        "--queue", type=positive, default=256, metavar="N", help="upper bound on waiting requests; default 256"
    )
    how.add_argument(
        "--together", type=positive, metavar="N",
        help="upper bound on the rows of a batch of requests; default that of the largest step",
    )  # fmt: skip
    limits = verb.add_argument_group("limits")
    add_memory(limits)
    limits.add_argument("--max-time", type=duration, metavar="TIME", help="stop after this time, as at a signal")


def _chat(verbs: Any, name: str) -> None:
    verb = _verb(
        verbs,
        name,
        "talk with a language model: it answers each line of stdin",
        "The program is one of compiler import lm. Its answers are written as they come. It needs the extra `lm`.",
        "runtime chat smol.pb",
        "runtime chat smol.pb --load tuned.safetensors --set temperature=0.7 --set top_p=0.9",
        "runtime chat smol.pb --message 'What is the capital of Belgium?' --most 40",
        "runtime chat gpt2.pb --plain --message 'Once upon a time'",
    )
    what = verb.add_argument_group("texts")
    what.add_argument("--message", metavar="TEXT", help="answer this message only, in place of the lines of stdin")
    what.add_argument("--system", metavar="TEXT", help="begin with this text of the system")
    what.add_argument("--plain", action="store_true", help="go on with each text as it is, without a template")
    what.add_argument("--most", type=positive, metavar="N", help="upper bound on the codes of a text")
    what.add_argument(
        "--stop", action="append", default=[], metavar="TEXT", help="end a text before this one, several times"
    )
    what.add_argument(
        "--set", dest="settings", action="append", default=[], type=setting, metavar="NAME=NUMBER",
        help="temperature, top_k, top_p or repetition_penalty; default those of the model's folder",
    )  # fmt: skip
    what.add_argument("--seed", type=int64, metavar="N", help="seed of the texts; default 0")
    what.add_argument("--tokenizer", type=Path, metavar="DIR", help="folder of the tokenizer; default the model's")
    add_how(verb.add_argument_group("how to run"))
    add_load(verb.add_argument_group("states"))
    add_memory(verb.add_argument_group("limits"))


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
