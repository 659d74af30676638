"""The files of `execute --metrics`, read back: curves by run and metric, and distributions of states."""

from __future__ import annotations

import csv
import json
import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from io import StringIO
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from prograd_proto.regular_files import open_regular
from runtime.errors import DataError
from runtime.files.tensor_files import unreadable

_OWN = frozenset({"event", "epoch", "step", "entry", "split", "best", "path"})


class Curve(NamedTuple):
    """Values of a metric of one run by step.

    `of` is "steps", "epochs" or the entry that was evaluated; `best` is the step whose states were kept.
    """

    run: str
    metric: str
    of: str
    steps: list[float]
    values: list[float]
    best: int | None


def read_curves(path: Path, run: str) -> list[Curve]:
    """Return every curve of a file; raise DataError if it cannot be read or was not written by `execute --metrics`."""
    points: dict[tuple[str, str], tuple[list[float], list[float]]] = {}
    best: dict[str, int] = {}
    for number, event in _events(path):
        if event.get("event") == "histogram":
            continue
        try:
            of, step, metrics = _told(event)
        except (KeyError, TypeError, ValueError):
            raise DataError(f"{path}: line {number} is no step, epoch or evaluation of execute --metrics") from None
        if event.get("best") in (True, "true"):
            best[of] = step
        for name, value in metrics.items():
            steps, values = points.setdefault((name, of), ([], []))
            steps.append(step)
            values.append(value)
    if not points:
        raise DataError(f"{path}: there is no metric in the file")
    return [Curve(run, name, of, *found, best.get(of)) for (name, of), found in points.items()]


class Spread(NamedTuple):
    """Quantiles of the elements of a state or gradient of one run, at each of these steps.

    `numbers` has for each step the lowest element, the quantiles of `QUANTILES`, and the highest element.
    """

    run: str
    name: str
    steps: list[int]
    numbers: list[list[float]]


GRADIENT_PREFIX: Final = "gradient of "
QUANTILES: Final = (0.05, 0.25, 0.5, 0.75, 0.95)


def read_spreads(path: Path, run: str) -> list[Spread]:
    """Return the quantiles of every `--watch`ed tensor, named as "layer1.w" and "gradient of layer1.w".

    Raises DataError as `read_curves` does.
    """
    found: dict[str, Spread] = {}
    for number, event in _events(path):
        if event.get("event") != "histogram":
            continue
        try:
            name = str(event["state"]) if "state" in event else f"{GRADIENT_PREFIX}{event['gradient']}"
            step, numbers = int(event["step"]), _shares(event["low"], event["high"], event["counts"])
        except (KeyError, TypeError, ValueError):
            raise DataError(f"{path}: line {number} is no histogram of execute --watch") from None
        spread = found.setdefault(name, Spread(run, name, [], []))
        spread.steps.append(step)
        spread.numbers.append(numbers)
    return list(found.values())


def _shares(low: float, high: float, counts: list[int]) -> list[float]:
    """Return the quantiles of a histogram, with the elements of a bin spread evenly over it."""
    sums = list(accumulate(counts))
    width = high / len(counts) - low / len(counts)
    found: list[float] = []
    for share in QUANTILES:
        wanted = share * sums[-1]
        place = min(bisect_left(sums, wanted), len(sums) - 1)
        into = (wanted - (sums[place] - counts[place])) / counts[place] if counts[place] else 0.0
        found.append(low + width * (place + into))
    return [float(low), *found, float(high)]


def _events(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the lines of a file with their numbers."""
    try:
        with open_regular(path) as file:
            text = file.read().decode()
        if path.suffix == ".csv":
            yield from enumerate(csv.DictReader(StringIO(text, newline="")), start=2)
            return
        for number, line in enumerate(StringIO(text, newline=None), start=1):
            found: Any = json.loads(line)
            yield number, cast(dict[str, Any], found) if isinstance(found, dict) else {}
    except (OSError, ValueError, RecursionError, csv.Error) as error:
        kind = OSError if isinstance(error, OSError) else ValueError
        raise unreadable(
            path, path.suffix[1:] or "metrics", error if isinstance(error, kind) else kind(error)
        ) from None


def _told(event: Mapping[str, Any]) -> tuple[str, int, dict[str, float]]:
    """Return the subject of an event, its step, and its numbers.

    In CSV files the names of an evaluation's numbers begin with the entry's name.
    """
    kind, step = event["event"], int(event["step"])
    if kind not in ("step", "epoch", "evaluation"):
        raise ValueError(kind)
    of = {"step": "steps", "epoch": "epochs"}.get(kind) or str(event.get("split") or "evaluation")
    metrics: dict[str, float] = {}
    for key, value in event.items():
        if key in _OWN or value is None or value == "" or isinstance(value, list | dict):
            continue
        name = key.removeprefix("metric.")
        if kind == "evaluation" and "entry" not in event:  # only in a CSV file
            name = name.partition(".")[2] or name
        number = float(value)
        if math.isfinite(number):
            metrics[name] = number
    return of, step, metrics
