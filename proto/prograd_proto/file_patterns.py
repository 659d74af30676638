"""Several files by one name, in which a * stands for any text: `rows/part-*.safetensors`."""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path, PurePosixPath


def matching(pattern: str, paths: Collection[str]) -> list[str]:
    """Return the path that equals the pattern, or else the sorted matches. A * is allowed in the last name only."""
    if "*" not in pattern or pattern in paths:
        return [pattern]
    from fnmatch import fnmatchcase

    wanted = PurePosixPath(pattern)
    plain = wanted.name.replace("[", "[[]").replace("?", "[?]")
    candidates = [(PurePosixPath(path), path) for path in sorted(paths)]
    return [path for each, path in candidates if each.parent == wanted.parent and fnmatchcase(each.name, plain)]


def files_of(folder: Path, pattern: str) -> list[str]:
    """Return the paths in a folder that match, or the pattern itself if none does, for the caller's error."""
    if "*" not in pattern:
        return [pattern]
    inner = PurePosixPath(pattern).parent
    names: list[str] = []
    with suppress(OSError):
        names = os.listdir(folder / inner)
    return matching(pattern, [(inner / name).as_posix() for name in names]) or [pattern]
