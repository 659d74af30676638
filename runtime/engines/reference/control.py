"""Ops that run blocks: conditions and loops, whose bodies are bound once and called once an iteration.

1. The arrays of a body are bound when the op is. Carries lie in the op's own outputs. A row is copied to a buffer
   before each iteration. Shared operands are read where they are.
2. The other tensors of a body lie in an arena of its own, which is scratch of the op. The branches of a condition, and
   the condition and the body of a loop, never run at once and share it.
3. An iteration copies its rows, calls the body's ops, stores the rows that it gives, and copies the new carries over
   the old ones. A new carry that lies in the memory of another carry is copied to scratch first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import length_hint
from typing import Any, Final, NamedTuple

import numpy as np

from prograd_proto import Attribute, TensorType
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalysis
from prograd_proto.blocks.control import BLOCKS, COND, SCAN, layout_of
from runtime.dtypes import Array
from runtime.engines.faults import named
from runtime.errors import ExecutionError, NonFinite, OutOfRange
from runtime.step import aliases_of, places_of
from runtime.step.target import Target

Call = Callable[[], object]
Copies = Sequence[tuple[Array, Array]]
"""Pairs of a destination and its source."""


class Body(NamedTuple):
    """A bound block: the calls of its ops, and the arrays of its results."""

    calls: list[Call]
    ops: list[pb.OpDesc]
    results: list[Array]


Bind = Callable[[BlockAnalysis, Mapping[int, Array], Array], Body]
"""A function that binds a block to its arguments and to the bytes of an arena."""


NO_OPS: Final = Body([], [], [])
"""A block without ops, for copies alone."""


class ControlOp(NamedTuple):
    """An op to bind: its message, its arrays, the blocks inside it, and how they are bound."""

    desc: pb.OpDesc
    attributes: Mapping[str, Any]
    inputs: Sequence[Array]
    outputs: Sequence[Array]
    scratch: Sequence[Array]
    blocks: Sequence[BlockAnalysis]
    target: Target
    bind: Bind
    locations: Sequence[str]


def scratch_of_control(
    target: Target,
    op_type: str,
    inputs: Sequence[TensorType | None],
    attributes: dict[str, Attribute],
    blocks: Sequence[BlockAnalysis],
) -> tuple[TensorType, ...]:
    """Return the arena of the blocks, then buffers of rows, then buffers of carries that change places."""
    nbytes = max(places_of(block, target).arena_bytes for block in blocks)
    first, carries, rows = layout_of(op_type, attributes)
    read = [inputs[first + carries + k] for k in range(rows)]
    buffers = [TensorType(type.dtype, type.shape[1:]) for type in read if type is not None]
    body = blocks[-1]
    moved = [body.types[body.desc.results[j]] for j in _moved(body, carries, target)]
    return (TensorType("uint8", (nbytes,)), *buffers, *moved)


def bind_control(op: ControlOp) -> Call:
    """Return the call that computes an op of control flow; all look-ups happen now."""
    if op.desc.type == COND:
        return _cond(op)
    return _scan(op) if op.desc.type == SCAN else _while(op)


class _Round:
    """One run of a block: copies of rows, the calls of its ops, and copies of its results.

    Attributes:
        left: the calls that have not begun, for the name of one that failed.
    """

    def __init__(self, body: Body, fill: Copies = (), store: Copies = (), copies: Copies = ()) -> None:
        """Take the copies of row i to a buffer, of results to row i, and of results to other arrays."""
        self.body, self.left = body, iter(body.calls)
        self._calls, self._fill, self._store, self._copies = body.calls, fill, store, copies

    def make(self, i: int) -> None:
        """Run the block once for row i."""
        for buffer, array in self._fill:
            buffer[...] = array[i]
        self.left = iter(self._calls)
        for call in self.left:
            call()
        for stack, row in self._store:
            stack[i] = row
        for out, value in self._copies:
            out[...] = value

    def clear(self, trips: int) -> None:
        """Fill the rows of iterations that are not made with zeros."""
        for stack, _ in self._store:
            if trips < len(stack):
                stack[trips:].reshape(-1).view(np.uint8).fill(0)


def _cond(op: ControlOp) -> Call:
    predicate, *operands = op.inputs
    bodies = [op.bind(block, dict(enumerate(operands)), op.scratch[0]) for block in op.blocks]
    rounds = [_Round(body, copies=list(zip(op.outputs, body.results, strict=True))) for body in bodies]

    def call() -> None:
        number = 0 if predicate else 1
        try:
            rounds[number].make(0)
        except Exception as error:
            raise _inside(op, error, BLOCKS[COND][number], rounds[number]) from None

    return call


def _scan(op: ControlOp) -> Call:
    first, carries, rows = layout_of(op.desc.type, op.attributes)
    [length], is_reverse = op.attributes["length"], op.attributes["reverse"]
    arena, buffers, moved = op.scratch[0], op.scratch[1 : 1 + rows], op.scratch[1 + rows :]
    read, shared = op.inputs[first + carries : first + carries + rows], op.inputs[first + carries + rows :]
    body = op.bind(op.blocks[0], dict(enumerate([*op.outputs[:carries], *buffers, *shared])), arena)
    begin = _Round(NO_OPS, copies=_pairs(op.outputs[:carries], op.inputs[first : first + carries]))
    store = _pairs(op.outputs[carries:], body.results[carries:])
    each = _Round(body, _pairs(buffers, read), store, _next_carries(op, body, carries, moved))

    def call() -> None:
        trips = length if not first else _trips(op.inputs[0], length)
        begin.make(0)
        each.clear(trips)
        order = range(trips - 1, -1, -1) if is_reverse else range(trips)
        i = 0
        try:
            for i in order:
                each.make(i)
        except Exception as error:
            raise _inside(op, error, f"iteration {order.index(i)}", each) from None

    return call


def _while(op: ControlOp) -> Call:
    _, carries, _ = layout_of(op.desc.type, op.attributes)
    most: int = op.attributes["max_trips"]
    arguments = dict(enumerate([*op.outputs[:carries], *op.inputs[carries:]]))
    condition, body = (op.bind(block, arguments, op.scratch[0]) for block in op.blocks)
    begin = _Round(NO_OPS, copies=_pairs(op.outputs[:carries], op.inputs[:carries]))
    store = _pairs(op.outputs[carries + 1 :], body.results[carries:])
    test, each = _Round(condition), _Round(body, (), store, _next_carries(op, body, carries, op.scratch[1:]))
    trips, [going] = op.outputs[carries], condition.results

    def call() -> None:
        begin.make(0)
        part, number = test, 0
        try:
            while not most or number < most:
                part = test
                part.make(0)
                if not going:
                    break
                part = each
                part.make(number)
                number += 1
        except Exception as error:
            words = f"{'the condition of ' if part is test else ''}iteration {number}"
            raise _inside(op, error, words, part) from None
        trips[...] = number
        each.clear(number)

    return call


def _pairs(to: Sequence[Array], source: Sequence[Array]) -> Copies:
    return list(zip(to, source, strict=True))


def _trips(trips: Array, length: int) -> int:
    """Return the trips of a counted scan; raise ExecutionError if there are fewer rows."""
    number = int(trips)
    if not 0 <= number <= length:
        raise ExecutionError(f"it makes {number} trips, and has {length} rows")
    return number


def _moved(body: BlockAnalysis, carries: int, target: Target) -> list[int]:
    """Return the carries whose next value lies in the memory of another carry."""
    root_of, position = aliases_of(body, target).root, body.arguments
    roots = [position.get(root_of[name], carries) for name in body.desc.results[:carries]]
    return [j for j, root in enumerate(roots) if root < carries and root != j]


def _next_carries(op: ControlOp, body: Body, carries: int, buffers: Sequence[Array]) -> Copies:
    """Return the copies that make the new carries, first those that go by way of a buffer."""
    moved = dict(zip(_moved(op.blocks[-1], carries, op.target), buffers, strict=True))
    early = [(buffer, body.results[j]) for j, buffer in moved.items()]
    late = [(op.outputs[j], moved.get(j, body.results[j])) for j in range(carries)]
    return early + [pair for pair in late if pair[0].ctypes.data != pair[1].ctypes.data or not pair[0].size]


def _inside(op: ControlOp, error: Exception, where: str, part: _Round) -> BaseException:
    """Return an error with the iteration, and the op inside if it was one that failed."""
    position = len(part.body.calls) - length_hint(part.left) - 1
    inner = named(error, part.body.ops[position], op.locations) if position >= 0 else error
    if isinstance(inner, OutOfRange):
        return OutOfRange(f"{where}: {inner}", inner.number)
    if isinstance(inner, NonFinite):
        return NonFinite(f"{where}: {inner}", inner.step)
    return type(inner)(f"{where}: {inner}") if isinstance(inner, ExecutionError) else inner
