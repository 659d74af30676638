"""The metrics of every step, epoch and evaluation in a file: CSV, or one JSON object per line.

There are no times in it, so equal runs write equal files. What a checkpoint has behind it is on the disk before the
checkpoint is; and a resumed run first cuts off what was written after the checkpoint that it goes on from. So its file
ends up as if it had never been interrupted, however it was.
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
from runtime.commands.reports.progress import json_event, key_of
from runtime.errors import UsageError
from runtime.files.output import unwritable, write_output
from runtime.runs.events import CheckpointWritten, EvaluationEnd, Event
from runtime.runs.position import Position

_FIRST = ("event", "epoch", "step")
_EVALUATED = ("split", "best")
_EVENTS = ("step", "epoch", "histogram", "evaluation")


class MetricsFile:
    """A file; `names` are the columns of a CSV file, evaluations' ones with the entry in front.

    Where a run `evaluates`, the columns `split` and `best` say on what, and if the states were the best so far.
    """

    def __init__(self, path: Path, names: Sequence[str], *, evaluates: bool = False) -> None:
        self._path = path
        self._csv = path.suffix == ".csv"
        self._columns = [*_FIRST, *(_EVALUATED if evaluates else ()), *map(key_of, names)]
        self._file: BinaryIO | None = None

    def open(self, *, force: bool = False) -> None:
        """Begin the file. Raises UsageError if it exists and not `force`, else as `write_output`.

        A new one needs no temporary file, which a killed process would leave: what it has is begun anew.
        """
        if force:
            write_output(self._path, self._header().encode(), force=True)
        else:
            self._create()
        self._append()

    def reopen(self, position: Position, first: int) -> None:
        """Go on with the file, if it is there, as far as it goes to the position.

        `first` is the step of a run's first checkpoint: without any, the file goes no further.

        Raises UsageError if it has other columns or is not of this run, else as `unwritable`.
        """
        if not os.path.lexists(self._path):
            self.open()
            return
        try:
            with self._path.open("r+b") as file:
                end = self._end(file, position, first)
                if end < file.seek(0, os.SEEK_END):
                    file.truncate(end)
                    os.fsync(file.fileno())
        except OSError as error:
            raise unwritable(self._path, error) from None
        self._append()

    def write(self, event: Event, more: Iterable[Mapping[str, object]] = ()) -> None:
        """Append what an event says; `more` are lines after it, which only JSON has."""
        assert self._file is not None, "it was opened"
        if isinstance(event, CheckpointWritten):
            return
        try:
            self._file.write(self._line(event).encode())
            for values in () if self._csv else more:
                self._file.write(_json_line(values).encode())
        except OSError as error:
            raise unwritable(self._path, error) from None

    def sync(self) -> None:
        """Have all that was appended on the disk."""
        if self._file is None:
            return
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise unwritable(self._path, error) from None

    def close(self) -> None:
        """Have all on the disk, and open the file no more."""
        try:
            self.sync()
        finally:
            if self._file is not None:
                file, self._file = self._file, None
                with suppress(OSError):  # what could not be flushed was told
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
        try:
            self._file = self._path.open("ab")
        except OSError as error:
            raise unwritable(self._path, error) from None

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
        """Where the lines end that belong before the position; lines that were cut short end them as well."""
        header = self._header().encode()
        found = file.read(len(header))
        if found != header and header.startswith(found):  # its beginning was cut short
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
        """Raise UsageError if a whole line is not of a run that ended before its first checkpoint."""
        if line.endswith(b"\n"):
            raise UsageError(
                f"{self._path}: there is no checkpoint yet, and the file has more than the {first} steps before the "
                "first one, so it is of another run; name another file"
            )

    def _event_and_step(self, line: bytes) -> tuple[str, float]:
        """Of a whole line of ours; any other is the event `none`, after all steps."""
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
    """Return words as a spreadsheet shows them: one that begins as a formula does gets the `'` that makes it text."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@")) else value
