"""The runs of a sweep that was made in parts, read from the files of `--results`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from runtime.commands.sweeps.runs import Outcome, Trial
from runtime.errors import DataError, UsageError


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
    return [found[number][0] for number in sorted(found)]


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(path.glob("*.jsonl"))
        else:
            yield path


def _runs(path: Path) -> Iterator[Outcome]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: the file cannot be read: {getattr(error, 'strerror', None) or error}") from None
    for number, line in enumerate(lines, 1):
        try:
            yield _outcome(json.loads(line))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise DataError(f"{path}: line {number} is no run of a sweep") from None


def _outcome(run: dict[str, Any]) -> Outcome:
    words = shlex.split(run["command"])[1:]
    trial = Trial(int(run["run"]), dict(run["settings"]), int(run["seed"]), words, int(run.get("fold", 0)))
    fields = {name: str(value) for name, value in run["metrics"].items()}
    fields |= {"steps": str(run["steps"]), "wall": f"{float(run['wall']):.3f}"}
    fields |= {"state_sha256": str(run["state_sha256"])} if run["state_sha256"] else {}
    return Outcome(trial, int(run["code"]), fields, str(run["error"] or ""))
