"""Loops and scans."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np

from compiler.errors import CompileError
from compiler.frontends.arranged import Arranged, arranged, plain, squeezed
from compiler.frontends.extents import Extent
from compiler.frontends.onnx.known.constants import Constant
from compiler.frontends.onnx.node import Mapping, Node
from compiler.frontends.pieces import sliced
from compiler.onnx_operators.flow.bodies import inside, ran, traced
from compiler.onnx_operators.flow.invariants import with_unchanged, without_unchanged
from prograd_proto import ProgramError
from registry import Value, ops

MAX_TRIPS: Final = 4096
"""Largest number of trips that are unrolled."""

MAX_SHORT: Final = 8
"""Largest number of trips that are unrolled although a loop could run them."""


def _loop(node: Node) -> tuple[Any, ...]:
    """Return the results of a loop: a scan if its trips are counted, a while loop if they are data."""
    less, numbers = without_unchanged(node, len(node.operands) - 2)
    body = less.attribute("body")
    if _is_data(less):
        return with_unchanged(node, numbers, _while(less, body))
    made = _rolled(less, lambda: _counted(less, body), lambda: _unrolled(less, body), _trips(less))
    return with_unchanged(node, numbers, made)


def _trips(node: Node) -> Extent | None:
    """Return the number of trips of a counted loop, None if nothing bounds it."""
    if node.has(1) and not bool(node.constant(1).reshape(())):
        return Extent(0)
    return node.extents(0)[0] if node.has(0) else None


def _rolled(node: Node, rolled: Any, unrolled: Any, trips: Extent | None) -> tuple[Any, ...]:
    """Return the results of a loop as an op; of one with few trips, or whose body needs its numbers, unrolled."""
    if trips is None or (not trips.symbols and trips.number <= MAX_SHORT):
        return unrolled()
    problems, updates = len(node.walk.problems), len(node.walk.updates)
    try:
        return rolled()
    except (ProgramError, CompileError) as error:
        del node.walk.problems[problems:], node.walk.updates[updates:]
        if trips.symbols or trips.number > MAX_TRIPS:
            reason = (
                f"a loop of {trips} trips, more than the {MAX_TRIPS} that are unrolled, cannot stay a loop: {error}"
            )
            raise CompileError(reason) from None
        return unrolled()


def _counted(node: Node, body: Any) -> tuple[Any, ...]:
    """Return the results of a loop with a known number of trips, as a scan over their numbers."""
    [trips] = node.extents(0)
    carries = [plain(node.lifted(x)) for x in node.operands[2:]]
    ones = ops.full.on(node.block)(shape=(trips.plain(),), value=1, dtype="int64")
    flag = node.walk.constant(np.asarray(True))

    def step(values: tuple[Value, ...], number: Value) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
        goes_on, *made = traced(node, body, [arranged(number), flag, *map(arranged, values)])
        if not isinstance(goes_on, Constant) or not bool(goes_on.array().reshape(())):
            raise CompileError("its condition after a trip is data")
        results = tuple(plain(node.lifted(x)) for x in made)
        return results[: len(carries)], results[len(carries) :]

    last, rows = ops.scan(step, tuple(carries), ops.cumsum(ones, exclusive=True))
    return tuple(map(arranged, (*last, *rows)))


def _unrolled(node: Node, body: Any) -> tuple[Any, ...]:
    trips = node.number(0) if node.has(0) else MAX_TRIPS
    condition: Any = node.operands[1] if node.has(1) else None
    carries = list(node.operands[2:])
    scanned: list[list[Any]] = [[] for _ in range(len(body.output) - 1 - len(carries))]
    for number in range(min(trips, MAX_TRIPS + 1)):
        if condition is not None:
            if not isinstance(condition, Constant):
                raise CompileError("a loop whose number of trips is data")
            if not bool(condition.array().reshape(())):
                break
        if number == MAX_TRIPS:
            raise CompileError(f"a loop of more than {MAX_TRIPS} trips")
        flag = condition or node.walk.constant(np.asarray(True))
        condition, *rest = ran(node, body, [node.walk.constant(np.asarray(number, np.int64)), flag, *carries])
        if not node.has(1) and isinstance(condition, Constant) and bool(condition.array().reshape(())):
            condition = None
        carries, results = rest[: len(carries)], rest[len(carries) :]
        for collected, result in zip(scanned, results, strict=True):
            collected.append(result)
    return (*carries, *(_stacked(node, collected, 0) for collected in scanned))


def _is_data(node: Node) -> bool:
    """Return True if the first condition or the bound of a loop's trips is known in runs only."""
    return any(node.has(i) and isinstance(node.operands[i], Arranged) for i in (0, 1))


