"""`--tensorboard DIR`: the reports of a run as an event file of TensorBoard, written by tensorboardX.

Unlike a metrics file it has times. A resumed run writes one more file, which tells TensorBoard to discard the events
after the step that it resumes from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from time import time
from typing import Any, Final

from prograd_proto.wording import as_asked
from runtime.errors import UsageError
from runtime.extras import extra
from runtime.files.output import writing
from runtime.runs.events import CheckpointWritten, Event
from runtime.sinks.sink import About, tagged

FILES: Final = "events.out.tfevents.*"


class TensorBoardFolder:
    """One event file in a folder; raises UsageError before the run if the package is missing."""

    def __init__(self, folder: Path) -> None:
        self._records = extra("tensorboardX.record_writer", "tensorboard", "--tensorboard")
        self._summary = extra("tensorboardX.summary", "tensorboard", "--tensorboard")
        self._events = extra("tensorboardX.proto.event_pb2", "tensorboard", "--tensorboard")
        self._folder = folder
        self._file: Any = None

    def open(self, about: About, done: int, *, force: bool) -> None:
        """Begin a file for the events after step `done`.

        Raises UsageError if a new run finds the files of another run and `force` is False, and errors as `unwritable`
        gives.
        """
        old = sorted(self._folder.glob(FILES))
        if old and not done and not force:
            how = as_asked("--force", "force=True")
            raise UsageError(f"{self._folder}: the folder has events of another run; {how} removes them")
        with writing(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            for path in old if not done else ():
                path.unlink()
            self._file = self._records.RecordWriter(str(self._folder / f"events.out.tfevents.{time():.6f}.prograd"))
        self._write(file_version="brain.Event:2")
        if done:
            self._write(step=done + 1, session_log=self._events.SessionLog(status=self._events.SessionLog.START))

    def write(self, event: Event, more: Iterable[Mapping[str, Any]]) -> None:
        """Append the metrics of an event, and the histograms after it."""
        if not isinstance(event, CheckpointWritten):
            for name, value in tagged(event).items():
                self._write(step=event.step, summary=self._summary.scalar(name, value))
            for values in more:
                self._write(step=event.step, summary=self._histogram(**values))

    def close(self, *, failed: bool = False) -> None:
        """Flush everything to the disk."""
        if self._file is not None:
            file, self._file = self._file, None
            with suppress(OSError):  # earlier write errors were reported already
                file.close()

    def _histogram(
        self, low: float, high: float, counts: list[int], state: str = "", gradient: str = "", **_: object
    ) -> Any:
        """Return a histogram whose sums use the middles of the bins: TensorBoard shows neither sum."""
        width = (high - low) / len(counts)
        middles = [low + width * (i + 0.5) for i in range(len(counts))]
        total = sum(count * middle for count, middle in zip(counts, middles, strict=True))
        squares = sum(count * middle**2 for count, middle in zip(counts, middles, strict=True))
        limits = [low + width * (i + 1) for i in range(len(counts))]
        return self._summary.histogram_raw(
            state or f"gradient/{gradient}", low, high, sum(counts), total, squares, limits, counts
        )

    def _write(self, **fields: Any) -> None:
        with writing(self._folder):
            self._file.write(self._events.Event(wall_time=time(), **fields).SerializeToString())
