"""A folder of checkpoints: named by step, the newest few kept."""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path
from typing import Final

from prograd_proto import program_pb2 as pb
from runtime.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from runtime.errors import DataError, UsageError
from runtime.output import unwritable
from runtime.position import Position
from runtime.states import States

_NAME: Final = re.compile(r"step-(\d{10,})\.safetensors")
_TEMPORARY: Final = re.compile(r"\.prograd-(\d+)-[0-9a-f]+\.tmp")
_log = logging.getLogger("prograd")


class CheckpointFolder:
    """The checkpoints `step-0000000640.safetensors` of one run; older ones than the newest `keep` are removed."""

    def __init__(self, path: str | os.PathLike[str], *, keep: int = 3) -> None:
        if keep < 1:
            raise UsageError(f"keep={keep}: at least one checkpoint is kept")
        self.path = Path(path)
        self._keep = keep

    def files(self) -> list[Path]:
        """All checkpoints, the oldest first."""
        if not self.path.is_dir():
            return []
        return sorted((f for f in self.path.iterdir() if _NAME.fullmatch(f.name)), key=_step)

    def require_empty(self) -> None:
        """Raise UsageError if there is a checkpoint: another run's, which rotating would remove."""
        if self.files():
            raise UsageError(f"{self.path}: there are checkpoints already; resume continues them, force starts over")

    def clear(self) -> None:
        """Remove all checkpoints."""
        for file in self.files():
            file.unlink()

    def write(self, program: pb.ProgramDesc, sha256: str, states: States, position: Position) -> Path:
        """Write a checkpoint, then remove the oldest; for errors see `write_checkpoint`."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unwritable(self.path, error) from None
        self._sweep()
        file = self.path / f"step-{position.steps:010}.safetensors"
        write_checkpoint(file, program, sha256, states, position, force=True)
        others = [other for other in self.files() if other != file]
        older = [other for other in others if _step(other) < position.steps]
        kept = older[max(0, len(older) - self._keep + 1) :]
        for other in others:
            if other not in kept:  # later ones were passed over on resuming: they are not of this run's past
                other.unlink(missing_ok=True)
        return file

    def newest(self) -> Checkpoint | None:
        """The newest checkpoint that is whole; None if there are none at all.

        A damaged one is passed over with a warning. Raises DataError if all are damaged.
        """
        files = self.files()
        for file in reversed(files):
            try:
                return read_checkpoint(file)
            except DataError as error:
                _log.warning("%s; the one before it is taken", error)
        if files:
            raise DataError(f"{self.path}: all {len(files)} checkpoints are damaged")
        return None

    def _sweep(self) -> None:
        """Remove what processes left that were killed while writing."""
        for file in self.path.iterdir():
            found = _TEMPORARY.fullmatch(file.name)
            if found and not _is_alive(int(found[1])):
                file.unlink(missing_ok=True)


def _step(file: Path) -> int:
    found = _NAME.fullmatch(file.name)
    assert found is not None, "only such files are asked"
    return int(found[1])


def _is_alive(process: int) -> bool:
    if os.name != "posix":  # signal 0 would end it elsewhere
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True