def _while(node: Node, body: Any) -> tuple[Any, ...]:
    """Return the results of a loop whose trips are data; the bound, if it is a number, lets gradients flow."""
    carries = [plain(node.lifted(x)) for x in node.operands[2:]]
    collects = len(body.output) - 1 - len(carries)
    bound = node.operands[0] if node.has(0) else None
    most = int(bound.array().reshape(())) if isinstance(bound, Constant) else None
    limit = plain(bound) if isinstance(bound, Arranged) else node.new(2**62 if most is None else most, "int64")
    limit = ops.reshape(limit, shape=())
    goes = ops.reshape(plain(node.lifted(node.operands[1])), shape=()) if node.has(1) else node.new(True)
    if collects:
        return _collecting(node, body, goes, limit, carries)

    def going(i: Value, goes: Value, *_: Value) -> Value:
        return ops.logical_and(goes, i < limit)

    def after(i: Value, goes: Value, *values: Value) -> tuple[Value, ...]:
        more, *rest = inside(node, body, [arranged(x) for x in (i, goes, *values)])
        return (i + 1, ops.reshape(more, shape=()), *rest)

    made, _ = ops.while_loop(going, after, node.new(0, "int64"), goes, *carries, max_trips=most)
    return tuple(map(arranged, made[2:]))


def _collecting(node: Node, body: Any, goes: Value, limit: Value, carries: list[Value]) -> tuple[Any, ...]:
    """Return the results of a loop that collects a row of each trip, as a scan over the bound of the trips.

    A step behind the last trip changes nothing, and its rows are 0.
    """
    collected = node.outputs[len(carries) :]
    bounds = [node.walk.rows[name] for name in collected if name in node.walk.rows]
    if not bounds:
        name = next((name for name in collected if name), "NAME")
        is_counted = node.has(0) and isinstance(node.operands[0], Arranged)
        known = "it has to be known while importing: give it by --constant NAME=VALUE, or " if is_counted else ""
        raise CompileError(
            f"the number of its trips is data, and it collects a row of each; {known}bound the trips by "
            f"max_rows={{{name!r}: N}}, or --max-rows {name}=N, which ends the loop after N trips"
        )

    def step(values: tuple[Value, ...], _: object) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
        number, goes, *rest = values
        kinds: list[Value] = []

        def trip() -> tuple[Value, ...]:
            more, *made = inside(node, body, [arranged(x) for x in (number, goes, *rest)])
            kinds.extend(made[len(rest) :])
            return (number + 1, ops.reshape(more, shape=()), *made)

        def none() -> tuple[Value, ...]:
            block = node.walk.block.root.active
            zeros = [ops.full.on(block)(shape=y.shape, value=0, dtype=y.dtype) for y in kinds]
            return (*values, *zeros)

        runs = ops.logical_and(goes, number < limit)
        made = ops.cond(runs, trip, none)
        return made[: len(values)], made[len(values) :]

    last, rows = ops.scan(step, (node.new(0, "int64"), goes, *carries), length=max(bounds))
    node.counts(last[0])
    return tuple(map(arranged, (*last[2:], *rows)))


def _stacked(node: Node, xs: list[Any], axis: int) -> Any:
    if not xs:
        raise CompileError("a loop without trips makes results of unknown shape")
    if all(isinstance(x, Constant) for x in xs):
        return node.walk.constant(np.stack([x.array() for x in xs], axis=axis))
    return arranged(ops.stack(*(plain(node.lifted(x)) for x in xs), axis=axis))


def _scan(node: Node) -> tuple[Any, ...]:
    """Return the results of a scan over an axis."""
    if node.version == 8:
        return _batched_scan(node)
    count = int(node.attribute("num_scan_inputs"))
    less, numbers = without_unchanged(node, len(node.operands) - count)
    return with_unchanged(node, numbers, _scanned(less, count))


