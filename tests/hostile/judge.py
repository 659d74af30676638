"""One call of a command in this process, and what is wrong with how it ended."""

from __future__ import annotations

import io
import os
import re
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unicodedata import category

from prograd_proto.printable import MAX_SENTENCE_CHARACTERS

CODES = {0, 1, 2, 3, 4, 5, 6, 129, 130, 143}
"""Exit codes of docs/commands.md, without 70."""

SECONDS = 20.0
"""Limit on the processor time of one call; the time limits that calls are given are far shorter."""

ESCAPE = re.compile(r"\\u[dD][89abAB][0-9a-f]{2}\\u[0-9a-f]{4}|\\u[0-9a-f]{4}")
"""The escape sequence of one letter that a terminal cannot show."""

_written: list[str] = []
_watching = False


def watch_writes() -> None:
    """Record every file that is opened for writing, created, renamed or removed from now on; cannot be undone."""
    changes = {"os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "shutil.move"}

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if not _watching:
            return
        if event == "open":
            path, _, flags = arguments
            if isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) and not isinstance(path, int):
                _written.append(os.fsdecode(path))
        elif event in changes:
            _written.extend(os.fsdecode(a) for a in arguments[:2] if isinstance(a, str | bytes))
        elif event in ("os.system", "subprocess.Popen", "os.exec", "os.posix_spawn", "socket.connect"):
            _written.append(event)

    sys.addaudithook(hook)


def call(command: Callable[[list[str]], int], words: list[str]) -> tuple[int | str, str, str, float]:
    """The code, or what was raised, and what was written to stdout and stderr, in how many seconds."""
    start = time.process_time()
    with _terminal() as (out, err):
        try:
            code: int | str = command(words)
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1
        except BaseException as error:
            code = f"{type(error).__name__}: {error}"[:300]
        sys.stdout.flush()
        sys.stderr.flush()
        return code, out.getvalue().decode("utf-8", "replace"), err.getvalue().decode("utf-8", "replace"), _since(start)


def faults(name: str, words: list[str], code: int | str, out: str, err: str, seconds: float) -> list[str]:
    """Return the fault of a call's ending."""
    quiet = "-q" in words or name != "runtime execute"
    found: list[str] = []
    if code not in CODES:
        found.append(f"code {code}")
    if acting := sorted({c for c in out + err if c != "\n" and category(c) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")}):
        found.append(f"unescaped {acting}")
    lines = err.splitlines()
    if any(
        len(ESCAPE.sub("x", line)) > MAX_SENTENCE_CHARACTERS + 60 for line in lines if not line.startswith("epoch ")
    ):
        found.append("a sentence that is too long")
    command = name.partition(" ")[0]
    said = [line for line in lines if not line.startswith((f"{command}: warning: ", "note: ", "wrote ", "epoch "))]
    if code not in (0, 1) and quiet and len(said) != 1:
        found.append(f"{len(said)} sentences instead of one")
    if any(not line.startswith((f"{command}: ", "note: ", "wrote ", "OK ", "{", "epoch ")) for line in lines):
        found.append("a line of nobody's")
    if name != "compiler show" and sum(line.startswith("OK ") for line in out.splitlines()) > 1:
        found.append("a second result line")
    if seconds > SECONDS:
        found.append(f"{seconds:.0f} seconds")
    return found


def strays(folder: Path) -> list[str]:
    """Return the files written outside the folder since the last call."""
    real = os.path.realpath(folder)
    found = [path for path in _written if not f"{os.path.realpath(path)}/".startswith((f"{real}/", "/dev/null/"))]
    _written.clear()
    return found


@contextmanager
def _terminal():
    """Streams of an ASCII terminal, and eyes on every write."""
    global _watching
    out, err = io.BytesIO(), io.BytesIO()
    before = sys.stdout, sys.stderr
    sys.stdout = io.TextIOWrapper(out, "ascii", "strict", newline="\n")
    sys.stderr = io.TextIOWrapper(err, "ascii", "backslashreplace", newline="\n")
    _watching = True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            yield out, err
    finally:
        _watching = False
        sys.stdout, sys.stderr = before


def _since(start: float) -> float:
    return time.process_time() - start
