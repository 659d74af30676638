"""The runs of a sweep that was made in parts, read from the files of `--results`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from prograd_proto.regular_files import read_regular_text
from runtime.commands.sweeps.runs import Outcome, Trial
from runtime.errors import DataError, UsageError

MAX_FILE_BYTES: Final = 1 << 28
"""Largest number of bytes of a file of runs."""


def merged(paths: Sequence[Path]) -> list[Outcome]:
    """Return the runs of all files, by number; of a run that was made twice, the last one.

    Raises DataError for a file that cannot be read or has other lines, UsageError for runs of different sweeps.
    """
    found: dict[int, tuple[Outcome, Path]] = {}
    for path in _files(paths):
        for outcome in _runs(path):
            number = outcome.trial.number
            if number in found and found[number][0].trial != outcome.trial:
                raise UsageError(f"run {number} of {found[number][1]} and that of {path} are of different sweeps")
            found[number] = outcome, path
    if not found:
        raise DataError("there is no run in these files")
    _require_one_sweep(found)
    return [found[number][0] for number in sorted(found)]


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(path.glob("*.jsonl"))
        else:
            yield path


def _runs(path: Path) -> Iterator[Outcome]:
    try:
        lines = read_regular_text(path, MAX_FILE_BYTES).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: the file cannot be read: {getattr(error, 'strerror', None) or error}") from None
    for number, line in enumerate(lines, 1):
        try:
            yield _outcome(json.loads(line))
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            raise DataError(f"{path}: line {number} is no run of a sweep") from None


def _require_one_sweep(found: dict[int, tuple[Outcome, Path]]) -> None:
    """Raise UsageError for runs that differ in the settings that they were given."""
    number, (first, path) = next(iter(found.items()))
    for other, (outcome, its_path) in found.items():
        if outcome.trial.settings.keys() != first.trial.settings.keys():
            a, b = (", ".join(trial.settings) or "no setting" for trial in (first.trial, outcome.trial))
            raise UsageError(
                f"run {number} of {path} has values of {a}, run {other} of {its_path} of {b}; merge runs of one sweep"
            )


def _outcome(run: dict[str, Any]) -> Outcome:
    words = shlex.split(run["command"])[1:]
    settings = {str(name): _number(value) for name, value in run["settings"].items()}
    trial = Trial(int(run["run"]), settings, int(run["seed"]), words, int(run.get("fold", 0)))
    fields = {name: str(value) for name, value in run["metrics"].items()}
    fields |= {"steps": str(run["steps"]), "wall": f"{float(run['wall']):.3f}"}
    fields |= {"state_sha256": str(run["state_sha256"])} if run["state_sha256"] else {}
    return Outcome(trial, int(run["code"]), fields, str(run["error"] or ""))


def _number(value: object) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError("a setting is no number")
    return value
