"""A folder of checkpoints: named by step, the newest few kept, of one run, and written by one process at a time.

The process removes only files that it wrote, or that it read as checkpoints of its program. It never removes, renames
or overwrites files that it cannot read, for permissions, a fault of the disk or a newer format: the run ends instead.
Files that it can read and that are damaged are renamed.
"""

from __future__ import annotations

import logging
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Final

from prograd_proto import program_pb2 as pb
from prograd_proto.atomic import TEMPORARY_FILES
from prograd_proto.spelling import closest
from prograd_proto.wording import as_asked
from runtime.errors import Damaged, DataError, UsageError
from runtime.files.output import make_folder, writing
from runtime.runs.checkpoints.checkpoint import Checkpoint, read_checkpoint, read_description, write_checkpoint
from runtime.runs.checkpoints.folder_lock import FolderLock
from runtime.runs.position import Position
from runtime.runs.states import States

_NAME: Final = re.compile(r"step-([0-9]{10,19})\.safetensors")
_TEMPORARY: Final = re.compile(r"\.prograd-([0-9]{1,10})-[0-9a-f]+\.tmp")
_log = logging.getLogger("prograd")


class CheckpointFolder:
    """The checkpoints `step-0000000640.safetensors` of one run.

    Only the newest `keep` are kept, and those of the best evaluations that the position of the run lists.
    """

    def __init__(self, path: str | os.PathLike[str], *, keep: int = 3) -> None:
        if keep < 1:
            raise UsageError(f"keep={keep}: at least one checkpoint is kept")
        self.path = Path(path)
        self._keep = keep
        self._lock: FolderLock | None = None
        self._ours: list[Path] = []  # earlier checkpoints of this run, the oldest first

    def files(self) -> list[Path]:
        """Return all checkpoints, the oldest first; raise DataError if the folder cannot be listed."""
        try:
            return sorted((self.path / name for name in os.listdir(self.path) if _NAME.fullmatch(name)), key=_step)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise DataError(f"{self.path}: the folder cannot be listed: {error.strerror or error}") from None

    def hint(self) -> str:
        """Return a clause that names the folder beside this one that has checkpoints and the closest name, or ""."""
        try:
            folders = [path for path in self.path.parent.iterdir() if path.is_dir() and path != self.path]
            return closest(self.path.name, [path.name for path in folders if CheckpointFolder(path).files()])
        except (OSError, DataError):
            return ""

    def steps(self) -> list[int]:
        """Return the steps of all checkpoints, in order."""
        return [_step(file) for file in self.files()]

    def at(self, step: int) -> Path:
        """Return the path of the checkpoint after a number of steps, which need not exist."""
        return self.path / f"step-{step:010}.safetensors"

    def newest(self) -> Checkpoint | None:
        """Return the newest checkpoint that is whole; None if there are none at all.

        A damaged one is skipped with a warning. Raises DataError if one cannot be read, or all are damaged.
        """
        files = self.files()
        for file in reversed(files):
            try:
                return read_checkpoint(file)
            except Damaged as error:
                _log.warning("%s; the one before it is taken", error)
            except DataError as error:
                raise DataError(f"{error}; move the file away to go on from the one before it") from None
        if files:
            raise DataError(f"{self.path}: all {len(files)} checkpoints are damaged")
        return None

    def claim(self, program_sha256: str, at: int | None, *, force: bool) -> None:
        """Claim the folder for a run of this program, until `release`; change nothing in it unless all checks pass.

        Args:
            program_sha256: hash of the program.
            at: the present step of the run, if its earlier checkpoints are in this folder; None if they are not.
            force: remove the checkpoints of another run, or those that are later than `at`.

        Raises:
            UsageError: another process has the folder, or there are checkpoints that are not earlier ones of this run.
            DataError: one of the conflicting checkpoints cannot be read, or the folder cannot be written.
            ResourceLimit: the disk is full.
        """
        make_folder(self.path)
        self._lock = FolderLock(self.path)
        try:
            files = self.files()
            if at is None and files and not force:
                how = as_asked("--resume continues them, --force", "run.resume continues them, force=True")
                raise UsageError(f"{self.path}: there are checkpoints already; {how} starts over")
            at = -1 if at is None else at
            later = [file for file in files if _step(file) > at]
            damaged = [file for file in later if not self._is_whole(file, at, force=force)]
            self._ours = [file for file in files if file not in later and _is_of(file, program_sha256)]
            self._clear(later, damaged)
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Let other processes write into the folder."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def write(self, program: pb.ProgramDesc, sha256: str, states: States, position: Position) -> Path:
        """Write a checkpoint, then remove the oldest; for errors see `write_checkpoint`.

        The folder must be claimed. A checkpoint that cannot be removed stays, with a warning.
        """
        make_folder(self.path)
        file = self.at(position.steps)
        if file not in self._ours and os.path.lexists(file):
            self._require_damaged(file)
            _set_aside(file)
        write_checkpoint(file, program, sha256, states, position, force=True)
        self._ours = [*(other for other in self._ours if other != file), file]
        best = {steps for _, steps in position.top}
        kept = {*self._ours[-self._keep :], *(other for other in self._ours if _step(other) in best)}
        for old in [other for other in self._ours if other not in kept]:
            self._ours.remove(old)
            try:
                old.unlink(missing_ok=True)
            except OSError as error:
                _log.warning("%s: this old checkpoint cannot be removed: %s", old, error.strerror or error)
        return file

    def _is_whole(self, file: Path, at: int, *, force: bool) -> bool:
        """Return True if a checkpoint later than ours is whole and may be removed; False if it is damaged."""
        try:
            read_checkpoint(file)
        except Damaged:
            return False
        if not force:
            how = as_asked("--force", "force=True")
            raise UsageError(
                f"{file}: this is later than step {at}, where the run stands; resume from it, or {how} removes it"
            )
        return True

    def _require_damaged(self, file: Path) -> None:
        """Raise UsageError unless the file with the name of our next checkpoint is damaged."""
        with suppress(Damaged):
            read_checkpoint(file)
            raise UsageError(f"{file}: there is another checkpoint in the place of the one to be written")

    def _clear(self, later: list[Path], damaged: list[Path]) -> None:
        """Remove whole later checkpoints, rename damaged ones, and remove the temporary files of killed processes."""
        with writing(self.path):
            for file in later:
                if file in damaged:
                    _set_aside(file)
                else:
                    file.unlink(missing_ok=True)
            for name in os.listdir(self.path):
                found = _TEMPORARY.fullmatch(name)
                if found and _is_left(self.path / name, int(found[1])):
                    with suppress(OSError):
                        os.unlink(self.path / name)


def _is_of(file: Path, program_sha256: str) -> bool:
    try:
        return read_description(file).get("program_sha256") == program_sha256
    except DataError:
        return False


def _set_aside(file: Path) -> None:
    """Rename a damaged checkpoint so that it no longer counts as one; overwrite nothing."""
    number, aside = 1, file.with_name(f"{file.name}.damaged")
    while os.path.lexists(aside):
        number += 1
        aside = file.with_name(f"{file.name}.damaged-{number}")
    with writing(file):
        os.rename(file, aside)
    _log.warning("%s: this checkpoint is damaged, and is now %s", file, aside.name)


def _step(file: Path) -> int:
    found = _NAME.fullmatch(file.name)
    assert found is not None, "only such files are asked"
    return int(found[1])


def _is_left(temporary: Path, process: int) -> bool:
    """Return True if no process writes a temporary file any more; in containers, process numbers often repeat."""
    if process == os.getpid():
        return os.path.realpath(temporary) not in TEMPORARY_FILES
    if os.name != "posix":  # signal 0 would end the process elsewhere
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False
