"""Indexing by tensors: gathers, scatters, choices."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from compiler.errors import CompileError
from compiler.exporters.onnx.call import Call, Export, Unmapped
from compiler.exporters.onnx.tensors import Tensor
from compiler.frontends.arranged import Arranged, arranged, plain, single, squeezed, viewed, with_broadcast
from compiler.frontends.extents import Extent, product
from compiler.frontends.onnx.known.constants import Constant
from compiler.frontends.onnx.node import Mapping, Node, cast, on_plain
from compiler.frontends.pieces import after_gather, from_front, sliced, sliced_to
from registry import Value, ops

REDUCTIONS: Final = {"none": "set", "add": "add", "max": "max", "min": "min", "mul": "mul"}
"""ONNX's names of reductions, for several updates of one element."""


def _counted(node: Node, number: int, extent: Extent) -> Arranged:
    """Return indices that may count from the end as indices that count from the front."""
    x, size = node.operands[number], extent.number
    if not isinstance(x, Constant):
        return from_front(node.tensor(number), extent)
    if not extent.symbols and x.is_array:
        numbers = x.array()
        if numbers.size and (numbers.min() < -size or numbers.max() >= size):
            raise CompileError(f"an index is out of range for an axis of {size} elements")
        return arranged(node.new(np.where(numbers < 0, numbers + size, numbers), "int64"))
    if all(bool(np.all(trial >= 0)) for trial in x.trials):
        return node.tensor(number)
    return from_front(node.tensor(number), extent)


def _gather(node: Node) -> Arranged:
    x, axis = node.tensor(0), node.axis()
    extent, given = x.shape[axis], node.operands[1]
    if isinstance(given, Constant) and given.rank == 0 and given.is_array:
        at = int(given.array())
        if not extent.symbols:
            at = at if at >= 0 else at + extent.number
            if not 0 <= at < extent.number:
                raise CompileError(f"index {at} of an axis with {extent} elements")
        return squeezed(sliced(x, axis, at, at + 1), [axis])
    indices = plain(_counted(node, 1, extent))
    if not extent.is_plain and len(x.axes[axis]) > 1:
        return _gather_split(node, x, axis, indices)
    x, [place] = single(x, [axis])
    y = ops.gather(x.value, indices, axis=place)
    shape = (*x.shape[:axis], *node.operands[1].shape, *x.shape[axis + 1 :])
    return Arranged(y, after_gather(x, axis, place, indices.rank), shape)


def _gather_split(node: Node, x: Arranged, axis: int, indices: Value) -> Arranged:
    """Return a gather along an axis of n * t elements, say, which the value has as two axes: with an index for each."""
    x = with_broadcast(x, [axis])
    inside = x.axes[axis]
    order = [*inside, *(place for place in range(x.value.rank) if place not in inside)]
    digits, rest = list[Value](), cast(indices, "int64")
    for place in reversed(inside):
        count = node.count(x.extent(place))
        digits.insert(0, ops.remainder(rest, count))
        rest = ops.floor_div(rest, count)
    y = ops.gather_nd(ops.transpose(x.value, axis=tuple(order)), ops.stack(*digits, axis=-1))
    moved = {place: number - len(inside) + indices.rank for number, place in enumerate(order)}
    axes = [(i,) for i in range(indices.rank)]
    around = [tuple(moved[place] for place in own) for own in x.axes]
    shape = (*x.shape[:axis], *node.operands[1].shape, *x.shape[axis + 1 :])
    return Arranged(y, (*around[:axis], *axes, *around[axis + 1 :]), shape)


def _gather_elements(node: Node) -> Arranged:
    x, axis = node.tensor(0), node.axis()
    indices = _counted(node, 1, x.shape[axis])
    for i, (a, b) in enumerate(zip(x.shape, indices.shape, strict=True)):
        if i != axis and a != b:
            x = sliced_to(x, i, b) if b.symbols else sliced(x, i, 0, b.number)
    if all(extent.is_plain for extent in indices.shape):
        return arranged(ops.take_along_axis(plain(x), plain(indices), axis=axis))
    parts = [_parts(x, i) for i in range(x.rank)]
    before, behind = ([extent for own in some for extent in own] for some in (parts[:axis], parts[axis + 1 :]))
    shapes = ((*before, whole.shape[axis], *behind) for whole in (x, indices))
    split = [plain(viewed(whole, shape)) for whole, shape in zip((x, indices), shapes, strict=True)]
    return viewed(arranged(ops.take_along_axis(*split, axis=len(before))), indices.shape)


