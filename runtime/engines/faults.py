"""What an op raised, in a sentence that names the op and the user's line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

from prograd_proto import program_pb2 as pb
from prograd_proto.plugins import namespace_of, plugin_failed
from runtime.errors import ExecutionError, NonFinite, OutOfRange

Explain = Callable[[str, NonFinite], NonFinite]
"""From the name of an op and what is wrong with its results to an error that says what it read."""


def raise_named(
    error: BaseException, op: pb.OpDesc, locations: Sequence[str], explain: Explain | None = None
) -> NoReturn:
    """Raise the failure of an op; what is nobody's fault, such as an interrupt, as it is."""
    where = f"op {op.id} ({op.type}{f' from {locations[op.location - 1]}' if op.location else ''})"
    match error:
        case NonFinite() if explain is not None:
            raise explain(where, error) from None
        case OutOfRange():
            raise OutOfRange(f"{where}: {error}", error.number) from None
        case ExecutionError():
            raise type(error)(f"{where}: {error}") from None
        case ArithmeticError() | ValueError():  # Python's own arithmetic, on numbers that only a step knows
            raise ExecutionError(f"{where}: it cannot be computed: {error}") from error
        case Exception() if namespace_of(op.type):
            raise plugin_failed(where, error) from error
        case _:
            raise error
