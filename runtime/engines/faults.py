"""Errors of ops, in a sentence that names the op and the user's line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

from prograd_proto import program_pb2 as pb
from prograd_proto.plugins import namespace_of, plugin_failed
from runtime.errors import ExecutionError, NonFinite, OutOfRange, ProcessLost

Explain = Callable[[str, NonFinite], NonFinite]
"""Function from the name of an op and the fault of its results to an error that describes the op's inputs."""


def named(error: Exception, op: pb.OpDesc, locations: Sequence[str]) -> BaseException:
    """Return the failure of an op inside another one, with the name of the inner op."""
    try:
        raise_named(error, op, locations)
    except BaseException as result:
        return result


def raise_named(
    error: BaseException, op: pb.OpDesc, locations: Sequence[str], explain: Explain | None = None
) -> NoReturn:
    """Raise the failure of an op with its name; raise exceptions that no op caused, such as an interrupt, unchanged."""
    place = locations[op.location - 1] if op.location else ""
    where = f"op {op.id} ({op.type}{f' from {place}' if place else ''})"
    match error:
        case NonFinite() if explain is not None:
            raise explain(where, error) from None
        case OutOfRange():
            raise OutOfRange(f"{where}: {error}", error.number, op.id, place) from None
        case ProcessLost():  # no fault of the op
            raise error
        case ExecutionError():
            raise type(error)(f"{where}: {error}") from None
        case ArithmeticError() | ValueError():  # Python's own arithmetic, on numbers known only at run time
            raise ExecutionError(f"{where}: it cannot be computed: {error}") from error
        case Exception() if namespace_of(op.type):
            raise plugin_failed(where, error) from error
        case _:
            raise error
