"""How a command ends: exit codes, the sentence of an error, and what metrics are called in the result line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prograd_proto import PluginError, ProgramError
from prograd_proto.os_errors import is_full, os_sentence
from prograd_proto.printable import field_name
from runtime.errors import DataError, ExecutionError, NonFinite, ResourceLimit, UsageError
from runtime.runs.interrupts import Interrupted

if TYPE_CHECKING:
    from runtime.runs.metrics import Metrics  # brings NumPy

EXIT_DONE: Final = 0
EXIT_FAILED: Final = 1  # a verification
EXIT_USAGE: Final = 2
EXIT_PROGRAM: Final = 3
EXIT_DATA: Final = 4
EXIT_NON_FINITE: Final = 5
EXIT_LIMIT: Final = 6
EXIT_BUG: Final = 70
EXIT_INTERRUPTED: Final = 130  # by Ctrl-C, or because nobody reads the results

_OWN: Final = frozenset(
    "entry steps wall arena spill state rss engine math state_sha256".split()  # noqa: SIM905 - words, one after another
)
"""Fields of the result line that say what the runtime knows, not what a program computes."""

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
    """The code of an error; 128 and its number for a signal, 70 for a fault of our own."""
    if isinstance(error, Interrupted):
        return 128 + error.number
    if isinstance(error, OSError):  # what the system says of a file is nobody's fault here
        return EXIT_LIMIT if is_full(error) else EXIT_DATA
    return next((code for kind, code in _CODES if isinstance(error, kind)), EXIT_BUG)


def sentence(error: BaseException) -> str:
    """What happened, in one line."""
    if isinstance(error, MemoryError):
        return "there is not enough memory"
    if isinstance(error, KeyboardInterrupt):
        return str(error) or "interrupted"
    if isinstance(error, OSError):
        return os_sentence(error)
    if exit_code(error) != EXIT_BUG:
        return str(error)
    return f"a fault of prograd itself, {type(error).__name__}: {error}; --traceback shows where"


def metric_fields(metrics: Metrics) -> list[tuple[str, object]]:
    """The fields of metrics, which a program may name as it likes: never as one of the line's own."""
    return [(f"metric.{name}" if field_name(name) in _OWN else name, value) for name, value in metrics.items()]