def _scanned(node: Node, count: int) -> tuple[Any, ...]:
    xs = [node.lifted(x) for x in node.operands[-count:]]
    axes = [a % x.rank for a, x in zip(node.attribute("scan_input_axes", [0] * count), xs, strict=True)]
    steps = xs[0].shape[axes[0]]
    return _rolled(node, lambda: _rows(node, xs, axes), lambda: _steps(node, xs, axes, steps), steps)


def _rows(node: Node, xs: list[Arranged], axes: list[int]) -> tuple[Any, ...]:
    """Return the results of a scan as an op, which reads rows of axis 0."""
    body, states = node.attribute("body"), node.operands[: -len(xs)]
    carries = tuple(plain(node.lifted(x)) for x in states)
    ways = node.attribute("scan_input_directions", [0] * len(xs))
    backwards = all(ways)
    read = [ops.transpose(plain(x), axis=_to_front(x.rank, axis)) for x, axis in zip(xs, axes, strict=True)]
    if not backwards:
        read = [ops.flip(x, axis=0) if way else x for x, way in zip(read, ways, strict=True)]

    def step(values: tuple[Value, ...], rows: tuple[Value, ...]) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
        made = inside(node, body, [*map(arranged, values), *map(arranged, rows)])
        return made[: len(carries)], made[len(carries) :]

    last, stacks = ops.scan(step, carries, tuple(read), reverse=backwards)
    out_axes = node.attribute("scan_output_axes", [0] * len(stacks))
    out_ways = node.attribute("scan_output_directions", [0] * len(stacks))
    made: list[Value] = []
    for y, axis, way in zip(stacks, out_axes, out_ways, strict=True):
        y = y if bool(way) == backwards else ops.flip(y, axis=0)  # rows of a reversed scan lie as those that it read
        order = _to_front(y.rank, axis % y.rank)
        made.append(ops.transpose(y, axis=tuple(order.index(i) for i in range(y.rank))))
    return tuple(map(arranged, (*last, *made)))


def _to_front(rank: int, axis: int) -> tuple[int, ...]:
    return (axis, *(i for i in range(rank) if i != axis))


def _steps(node: Node, xs: list[Arranged], axes: list[int], steps: Extent) -> tuple[Any, ...]:
    """Return the results of a scan, unrolled."""
    body = node.attribute("body")
    carries = list(node.operands[: -len(xs)])
    ways = node.attribute("scan_input_directions", [0] * len(xs))
    results = len(body.output) - len(carries)
    scanned: list[list[Any]] = [[] for _ in range(results)]
    for t in range(steps.number):
        taken: list[Arranged] = []
        for x, axis, backward in zip(xs, axes, ways, strict=True):
            at = steps.number - 1 - t if backward else t
            taken.append(squeezed(sliced(x, axis, at, at + 1), [axis]))
        made = ran(node, body, [*carries, *taken])
        carries = made[: len(carries)]
        for collected, result in zip(scanned, made[len(carries) :], strict=True):
            collected.append(result)
    out_axes = node.attribute("scan_output_axes", [0] * results)
    out_ways = node.attribute("scan_output_directions", [0] * results)
    ends = [
        _stacked(node, collected[::-1] if backward else collected, axis)
        for collected, axis, backward in zip(scanned, out_axes, out_ways, strict=True)
    ]
    return (*carries, *ends)


def _batched_scan(node: Node) -> tuple[Any, ...]:
    """Return the results of a scan of opset 8, whose operands have a batch and then the steps: an op for each row."""
    if node.has(0):
        raise CompileError("Scan of opset 8 with lengths of its rows; convert the file to opset 9 or later")
    count = node.size(0, 1)
    made: list[tuple[Any, ...]] = []
    for row in range(count):
        operands = [squeezed(sliced(node.lifted(x), 0, row, row + 1), [0]) for x in node.operands[1:]]
        ways = {"scan_input_directions": node.attribute("directions", [0] * int(node.attribute("num_scan_inputs")))}
        made.append(_scan(replace(node, version=9, operands=operands, attributes=node.attributes | ways)))
    return tuple(_stacked(node, list(each), 0) for each in zip(*made, strict=True))


IMPORTS: Final[dict[str, Mapping]] = {"Loop": _loop, "Scan": _scan}
