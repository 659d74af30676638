"""The files of `execute --metrics`, read back: curves by run and metric."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from prograd_proto.regular_files import open_regular
from runtime.errors import DataError
from runtime.files.tensor_files import unreadable

_OWN = frozenset({"event", "epoch", "step", "entry", "split", "best", "path"})


class Curve(NamedTuple):
    """Values of a metric of one run by step; `of` is "steps", "epochs" or what was evaluated, `best` the step kept."""

    run: str
    metric: str
    of: str
    steps: list[int]
    values: list[float]
    best: int | None


def read_curves(path: Path, run: str) -> list[Curve]:
    """Every curve of a file. Raises DataError if it cannot be read, or is none that `execute --metrics` writes."""
    points: dict[tuple[str, str], tuple[list[int], list[float]]] = {}
    best: dict[str, int] = {}
    for number, event in _events(path):
        if event.get("event") == "histogram":
            continue
        try:
            of, step, metrics = _told(event)
        except (KeyError, TypeError, ValueError):
            raise DataError(f"{path}: line {number} is no step, epoch or evaluation of execute --metrics") from None
        if event.get("best") is True:
            best[of] = step
        for name, value in metrics.items():
            steps, values = points.setdefault((name, of), ([], []))
            steps.append(step)
            values.append(value)
    if not points:
        raise DataError(f"{path}: there is no metric in the file")
    return [Curve(run, name, of, *found, best.get(of)) for (name, of), found in points.items()]


def _events(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The lines of a file by number."""
    try:
        with open_regular(path) as file:
            text = file.read().decode()
        if path.suffix == ".csv":
            yield from enumerate(csv.DictReader(text.splitlines()), start=2)
            return
        for number, line in enumerate(text.splitlines(), start=1):
            found: Any = json.loads(line)
            yield number, cast(dict[str, Any], found) if isinstance(found, dict) else {}
    except (OSError, ValueError, RecursionError, csv.Error) as error:
        kind = OSError if isinstance(error, OSError) else ValueError
        raise unreadable(
            path, path.suffix[1:] or "metrics", error if isinstance(error, kind) else kind(error)
        ) from None


def _told(event: Mapping[str, Any]) -> tuple[str, int, dict[str, float]]:
    """What an event is of, its step, and its numbers; those of evaluations have the entry's name before in CSV."""
    kind, step = event["event"], int(event["step"])
    if kind not in ("step", "epoch", "evaluation"):
        raise ValueError(kind)
    of = {"step": "steps", "epoch": "epochs"}.get(kind) or str(event.get("split") or "evaluation")
    metrics: dict[str, float] = {}
    for key, value in event.items():
        if key in _OWN or value is None or value == "" or isinstance(value, list | dict):
            continue
        name = key.removeprefix("metric.")
        if kind == "evaluation" and "split" not in event:  # of a CSV file
            name = name.partition(".")[2] or name
        number = float(value)
        if math.isfinite(number):
            metrics[name] = number
    return of, step, metrics
