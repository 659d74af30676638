"""Both commands, called in the process of the test: how they end, and what they print; and sentences of errors."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from compiler.__main__ import main as compiler
from runtime.__main__ import main as runtime


def ended(
    capsys: pytest.CaptureFixture[str], command: Callable[[list[str]], int], *arguments: object
) -> tuple[int, str, str]:
    """The exit code of a command, and what was printed on stdout and stderr."""
    try:
        code = command([str(argument) for argument in arguments])
    except SystemExit as stop:
        code = int(stop.code or 0)
    out, err = capsys.readouterr()
    return code, out, err


def run_compiler(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """The exit code and what was printed on stdout and stderr."""
    return ended(capsys, compiler, *arguments)


def run_runtime(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, list[str], str]:
    """The exit code, the lines of stdout, and stderr."""
    code, out, err = ended(capsys, runtime, *arguments)
    return code, out.splitlines(), err


def fields(line: str) -> dict[str, str]:
    """The names and values of a result line."""
    word, *pairs = line.split(" ")
    assert word == "OK"
    return dict(pair.split("=", 1) for pair in pairs)


def told(kind: type[BaseException], action: Callable[[], object]) -> str:
    """The sentence of the error that an action raises."""
    with pytest.raises(kind) as caught:
        action()
    return str(caught.value)
