"""Files that a run writes: whole or not at all, with failures raised as errors of the runtime."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from prograd_proto.atomic import sync_folder, write_atomically
from prograd_proto.file_names import other_form
from runtime.errors import DataError, ResourceLimit, UsageError

_FULL_DISK: Final = ("ENOSPC", "EDQUOT", "EFBIG")


def write_output(path: str | os.PathLike[str], content: bytes | Callable[[BinaryIO], object], *, force: bool) -> None:
    """Write `content`, or what the function writes, to `path`; an existing file stays until the new one is on the disk.

    Raises UsageError if the file exists and not `force`, ResourceLimit if the disk is full, DataError if the file
    cannot be written for another reason.
    """
    try:
        write_atomically(path, content, force=force)
    except FileExistsError as error:
        raise UsageError(f"{os.fspath(path)}: {error}") from None
    except OSError as error:
        raise unwritable(path, error) from None


def require_form(path: str | os.PathLike[str], suffix: str, what: str) -> None:
    """Raise UsageError for a file whose name stands for another format than that of `suffix`; see `other_form`."""
    if sentence := other_form(path, suffix, what):
        raise UsageError(sentence)


def make_folder(path: str | os.PathLike[str]) -> None:
    """Create a folder and its missing parents so that they survive a power cut; raise errors as `write_output` does."""
    missing = [folder for folder in (Path(path), *Path(path).parents) if not os.path.lexists(folder)]
    with writing(path):
        for folder in reversed(missing):
            folder.mkdir(exist_ok=True)
            sync_folder(os.fspath(folder.parent))


@contextmanager
def writing(path: str | os.PathLike[str]) -> Generator[None]:
    """Raise the error that `unwritable` returns for an OSError in this context."""
    try:
        yield
    except OSError as error:
        raise unwritable(path, error) from None


def unwritable(path: str | os.PathLike[str], error: OSError) -> ResourceLimit | DataError:
    """Return the error for a file that cannot be written: ResourceLimit if the disk is full, DataError otherwise."""
    from errno import errorcode

    kind = ResourceLimit if errorcode.get(error.errno or 0) in _FULL_DISK else DataError
    return kind(f"{os.fspath(path)}: the file cannot be written: {error.strerror or error}")
