"""The metrics of every step, epoch and evaluation in a file: CSV, or one JSON object per line.

There are no times in it, so equal runs write equal files; a resumed run drops what was written after the
checkpoint that it goes on from, and its file ends up as if it had never been interrupted.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from runtime.commands.progress import json_event, key_of
from runtime.errors import DataError, UsageError
from runtime.events import CheckpointWritten, EpochEnd, EvaluationEnd, Event
from runtime.output import unwritable, write_output
from runtime.position import Position

_FIRST = ("event", "epoch", "step")


class MetricsFile:
    """An open file; `names` are the columns of a CSV file, evaluations' ones with the entry in front."""

    def __init__(self, path: Path, names: Sequence[str], position: Position, *, force: bool) -> None:
        """Begin the file, or go on with it if the run does.

        Raises UsageError if it exists, the run is new and not `force`, or if it has other columns; DataError or
        ResourceLimit if it cannot be written.
        """
        self._path = path
        self._csv = path.suffix == ".csv"
        self._columns = [*_FIRST, *map(key_of, names)]
        kept = self._kept(position) if position.steps and path.exists() else self._header()
        write_output(path, kept.encode(), force=force or bool(position.steps))
        try:
            self._file: TextIO = path.open("a", encoding="utf-8", newline="")
        except OSError as error:
            raise unwritable(path, error) from None

    def write(self, event: Event) -> None:
        """Append what an event says; an epoch and all before it is then in the file."""
        try:
            if not isinstance(event, CheckpointWritten):
                self._file.write(self._line(event))
            if isinstance(event, EpochEnd | CheckpointWritten):
                self._file.flush()
        except OSError as error:
            raise unwritable(self._path, error) from None

    def close(self) -> None:
        """Write what is left."""
        try:
            self._file.close()
        except OSError as error:
            raise unwritable(self._path, error) from None

    def _header(self) -> str:
        return _csv_line(self._columns) if self._csv else ""

    def _line(self, event: Event) -> str:
        values = json_event(event)
        if not self._csv:
            return json.dumps(values, allow_nan=False) + "\n"
        if isinstance(event, EvaluationEnd):
            values |= {f"{event.entry}.{name}": value for name, value in event.metrics.items()}
            for name in event.metrics:
                values.pop(key_of(name))
        return _csv_line([values.get(name, "") for name in self._columns])

    def _kept(self, position: Position) -> str:
        """What the file has from before the position; a line that was cut short is not kept."""
        try:
            lines = self._path.read_text(encoding="utf-8").splitlines(keepends=True)
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"{self._path}: the metrics so far cannot be read: {error}") from None
        header = self._header()
        if self._csv and (not lines or lines[0] != header):
            raise UsageError(f"{self._path}: the file has other columns than this run; name another one")
        rows = lines[1:] if self._csv else lines
        return header + "".join(line for line in rows if self._is_before(line, position))

    def _is_before(self, line: str, position: Position) -> bool:
        try:
            if not line.endswith("\n"):
                return False
            if self._csv:
                event, _, step = next(csv.reader([line]))[:3]
            else:
                values: Any = json.loads(line)
                event, step = values["event"], values["step"]
            return int(step) <= (position.steps if event == "step" else position.closed)
        except (ValueError, KeyError, TypeError):
            return False


def _csv_line(values: Sequence[object]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow([_cell(value) for value in values])
    return text.getvalue()


def _cell(value: object) -> object:
    """Words as a spreadsheet shows them: one that begins as a formula does gets the `'` that makes it text."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@")) else value
