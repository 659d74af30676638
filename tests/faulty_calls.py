"""A process whose writing system calls go wrong, or in the middle of which it dies, where its caller says.

`python faulty_calls.py` reads cases, one JSON object a line, and answers each with one; `faults.py` asks. It forks for
each case, so that modules are imported once. In the child, `os.open`, `os.write`, `os.fsync` and so on, and what files
opened for writing do, go through `Calls`. Nothing of this is in the product, which knows no switch for it.
"""

import builtins
import errno
import io
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PATHS = ("mkdir", "unlink", "remove", "replace", "rename", "chmod", "truncate")
DESCRIPTORS = ("write", "fsync", "ftruncate", "close")


class Calls:
    """Counts the calls that write below a folder, and does to one of them what a case asks for.

    A case has `number`, which call it is about, and `how`: `before` and `after` die there, `torn` dies in the middle of
    a write, `short` writes half, an errno's name fails once, and with `+` behind it whenever the function is called.
    """

    def __init__(self, folder: str, case: dict[str, Any]) -> None:
        self.folder = folder
        self.case = case
        self.names: list[str] = []
        self.open: dict[int, str] = {}  # descriptors below the folder

    def call(self, name: str, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        self.names.append(name)
        number, how = self.case.get("number"), self.case.get("how", "")
        again = how.endswith("+") and len(self.names) > number and name == self.names[number]
        if len(self.names) - 1 != number and not again:
            return function(*arguments, **options)
        if how == "before":
            die()
        if how in ("torn", "short") and name == "write":
            half = bytes(arguments[-1])[: len(arguments[-1]) // 2]
            result = function(*arguments[:-1], half)
            return die() if how == "torn" else result
        if hasattr(errno, how.rstrip("+")):
            code = getattr(errno, how.rstrip("+"))
            if name == "close":  # it is closed all the same
                function(*arguments)
            raise OSError(code, os.strerror(code))
        result = function(*arguments, **options)
        return die() if how == "after" else result

    def is_ours(self, path: object) -> bool:
        if not isinstance(path, str | bytes | os.PathLike) or os.fsdecode(path).endswith(".pb"):
            return False  # the program is only read, before anything is written; if it cannot be, the code is 3
        return os.path.realpath(os.fsdecode(path)).startswith(self.folder)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def install(calls: Calls) -> None:
    """Put the counted functions in the place of the system's."""
    for name in PATHS:
        setattr(os, name, _with_path(calls, name, getattr(os, name)))
    for name in DESCRIPTORS:
        setattr(os, name, _with_descriptor(calls, name, getattr(os, name)))
    opened = os.open

    def open_(path: Any, flags: int, *more: Any, **options: Any) -> int:
        if not calls.is_ours(path):
            return opened(path, flags, *more, **options)
        descriptor = calls.call("open", opened, path, flags, *more, **options)
        calls.open[descriptor] = str(path)
        return descriptor

    os.open = open_
    _count_files(calls)


def _with_path(calls: Calls, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def counted(path: Any, *more: Any, **options: Any) -> Any:
        if not calls.is_ours(path):
            return function(path, *more, **options)
        return calls.call(name, function, path, *more, **options)

    return counted


def _with_descriptor(calls: Calls, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def counted(descriptor: int, *more: Any) -> Any:
        if descriptor not in calls.open:
            return function(descriptor, *more)
        if name == "close":
            del calls.open[descriptor]
        return calls.call(name, function, descriptor, *more)

    return counted


def _count_files(calls: Calls) -> None:
    """Let files that are opened for writing be built on a raw file that is counted."""

    raw_file = _raw(calls)
    opened, fdopened = io.open, os.fdopen

    def open_(file: Any, mode: str = "r", *more: Any, **options: Any) -> Any:
        if not set("wax+") & set(mode) or not calls.is_ours(file):
            return opened(file, mode, *more, **options)
        assert "b" in mode, "what writes text is not counted yet"
        raw = calls.call("open", raw_file, file, mode.replace("b", ""))
        calls.open[raw.fileno()] = str(file)
        return io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)

    def fdopen(descriptor: int, mode: str = "r", *more: Any, **options: Any) -> Any:
        if "w" not in mode or descriptor not in calls.open:
            return fdopened(descriptor, mode, *more, **options)
        return io.BufferedWriter(raw_file(descriptor, "w"))

    io.open = builtins.open = open_
    os.fdopen = fdopen


def _raw(calls: Calls) -> type[io.FileIO]:
    class Raw(io.FileIO):
        def write(self, data: Any) -> int:
            return calls.call("write", super().write, data)

        def truncate(self, size: int | None = None) -> int:
            return calls.call("truncate", super().truncate, size)

        def close(self) -> None:
            if self.closed:
                return
            calls.open.pop(self.fileno(), None)
            calls.call("close", super().close)

    return Raw


def run(case: dict[str, Any]) -> None:
    """Be the command for one case, in the case's folder; what it says goes to files there."""
    os.chdir(case["folder"])
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(case[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
    sys.argv = ["runtime", *case["arguments"]]
    calls = Calls(os.path.realpath(case["folder"]), case)
    if "how" in case:
        install(calls)
    from runtime.__main__ import main

    code = main()
    if case.get("how") == "count":
        with open(case["counted"], "w") as file:
            json.dump(calls.names, file)
    os._exit(code)


def serve() -> None:
    """Answer cases with how they ended: the exit code, or minus the signal."""
    import runtime.commands.execute
    import runtime.commands.reports.metrics_file  # noqa: F401 (imported once, for all cases)

    for line in sys.stdin:
        case = json.loads(line)
        process = os.fork()
        if not process:
            try:
                run(case)
            finally:
                os._exit(99)
        if "kill_after" in case:
            time.sleep(case["kill_after"])
            os.kill(process, signal.SIGKILL)  # a zombie, if it has ended; it was not waited for
        _, status = os.waitpid(process, 0)
        print(json.dumps(os.waitstatus_to_exitcode(status)), flush=True)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    serve()
