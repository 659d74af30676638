"""Names of files: several files by one name with a *, and suffixes that stand for a format."""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path, PurePath, PurePosixPath
from typing import Final

KNOWN: Final = frozenset(
    [
        *[".bin", ".ckpt", ".gguf", ".h5", ".hdf5", ".keras", ".onnx", ".pickle", ".pkl", ".pt", ".pth", ".tflite"],
        *[".npy", ".npz", ".safetensors", ".pb", ".pbtxt"],
        *[".csv", ".html", ".json", ".jsonl", ".parquet", ".png", ".svg", ".tsv", ".txt", ".xlsx", ".xml", ".yaml"],
    ]
)  # fmt: skip
"""Suffixes that stand for a format."""


def other_form(path: str | os.PathLike[str], suffix: str, what: str) -> str:
    """Return a sentence if the name of a file stands for another format than that of `suffix`, else "".

    Args:
        path: the file that would be written.
        suffix: suffix of the format that is written, with its dot, as in ".npy".
        what: content that is written, in the plural, as in "arrays".
    """
    name = PurePath(path)
    if name.suffix.lower() not in KNOWN - {suffix}:
        return ""
    return f"{os.fspath(path)}: {what} are written as {suffix} files; write {name.with_suffix(suffix).name}"


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
