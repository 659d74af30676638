"""The metrics of every step, epoch and evaluation in a file: CSV, or one JSON object per line.

The file has no times, so equal runs write equal files. The lines before a checkpoint are on the disk before the
checkpoint is. A resumed run first truncates the file to its checkpoint. So its file ends up as if the run had never
been interrupted.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from prograd_proto.atomic import sync_folder
from runtime.errors import UsageError
from runtime.files.output import unwritable, write_output, writing
from runtime.runs.events import CheckpointWritten, EvaluationEnd, Event
from runtime.runs.position import Position
from runtime.runs.shown.progress import json_event, key_of

_FIRST = ("event", "epoch", "step")
_EVALUATED = ("split", "best")
_EVENTS = ("step", "epoch", "histogram", "evaluation")


class MetricsFile:
    """A metrics file; `names` are the columns of a CSV file, those of evaluations with the entry in front.

    If a run `evaluates`, the column `split` names the evaluated rows, and `best` says if the states were the best so
    far.
    """

    def __init__(self, path: Path, names: Sequence[str], *, evaluates: bool = False) -> None:
        self._path = path
        self._csv = path.suffix == ".csv"
        self._columns = [*_FIRST, *(_EVALUATED if evaluates else ()), *map(key_of, names)]
        self._file: BinaryIO | None = None

    def open(self, *, force: bool = False) -> None:
        """Begin the file; raise UsageError if it exists and not `force`, and other errors as `write_output`.

        A new file needs no temporary file, which a killed process would leave: an incomplete file is begun anew.
        """
        if force:
            write_output(self._path, self._header().encode(), force=True)
        else:
            self._create()
        self._append()

    def reopen(self, position: Position, first: int) -> None:
        """Truncate the file to the position, if it exists, and continue it.

        `first` is the step of the run's first checkpoint: without a checkpoint, the file ends before it.

        Raises UsageError if it has other columns or belongs to another run, and other errors as `unwritable`.
        """
        if not os.path.lexists(self._path):
            self.open()
            return
        with writing(self._path), self._path.open("r+b") as file:
            end = self._end(file, position, first)
            if end < file.seek(0, os.SEEK_END):
                file.truncate(end)
                os.fsync(file.fileno())
        self._append()

    def write(self, event: Event, more: Iterable[Mapping[str, object]] = ()) -> None:
        """Append the line of an event; `more` are lines after it, which only JSON has."""
        assert self._file is not None, "it was opened"
        if isinstance(event, CheckpointWritten):
            return
        with writing(self._path):
            self._file.write(self._line(event).encode())
            for values in () if self._csv else more:
                self._file.write(_json_line(values).encode())

    def sync(self) -> None:
        """Flush all appended lines to the disk."""
        if self._file is None:
            return
        with writing(self._path):
            self._file.flush()
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Flush everything to the disk, and close the file for good."""
        try:
            self.sync()
        finally:
            if self._file is not None:
                file, self._file = self._file, None
                with suppress(OSError):  # errors of the flush were reported
                    file.close()

    def _create(self) -> None:
        try:
            with self._path.open("xb") as file:
                file.write(self._header().encode())
                file.flush()
                os.fsync(file.fileno())
            sync_folder(os.fspath(self._path.absolute().parent))
        except FileExistsError:
            raise UsageError(f"{self._path}: the file exists; --force replaces it") from None
        except OSError as error:
            raise unwritable(self._path, error) from None

    def _append(self) -> None:
        with writing(self._path):
            self._file = self._path.open("ab")

    def _header(self) -> str:
        return _csv_line(self._columns) if self._csv else ""

    def _line(self, event: Event) -> str:
        values = json_event(event)
        if not self._csv:
            return _json_line(values)
        if isinstance(event, EvaluationEnd):
            values |= {f"{event.entry}.{name}": value for name, value in event.metrics.items()}
            for name in event.metrics:
                values.pop(key_of(name))
        return _csv_line([values.get(name, "") for name in self._columns])

    def _end(self, file: BinaryIO, position: Position, first: int) -> int:
        """Return the end of the lines that belong before the position; a truncated line ends them as well."""
        header = self._header().encode()
        found = file.read(len(header))
        if found != header and header.startswith(found):  # its beginning was truncated
            file.seek(0)
            file.write(header)
        elif found != header:
            raise UsageError(f"{self._path}: the file has other columns than this run; name another one")
        steps, closed = (position.steps, position.closed) if position.steps else (first, first)
        end, last, line = len(header), 0, b""
        for line in file:
            event, step = self._event_and_step(line)
            if step > (steps if event == "step" else closed):
                break
            end += len(line)
            last = step if event == "step" else last
        else:
            line = b""
        if not position.steps:
            self._require_beginning(line, first)
            return len(header)
        if last != position.steps and (last or self._event_and_step(line)[0] == "none"):
            raise UsageError(
                f"{self._path}: the metrics end at step {last}, and the run goes on from step {position.steps}; "
                "name another file"
            )
        return end

    def _require_beginning(self, line: bytes, first: int) -> None:
        """Raise UsageError if a whole line follows the steps before the first checkpoint: another run wrote it."""
        if line.endswith(b"\n"):
            raise UsageError(
                f"{self._path}: there is no checkpoint yet, and the file has more than the {first} steps before the "
                "first one, so it belongs to another run; name another file"
            )

    def _event_and_step(self, line: bytes) -> tuple[str, float]:
        """Return the event and step of a whole line; a line in another format is the event `none`, after all steps."""
        if not line:
            return "", 0
        try:
            text = line.decode()
            if self._csv:
                event, _, step = next(csv.reader([text]))[:3]
            else:
                values: Any = json.loads(text)
                event, step = values["event"], values["step"]
            if text.endswith("\n") and event in _EVENTS:
                return str(event), int(step)
        except (ValueError, KeyError, TypeError, RecursionError):
            pass
        return "none", math.inf


def _json_line(values: Mapping[str, object]) -> str:
    return json.dumps(values, allow_nan=False) + "\n"


def _csv_line(values: Sequence[object]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow([_cell(value) for value in values])
    return text.getvalue()


def _cell(value: object) -> object:
    """Return text in a form that spreadsheets show as text: a `'` precedes the first character of a formula."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@")) else value
