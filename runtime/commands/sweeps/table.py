"""The results of a sweep: the ranking of its runs, as a table and as lines of JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from prograd_proto import program_pb2 as pb
from prograd_proto.better import best_by_name
from prograd_proto.printable import MAX_WORD_CHARACTERS, sentence
from runtime.commands.reports.metric_fields import RUNTIME_FIELDS
from runtime.commands.sweeps.runs import Outcome

MAX_COMMAND_CHARACTERS: Final = 4000
"""Upper bound on the characters of a command that is printed."""


def table(program: pb.ProgramDesc, done: Sequence[Outcome]) -> Iterator[str]:
    """Yield the lines of the table, and the command of each run."""
    ordered = in_order(program, done)
    first, _ = judged_by(program, done)
    names = dict.fromkeys([first] if first else [])
    names |= dict.fromkeys(name for outcome in ordered for name in metrics_of(outcome))
    has_folds = any(outcome.trial.fold for outcome in done)
    fold = ["fold"] if has_folds else []
    head = ["run", *ordered[0].trial.settings, "seed", *fold, *names, "wall", "state_sha256"]
    rows = [head]
    for trial, code, fields, _ in ordered:
        metrics = [fields.get(name, "-") for name in names]
        end = fields.get("state_sha256", "")[:16] if code == 0 else f"failed with code {code}"
        numbers = map(repr, trial.settings.values())
        fold = [str(trial.fold)] if has_folds else []
        rows.append([str(trial.number), *numbers, str(trial.seed), *fold, *metrics, fields.get("wall", "-"), end])
    yield from aligned(rows, is_last_left=True)
    yield ""
    width = len(str(len(done)))
    for outcome in ordered:
        yield f"{outcome.trial.number:>{width}}  {sentence(outcome.trial.command, MAX_COMMAND_CHARACTERS)}"


def aligned(rows: Sequence[Sequence[str]], *, is_last_left: bool = False) -> Iterator[str]:
    """Yield the lines of a table whose columns end below each other, or for the last one begin so."""
    rows = [[sentence(cell, MAX_WORD_CHARACTERS) for cell in row] for row in rows]
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join([*map(str.rjust, row[:-1], widths), row[-1] if is_last_left else row[-1].rjust(widths[-1])])


def judged_by(program: pb.ProgramDesc, done: Sequence[Outcome]) -> tuple[str, bool]:
    """Return the field that runs are sorted by, and True if higher values of it are better.

    It is the metric of keep_best, else the loss, else the first one whose name says which values are better; "" if
    there is none.
    """
    run = program.run
    if run.HasField("keep_best"):
        return f"{run.evaluate.entry}.{run.keep_best.metric}", run.keep_best.direction == pb.DIRECTION_MAX
    names = [name for outcome in done for name in metrics_of(outcome)]
    for name in (f"{run.evaluate.entry}.loss", "loss", *names):
        if name in names and best_by_name(name):
            return name, best_by_name(name) == "max"
    return "", False


def in_order(program: pb.ProgramDesc, done: Sequence[Outcome]) -> list[Outcome]:
    """Return the runs, the best first; runs without a number and failed runs come last."""
    name, more_is_better = judged_by(program, done)

    def key(outcome: Outcome) -> tuple[bool, float, int]:
        value = metrics_of(outcome).get(name, math.nan)
        bad = outcome.code != 0 or math.isnan(value)
        return bad, 0.0 if bad else -value if more_is_better else value, outcome.trial.number

    return sorted(done, key=key)


def as_json(outcome: Outcome) -> dict[str, object]:
    """Return a run as a JSON object."""
    trial = outcome.trial
    metrics = {name: value if math.isfinite(value) else str(value) for name, value in metrics_of(outcome).items()}
    return {
        "run": trial.number,
        "settings": trial.settings,
        "seed": trial.seed,
        **({"fold": trial.fold} if trial.fold else {}),
        "code": outcome.code,
        "metrics": metrics,
        "steps": int(outcome.fields.get("steps", 0)),
        "wall": float(outcome.fields.get("wall", 0)),
        "state_sha256": outcome.fields.get("state_sha256"),
        "error": outcome.error or None,
        "command": trial.command,
    }


def metrics_of(outcome: Outcome) -> dict[str, float]:
    """Return the metrics of a run: the fields of its result line that are numbers of its own."""
    found: dict[str, float] = {}
    for name, text in outcome.fields.items():
        if name not in RUNTIME_FIELDS and not name.startswith("set."):
            try:
                found[name] = float(text)
            except ValueError:
                continue
    return found