def _parts(x: Arranged, axis: int) -> list[Extent]:
    """Return the extents by which the value stores an axis: an axis of 4 * batch elements has two."""
    held = [x.extent(place) for place in x.axes[axis]]
    return held if not x.shape[axis].is_plain and product(held) == x.shape[axis] else [x.shape[axis]]


def _rows(node: Node, number: int, first: int = 0) -> Value:
    """Return rows of indices that count from the front."""
    rows, sizes = node.value(number), node.shape()
    count = rows.shape[-1]
    assert isinstance(count, int)
    own = sizes[first : first + count]
    if any(extent.symbols for extent in own):
        extents = ops.stack(*(node.count(extent, rows.dtype) for extent in own), axis=0)
    else:
        extents = node.new([extent.number for extent in own], rows.dtype)
    return ops.where(rows < 0, rows + extents, rows)


def _gather_nd(node: Node) -> Arranged:
    batch = int(node.attribute("batch_dims", 0))
    return arranged(ops.gather_nd(node.value(0), _rows(node, 1, batch), batch_axes=batch))


def _reduction(node: Node) -> Any:
    word = node.attribute("reduction", "none")
    if word not in REDUCTIONS:
        raise CompileError(f"reduction={word!r} is not one of {', '.join(REDUCTIONS)}")
    return REDUCTIONS[word]


def _scatter_nd(node: Node) -> Arranged:
    reduction = _reduction(node)
    return arranged(ops.scatter_nd(node.value(0), _rows(node, 1), node.value(2), reduction=reduction))


def _scatter_elements(node: Node) -> Arranged:
    x, axis, reduction = node.value(0), node.axis(), _reduction(node)
    indices = plain(_counted(node, 1, node.shape()[axis]))
    if all(i == axis or a == b for i, (a, b) in enumerate(zip(x.shape, indices.shape, strict=True))):
        return arranged(ops.put_along_axis(x, indices, node.value(2), axis=axis, reduction=reduction))
    rows = [cast(indices, "int64") if i == axis else _along(node, indices, i) for i in range(x.rank)]
    return arranged(ops.scatter_nd(x, ops.stack(*rows, axis=-1), node.value(2), reduction=reduction))


def _along(node: Node, x: Value, axis: int) -> Value:
    """Return the position of each element of a tensor along an axis."""
    numbers = node.range(Extent.of(x.shape[axis]))
    wide = ops.reshape(numbers, shape=tuple(-1 if i == axis else 1 for i in range(x.rank)))
    return ops.broadcast_to(wide, shape=x.shape)


def _one_hot(node: Node, indices: Value, depth: Value, values: Value) -> Value:
    count, axis = node.number(1), node.axis(default=-1, rank=indices.rank + 1)
    at = cast(indices, "int64")
    at = ops.unsqueeze(ops.where(at < 0, at + count, at), axis=(axis,))
    steps = np.arange(count).reshape([count if i == axis else 1 for i in range(indices.rank + 1)])
    off, on = (ops.reshape(values[i : i + 1], shape=()) for i in (0, 1))
    return ops.where(ops.equal(at, node.new(steps, "int64")), on, off)


def _tensor_scatter(node: Node, x: Value, update: Value, first: Value | None = None) -> Value:
    axis = node.axis(default=-2)
    rows, count = x.shape[0], node.size(axis, 1)
    begin = node.full((rows,), 0, "int64") if first is None else cast(first, "int64")
    at = ops.reshape(begin, shape=(rows, 1)) + node.new(np.arange(count)[None], "int64")
    if node.attribute("mode", "linear") == "circular":
        at = ops.remainder(at, node.count(node.shape()[axis]))
    shape = [rows if i == 0 else count if i == axis else 1 for i in range(x.rank)]
    whole = ops.broadcast_to(ops.reshape(at, shape=tuple(shape)), shape=update.shape)
    return ops.put_along_axis(x, whole, update, axis=axis)


def _feature_extractor(node: Node) -> Arranged:
    x = node.value(0)
    y = arranged(ops.gather(x, cast(node.value(1), "int64"), axis=x.rank - 1))
    return viewed(y, (*node.shape()[:-1], product(node.shape(1))))


