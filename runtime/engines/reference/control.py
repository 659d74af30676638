"""Ops that run blocks: conditions and loops, whose bodies are bound once and called once an iteration.

1. The arrays of a body are bound when the op is. Carries lie in the op's own outputs. A row is copied to a buffer before
   each iteration. Shared operands are read where they are.
2. The other tensors of a body lie in an arena of its own, which is scratch of the op. The branches of a condition, and
   the condition and the body of a loop, never run at once and share it.
3. An iteration copies its rows, calls the body's ops, stores the rows that it gives, and copies the new carries over
   the old ones. A new carry that lies in the memory of another carry is copied to scratch first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import length_hint
from typing import Any, NamedTuple

import numpy as np

from prograd_proto import Attribute, TensorType
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalysis
from prograd_proto.control import COND, SCAN, layout_of
from runtime.dtypes import Array
from runtime.engines.faults import named
from runtime.errors import ExecutionError, NonFinite, OutOfRange
from runtime.step import aliases_of, places_of, scratch_of
from runtime.step.target import Target

Call = Callable[[], object]
Copies = list[tuple[Array, Array]]
"""Pairs of a destination and its source."""


class Body(NamedTuple):
    """A bound block: the calls of its ops, and the arrays of its results."""

    calls: list[Call]
    ops: list[pb.OpDesc]
    results: list[Array]


Bind = Callable[[BlockAnalysis, Mapping[int, Array], Array], Body]
"""A function that binds a block to its arguments and to the bytes of an arena."""


class ControlOp(NamedTuple):
    """An op to bind: its message, its arrays, the blocks inside it, and how they are bound."""

    desc: pb.OpDesc
    attributes: Mapping[str, Any]
    inputs: Sequence[Array]
    outputs: Sequence[Array]
    scratch: Sequence[Array]
    blocks: Sequence[BlockAnalysis]
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
    nbytes = max(places_of(block, aliases_of(block), scratch_of(block, target)).arena_bytes for block in blocks)
    first, carries, rows = layout_of(op_type, attributes)
    read = [inputs[first + carries + k] for k in range(rows)]
    buffers = [TensorType(type.dtype, type.shape[1:]) for type in read if type is not None]
    body = blocks[-1]
    moved = [body.types[body.desc.results[j]] for j in _moved(body, carries)]
    return (TensorType("uint8", (nbytes,)), *buffers, *moved)


def bind_control(op: ControlOp) -> Call:
    """Return the call that computes an op of control flow; all look-ups happen now."""
    if op.desc.type == COND:
        return _cond(op)
    return _scan(op) if op.desc.type == SCAN else _while(op)


def _cond(op: ControlOp) -> Call:
    predicate, *operands = op.inputs
    branches = [op.bind(block, dict(enumerate(operands)), op.scratch[0]) for block in op.blocks]
    copies = [list(zip(op.outputs, branch.results, strict=True)) for branch in branches]

    def call() -> None:
        number = 0 if predicate else 1
        left = iter(branches[number].calls)
        try:
            for inner in left:
                inner()
        except Exception as error:
            words = "the branch for true" if number == 0 else "the branch for false"
            raise _inside(op, error, words, branches[number], left) from None
        for out, result in copies[number]:
            out[...] = result

    return call


def _scan(op: ControlOp) -> Call:
    first, carries, rows = layout_of(op.desc.type, op.attributes)
    [length], is_reverse = op.attributes["length"], op.attributes["reverse"]
    arena, buffers, moved = op.scratch[0], op.scratch[1 : 1 + rows], op.scratch[1 + rows :]
    firsts, read = op.inputs[first : first + carries], op.inputs[first + carries : first + carries + rows]
    shared = op.inputs[first + carries + rows :]
    body = op.bind(op.blocks[0], dict(enumerate([*op.outputs[:carries], *buffers, *shared])), arena)
    begin = list(zip(op.outputs[:carries], firsts, strict=True))
    fill = list(zip(buffers, read, strict=True))
    store = list(zip(op.outputs[carries:], body.results[carries:], strict=True))
    early, late = _next_carries(op, body, carries, moved)
    calls = body.calls

    def call() -> None:
        trips = length if not first else _trips(op.inputs[0], length)
        for carry, value in begin:
            carry[...] = value
        for stack, _ in store:
            _clear(stack, trips)
        left: Iterator[Call] = iter(())
        number = 0
        try:
            for i in range(trips - 1, -1, -1) if is_reverse else range(trips):
                for buffer, array in fill:
                    buffer[...] = array[i]
                left = iter(calls)
                for inner in left:
                    inner()
                for stack, row in store:
                    stack[i] = row
                for out, value in early:
                    out[...] = value
                for carry, value in late:
                    carry[...] = value
                number += 1
        except Exception as error:
            raise _inside(op, error, f"iteration {number}", body, left) from None

    return call


def _while(op: ControlOp) -> Call:
    _, carries, _ = layout_of(op.desc.type, op.attributes)
    most = op.attributes["max_trips"]
    arena, moved = op.scratch[0], op.scratch[1:]
    arguments = dict(enumerate([*op.outputs[:carries], *op.inputs[carries:]]))
    condition, body = (op.bind(block, arguments, arena) for block in op.blocks)
    begin = list(zip(op.outputs[:carries], op.inputs[:carries], strict=True))
    trips, stacks = op.outputs[carries], op.outputs[carries + 1 :]
    store = list(zip(stacks, body.results[carries:], strict=True))
    early, late = _next_carries(op, body, carries, moved)
    [going] = condition.results

    def call() -> None:
        for carry, value in begin:
            carry[...] = value
        left: Iterator[Call] = iter(())
        part, number = condition, 0
        try:
            while not most or number < most:
                part, left = condition, iter(condition.calls)
                for inner in left:
                    inner()
                if not going:
                    break
                part, left = body, iter(body.calls)
                for inner in left:
                    inner()
                for stack, row in store:
                    stack[number] = row
                for out, value in early:
                    out[...] = value
                for carry, value in late:
                    carry[...] = value
                number += 1
        except Exception as error:
            words = f"the condition of iteration {number}" if part is condition else f"iteration {number}"
            raise _inside(op, error, words, part, left) from None
        trips[...] = number
        for stack, _ in store:
            _clear(stack, number)

    return call


def _trips(trips: Array, length: int) -> int:
    """Return the trips of a counted scan; raise ExecutionError if there are not so many rows."""
    number = int(trips)
    if not 0 <= number <= length:
        raise ExecutionError(f"it makes {number} trips, and has {length} rows")
    return number


def _clear(stack: Array, trips: int) -> None:
    """Fill the rows of iterations that are not made with zeros."""
    if trips < len(stack):
        stack[trips:].reshape(-1).view(np.uint8).fill(0)


def _moved(body: BlockAnalysis, carries: int) -> list[int]:
    """Return the carries whose next value lies in the memory of another carry."""
    storage, position = aliases_of(body).storage, body.arguments
    roots = [position.get(storage[name].root, carries) for name in body.desc.results[:carries]]
    return [j for j, root in enumerate(roots) if root < carries and root != j]


def _next_carries(op: ControlOp, body: Body, carries: int, buffers: Sequence[Array]) -> tuple[Copies, Copies]:
    """Return the copies that make the new carries: those to buffers, and after them those to the carries."""
    moved = dict(zip(_moved(op.blocks[-1], carries), buffers, strict=True))
    early = [(buffer, body.results[j]) for j, buffer in moved.items()]
    late = [(op.outputs[j], moved.get(j, body.results[j])) for j in range(carries)]
    return early, [(carry, value) for carry, value in late if carry.ctypes.data != value.ctypes.data or not carry.size]


def _inside(op: ControlOp, error: Exception, where: str, part: Body, left: Iterator[Call]) -> BaseException:
    """Return an error with the iteration, and the op inside if it was one that failed."""
    position = len(part.calls) - length_hint(left) - 1
    inner = named(error, part.ops[position], op.locations) if 0 <= position < len(part.ops) else error
    if isinstance(inner, OutOfRange):
        return OutOfRange(f"{where}: {inner}", inner.number)
    if isinstance(inner, NonFinite):
        return NonFinite(f"{where}: {inner}", inner.step)
    return type(inner)(f"{where}: {inner}") if isinstance(inner, ExecutionError) else inner
