"""How a command ends: exit codes, the sentence of an error, and the result line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from prograd_proto import PluginError, ProgramError
from runtime.errors import DataError, ExecutionError, NonFinite, ResourceLimit, UsageError

EXIT_DONE: Final = 0
EXIT_FAILED: Final = 1  # a verification
EXIT_USAGE: Final = 2
EXIT_PROGRAM: Final = 3
EXIT_DATA: Final = 4
EXIT_NON_FINITE: Final = 5
EXIT_LIMIT: Final = 6
EXIT_BUG: Final = 70
EXIT_INTERRUPTED: Final = 130

_CODES: Final[tuple[tuple[type[BaseException], int], ...]] = (
    (UsageError, EXIT_USAGE),
    (PluginError, EXIT_USAGE),
    (ProgramError, EXIT_PROGRAM),
    (DataError, EXIT_DATA),
    (NonFinite, EXIT_NON_FINITE),
    (ResourceLimit, EXIT_LIMIT),
    (ExecutionError, EXIT_DATA),  # what else a kernel refuses are values: a label or an index out of range
    (MemoryError, EXIT_LIMIT),
    (KeyboardInterrupt, EXIT_INTERRUPTED),
)


def exit_code(error: BaseException) -> int:
    """The code of an error; 70 for one that is our own."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), EXIT_BUG)


def sentence(error: BaseException) -> str:
    """What happened, in one line."""
    if isinstance(error, MemoryError):
        return "there is not enough memory"
    if isinstance(error, KeyboardInterrupt):
        return str(error) or "interrupted"
    if exit_code(error) != EXIT_BUG:
        return str(error)
    return f"a fault of prograd itself, {type(error).__name__}: {error}; --traceback shows where"


def result_line(word: str, fields: Iterable[tuple[str, object]]) -> str:
    """`OK entry=train loss=0.0213`: a word, then names and values without spaces."""
    return " ".join([word, *(f"{_name(name)}={_value(value)}" for name, value in fields)])


def _name(name: str) -> str:
    return "".join("_" if c.isspace() or c == "=" else c for c in name)


def _value(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