def _gather_out(call: Call) -> str:
    indices = call.plain_in(1, "int64") if call.tensor(1).dtype == "uint8" else call.plain(1)
    return call.add("Gather", call.plain(0), indices, axis=int(call.attributes["axis"]))


def _gather_nd_out(call: Call) -> str:
    dtype = call.type.dtype
    inside = "int32" if dtype in ("uint8", "bool") else dtype
    x, at = call.plain_in(0, inside), call.plain_in(1, "int64")
    return call.cast(call.add("GatherND", x, at, batch_dims=int(call.attributes["batch_axes"])), dtype, inside)


def _scatter_nd_out(call: Call) -> str:
    reduction = call.attributes["reduction"]
    word = next((ours for ours, theirs in REDUCTIONS.items() if theirs == reduction), reduction)
    since = {"none": 13, "add": 16, "mul": 16}.get(word, 18)
    if call.opset < since:
        raise Unmapped(f"combines by {reduction!r}, which opset {since} brought")
    at, dtype = call.plain_in(1, "int64"), call.type.dtype
    at = _with_batch(call, at) if call.attributes["batch_axes"] else at
    inside = "int64" if dtype == "uint8" and word != "none" else dtype
    x, updates = call.plain_in(0, inside), call.plain_in(2, inside)
    return call.cast(call.add("ScatterND", x, at, updates, reduction=None if word == "none" else word), dtype, inside)


def _with_batch(call: Call, at: str) -> str:
    """Return indices that name the elements of the batch too, which ScatterND lacks."""
    shape, count = call.tensor(1).shape, int(call.attributes["batch_axes"])
    parts: list[str] = []
    for axis in range(count):
        size = call.graph.reshaped(call.graph.shape([shape[axis]]), ())
        numbers = call.add("Range", call.graph.constant(0, "int64"), size, call.graph.constant(1, "int64"))
        wide = [-1 if i == axis else 1 for i in range(len(shape))]
        rows = call.add("Reshape", numbers, call.integers(*wide))
        parts.append(call.add("Expand", rows, call.graph.shape([*shape[:-1], 1])))
    return call.add("Concat", *parts, at, axis=len(shape) - 1)


def _scatter_add_out(call: Call) -> Tensor:
    """Return slices with updates added: rows of an axis that is moved to the front."""
    if call.opset < 16:
        raise Unmapped("adds at indices, which opset 16 brought")
    rank, axis = call.tensor(0).rank, int(call.attributes["axis"]) % call.tensor(0).rank
    count = call.tensor(1).rank
    front = [axis, *(i for i in range(rank) if i != axis)]
    own = [*range(axis, axis + count), *(i for i in range(rank + count - 1) if not axis <= i < axis + count)]
    at, dtype = call.add("Unsqueeze", call.plain_in(1, "int64"), call.integers(count)), call.type.dtype
    inside = "int64" if dtype == "uint8" else dtype
    x, updates = (call.cast(call.ordered(i, order), inside, dtype) for i, order in ((0, front), (2, own)))
    return call.result(call.cast(call.add("ScatterND", x, at, updates, reduction="add"), dtype, inside), front)


def _one_hot_out(call: Call) -> str:
    dtype = call.type.dtype
    inside = dtype if dtype in ("float32", "int64") else "int64"
    values = call.graph.constant([0, 1], inside)
    at = call.plain_in(0, "int64")
    at = at if call.tensor(0).rank else call.add("Unsqueeze", at, call.integers(0))
    y = call.add("OneHot", at, call.integers(int(call.attributes["depth"])), values, axis=-1)
    y = y if call.tensor(0).rank else call.add("Squeeze", y, call.integers(0))
    return call.cast(y, dtype, inside)


IMPORTS: Final[dict[str, Mapping]] = {
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "Scatter": _scatter_elements,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
    "OneHot": on_plain(_one_hot),
    "TensorScatter": on_plain(_tensor_scatter),
    "ai.onnx.ml.ArrayFeatureExtractor": _feature_extractor,
}

EXPORTS: Final[dict[str, Export]] = {
    "gather": _gather_out,
    "gather_nd": _gather_nd_out,
    "scatter_nd": _scatter_nd_out,
    "scatter_add": _scatter_add_out,
    "one_hot": _one_hot_out,
}
