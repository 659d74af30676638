"""Checks that the splits, the entry and the metric that a run names exist in the program."""

from __future__ import annotations

from collections.abc import Collection

from compiler.errors import CompileError
from prograd_proto import program_pb2 as pb
from prograd_proto.spelling import closest


def require_names(program: pb.ProgramDesc) -> None:
    """Raise CompileError for a split, an entry or a metric that the run names and the program does not have."""
    run = program.run
    splits = [split.name for split in program.data.splits]
    if program.HasField("run") and run.entry not in (entry.name for entry in program.entries):
        raise CompileError("training: there is nothing to train; call minimize, or update a state, before compile")
    if program.HasField("data"):
        _require("split", run.split, "split", splits, ["train", ""])  # all rows, if there is no such split
    if not run.HasField("evaluate"):
        return
    entry = next((entry for entry in program.entries if entry.name == run.evaluate.entry), None)
    if entry is None:
        raise CompileError(
            f"training: there is nothing to evaluate on {run.evaluate.split!r}; minimize a loss, or name metrics"
        )
    if program.HasField("data"):
        _require("evaluate", run.evaluate.split, "split", splits)
    if run.HasField("keep_best"):
        metrics = [fetch.name for fetch in program.blocks[entry.source_block].fetches]
        _require("keep_best", run.keep_best.metric, "metric", metrics)


def _require(argument: str, name: str, what: str, known: Collection[str], also: Collection[str] = ()) -> None:
    if name in known or name in also:
        return
    hint = closest(name, known) or f"; there {'is' if len(known) == 1 else 'are'} {', '.join(known) or 'none'}"
    if what == "split" and not known:
        hint = f"; name its rows by program.data(…, splits={{{name!r}: 'KEY'}})"
    raise CompileError(f"training: {argument}={name!r} is no {what} of this program{hint}")
