"""The hash of everything that code depends on: computation, target, and the sources and compiler that wrote it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

import prograd_proto
from runtime.codegen.machine import Target

OURS = ([os.fspath(Path(__file__).parents[3])], prograd_proto.__path__)
"""The folders whose sources determine the code: `runtime`, and the shared package."""


def key_of(target: Target, parts: Sequence[bytes]) -> str:
    """Return the key of the code for a target, from these parts: 64 hexadecimal digits.

    Raise OSError if our own sources cannot be read.
    """
    total = sha256()
    for part in (_writer().encode(), _compiler().encode(), repr(target).encode(), *parts):
        total.update(sha256(part).digest())
    return total.hexdigest()


@cache
def _writer() -> str:
    """Return a hash of our own sources, so that no code of other sources runs."""
    total = sha256()
    for folders in OURS:
        for folder in folders:
            for path in _sources(folder):
                with open(path, "rb", buffering=0) as file:
                    content = file.read()
                total.update(b"%s %d\n" % (os.fsencode(path[len(folder) :]), len(content)))
                total.update(content)
    return total.hexdigest()


def _sources(folder: str) -> Iterator[str]:
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.is_dir() and entry.name != "__pycache__":
            yield from _sources(entry.path)
        elif entry.name.endswith(".py"):
            yield entry.path


@cache
def _compiler() -> str:
    """Return the version of llvmlite, from its files: importing it takes the time that a cached object is to save."""
    spec = find_spec("llvmlite")
    folders = [Path(folder) for folder in (spec and spec.submodule_search_locations) or ()]
    files = [path for folder in folders for path in (folder / "_version.py", *sorted((folder / "binding").glob("*")))]
    return repr([(path.name, path.stat().st_size) for path in files if path.is_file()]) + "".join(
        path.read_text(encoding="utf-8") for path in files if path.name == "_version.py" and path.is_file()
    )
