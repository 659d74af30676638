"""Entries of the cache: found, kept, listed and removed. Any fault counts as an absent entry."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from time import time
from typing import Final, NamedTuple

from runtime.engines.native.cache.entry import Entry, Label, from_bytes, to_bytes
from runtime.engines.native.cache.folder import (
    SUFFIX,
    UNFINISHED,
    cache_folder,
    mark_used,
    read_file,
    why_unsafe,
    write_file,
)

MAX_CACHE_BYTES: Final = 256 << 20
"""Upper bound on the size of all files; the least recently used are removed first."""

ABANDONED_SECONDS: Final = 3600.0
"""Age from which on an unfinished file belongs to no process any more."""


class CacheFile(NamedTuple):
    """A file of the cache.

    Attributes:
        path: its path.
        nbytes: its size.
        used: time of the last write or read, in seconds since 1970.
    """

    path: Path
    nbytes: int
    used: float

    @property
    def label(self) -> Label | None:
        """Description of the entry; None if the file is unfinished, damaged or unsafe, and so not used."""
        entry = _read(self.path)
        return entry.label if entry else None


def find(key: str) -> Entry | None:
    """Return the entry of a key; None if there is no usable one."""
    folder = _safe_folder()
    if folder is None:
        return None
    entry = _read(folder / (key + SUFFIX))
    if entry:
        mark_used(folder / (key + SUFFIX))
    return entry


def keep(entry: Entry, most_bytes: int = MAX_CACHE_BYTES) -> None:
    """Write an entry, and remove old entries beyond the bound."""
    content = to_bytes(entry)
    folder = cache_folder()
    if folder is None or len(content) > most_bytes:
        return
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except OSError:
        return
    if _safe_folder() and write_file(folder / (entry.label.key + SUFFIX), content):
        _make_room(folder, most_bytes)


def kept() -> list[CacheFile]:
    """Return all files of the cache, the most recently used first; raise OSError if the folder cannot be read."""
    folder = cache_folder()
    if folder is None or not folder.is_dir():
        return []
    return sorted(_files(folder), key=lambda file: -file.used)


def clear() -> list[CacheFile]:
    """Remove all files of the cache, and no others; return them. Raise OSError for a file that cannot be removed."""
    files = kept()
    for file in files:
        file.path.unlink(missing_ok=True)
    return files


def _read(path: Path) -> Entry | None:
    content = read_file(path)
    entry = from_bytes(content) if content else None
    return entry if entry and entry.label.key + SUFFIX == path.name else None


def _safe_folder() -> Path | None:
    folder = cache_folder()
    try:
        return None if folder is None or why_unsafe(folder) else folder
    except OSError:
        return None


def _files(folder: Path) -> list[CacheFile]:
    return [CacheFile(Path(path), *of) for path, of in _measured(folder).items()]


def _measured(folder: Path) -> dict[str, tuple[int, float]]:
    """Return the size and the time of the last use of each file of the cache, by path."""
    found: dict[str, tuple[int, float]] = {}
    for entry in os.scandir(folder):
        if not entry.name.endswith((SUFFIX, UNFINISHED)):
            continue
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:  # another process removed it
            continue
        found[entry.path] = status.st_size, status.st_mtime
    return found


def _make_room(folder: Path, most_bytes: int) -> None:
    try:
        files = sorted(_measured(folder).items(), key=lambda file: -file[1][1])
    except OSError:
        return
    total, oldest = 0, time() - ABANDONED_SECONDS
    for path, (nbytes, used) in files:
        total += nbytes
        if total > most_bytes or (used < oldest and path.endswith(UNFINISHED)):
            with suppress(OSError):  # another process removed it, or it cannot be removed
                os.unlink(path)
