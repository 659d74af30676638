"""The cache folder and its files: paths, ownership, reading and writing.

A folder or file is used only if it belongs to the user, no other user may write it, and it is no symbolic link. On
Windows the user's own folder keeps other users away.
"""

from __future__ import annotations

import os
import secrets
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from runtime.errors import UsageError

CACHE_OFF: Final = ("", "0", "off")
"""Values of PROGRAD_CACHE that turn the cache off."""

SUFFIX: Final = ".code"
UNFINISHED: Final = ".part"
MAX_FILE_BYTES: Final = 1 << 30
NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)


def cache_folder() -> Path | None:
    """Return the folder of compiled code; None if code is not cached.

    Raise UsageError if PROGRAD_CACHE is a relative path: it would name another folder in each working directory.
    """
    named = os.environ.get("PROGRAD_CACHE")
    if named in CACHE_OFF:
        return None
    if named is not None:
        return _absolute(named)
    try:
        return _users_folder() / "prograd"
    except RuntimeError:  # the user's home is unknown
        return None


def _absolute(named: str) -> Path:
    if not os.path.isabs(named):
        raise UsageError(
            f"PROGRAD_CACHE is {named!r}, a relative path; give an absolute path, or off to store no compiled code"
        )
    return Path(named)


def _users_folder() -> Path:
    if sys.platform == "win32" and os.environ.get("LOCALAPPDATA"):
        return Path(os.environ["LOCALAPPDATA"])
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return named if named.is_absolute() else Path.home() / ".cache"


def why_unsafe(folder: Path) -> str | None:
    """Return the reason not to use the folder, as the end of a sentence; None if it may be used.

    Raise OSError if there is no such folder.
    """
    return _why_unsafe(os.lstat(folder), stat.S_ISDIR, "folder")


def read_file(path: Path) -> bytes | None:
    """Return the content of a file in a checked folder; None if it is absent or unsafe."""
    try:
        number = os.open(path, os.O_RDONLY | NO_LINK)
        with open(number, "rb") as file:
            status = os.fstat(number)
            if _why_unsafe(status, stat.S_ISREG, "file") or status.st_size > MAX_FILE_BYTES:
                return None
            return file.read()
    except OSError:
        return None


def mark_used(path: Path) -> None:
    """Mark a file as recently used."""
    with suppress(OSError):  # a read-only disk
        os.utime(path)


def write_file(path: Path, content: bytes) -> bool:
    """Write a file into a checked folder, whole or not at all; return True if it is there."""
    part = path.with_name(f"{path.name}.{os.getpid()}-{secrets.token_hex(4)}{UNFINISHED}")
    try:
        number = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINK, 0o600)
        try:
            with open(number, "wb") as file:
                file.write(content)
            os.replace(part, path)
        except OSError:
            part.unlink(missing_ok=True)
            return False
    except OSError:  # the disk is full or read-only: the file is not kept
        return False
    return True


def _why_unsafe(status: os.stat_result, is_kind: Callable[[int], bool], kind: str) -> str | None:
    if stat.S_ISLNK(status.st_mode):
        return "is a symbolic link"
    if not is_kind(status.st_mode):
        return f"is no {kind}"
    user = getattr(os, "geteuid", None)
    if user is None:  # Windows: files belong to whom the folder above belongs to
        return None
    if status.st_uid != user():
        return "belongs to another user"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "may be written by others"
    return None
