"""Rearrangements: views, permutations, pieces, blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from compiler.errors import CompileError
from compiler.exporters.onnx.call import Call, Export
from compiler.exporters.onnx.tensors import Tensor
from compiler.frontends.arranged import (
    Arranged,
    arranged,
    expanded,
    permuted,
    plain,
    squeezed,
    unsqueezed,
    viewed,
)
from compiler.frontends.extents import ONE, Extent, product
from compiler.frontends.onnx.node import Mapping, Node, cast, on_plain
from compiler.frontends.pieces import repeated, split
from registry import Value, ops


def _reshape(node: Node) -> Arranged:
    x = node.tensor(0)
    asked = node.extents(1) if node.has(1) else [Extent(int(n)) for n in node.attribute("shape", ())]
    copies = not node.attribute("allowzero", 0)
    shape = [x.shape[i] if copies and extent == Extent(0) else extent for i, extent in enumerate(asked)]
    return viewed(x, completed(shape, x.shape))


def completed(shape: Sequence[Extent], old: Sequence[Extent]) -> list[Extent]:
    """Return a shape with the extent for -1 that gives as many elements as the old shape."""
    whole, known = product(old), product(extent for extent in shape if extent.number != -1)
    if all(extent.number != -1 for extent in shape):
        if known != whole:
            raise CompileError(f"a tensor of {whole} elements cannot have {known}")
        return list(shape)
    rest = Extent(0) if whole.number == 0 or known.number == 0 else whole.over(known)
    if rest is None:
        raise CompileError(f"{whole} elements are not a multiple of {known}")
    return [rest if extent.number == -1 else extent for extent in shape]


def _flatten(node: Node) -> Arranged:
    x = node.tensor(0)
    axis = int(node.attribute("axis", 1))
    axis = axis + x.rank if axis < 0 else axis
    return viewed(x, (product(x.shape[:axis]), product(x.shape[axis:])))


def _transpose(node: Node) -> Arranged:
    x = node.tensor(0)
    return permuted(x, node.attribute("perm") or range(x.rank)[::-1])


def _axes(node: Node, rank: int) -> list[int] | None:
    asked = (node.numbers(1) if node.has(1) else None) if node.version >= 13 else node.attribute("axes")
    if asked is None:
        return None
    if any(not -rank <= axis < rank for axis in asked):
        raise CompileError(f"axes={list(asked)} of a tensor with {rank} axes")
    return sorted(axis % rank for axis in asked)


def _squeeze(node: Node) -> Arranged:
    x = node.tensor(0)
    axes = _axes(node, x.rank)
    symbols = sorted({symbol for extent in x.shape for symbol in extent.symbols})
    if axes is None and symbols:
        node.walk.notes.append(
            f"the Squeeze {node.outputs[0]!r} keeps the axes with {', '.join(symbols)} elements; bind these by dims= "
            "or --dim where they are 1"
        )
    axes = [i for i, extent in enumerate(x.shape) if extent == ONE] if axes is None else axes
    wide = [i for i in axes if x.shape[i] != ONE]
    if wide:
        raise CompileError(f"axis {wide[0]} has {x.shape[wide[0]]} elements and cannot be squeezed")
    return squeezed(x, axes)


def _unsqueeze(node: Node) -> Arranged:
    x = node.tensor(0)
    count = len(node.numbers(1) if node.version >= 13 else node.attribute("axes"))
    for axis in _axes(node, x.rank + count) or ():
        x = unsqueezed(x, axis)
    return x


def _expand(node: Node) -> Arranged:
    x, asked = node.tensor(0), node.extents(1)
    rank = max(x.rank, len(asked))
    old, new = ([ONE] * (rank - len(s)) + list(s) for s in (x.shape, asked))
    return expanded(x, [b if a == ONE else a for a, b in zip(old, new, strict=True)])


def joined(xs: Sequence[Arranged], axis: int) -> Arranged:
    """Return tensors one behind the other along an axis."""
    if len(xs) == 1:
        return xs[0]
    first = max(xs, key=lambda x: x.value.rank)
    if all(x.axes == first.axes for x in xs) and len(first.axes[axis]) == 1:
        place = first.axes[axis][0]
        held = [[x.extent(i) for i in range(x.value.rank) if i != place] for x in xs]
        if all(h == held[0] for h in held) and all(x.held(axis) == x.shape[axis] for x in xs):
            y = ops.concat(*(x.value for x in xs), axis=place)
            shape = [*first.shape[:axis], Extent.of(y.shape[place]), *first.shape[axis + 1 :]]
            return Arranged(y, first.axes, tuple(shape))
    return arranged(ops.concat(*map(plain, xs), axis=axis))


def _split(node: Node) -> tuple[Arranged, ...]:
    x, axis = node.tensor(0), node.axis()
    given = (node.numbers(1) if node.has(1) else None) if node.version >= 13 else node.attribute("split")
    if given is None:
        size, count = node.size(axis), int(node.attribute("num_outputs", len(node.outputs)))
        each = -(-size // count)
        given = [each] * (count - 1) + [size - each * (count - 1)]
    return tuple(split(x, [int(n) for n in given], axis))


def _depth_to_space(node: Node) -> Arranged:
    x, b = node.tensor(0), Extent(int(node.attribute("blocksize")))
    n, c, h, w = x.shape
    less = c.over(b.times(b))
    if less is None:
        raise CompileError(f"{c} channels are not a multiple of the block's {b.times(b)}")
    if node.attribute("mode", "DCR") == "DCR":
        x = permuted(viewed(x, (n, b, b, less, h, w)), (0, 3, 4, 1, 5, 2))
    else:
        x = permuted(viewed(x, (n, less, b, b, h, w)), (0, 1, 4, 2, 5, 3))
    return viewed(x, (n, less, h.times(b), w.times(b)))


def _space_to_depth(node: Node) -> Arranged:
    x, b = node.tensor(0), Extent(int(node.attribute("blocksize")))
    n, c, h, w = x.shape
    rows, columns = h.over(b), w.over(b)
    if rows is None or columns is None:
        raise CompileError(f"an image of {h} x {w} is not a multiple of the block's {b}")
    order = (0, 3, 5, 1, 2, 4) if node.attribute("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    x = permuted(viewed(x, (n, c, rows, b, columns, b)), order)
    return viewed(x, (n, c.times(b).times(b), rows, columns))


def _reverse_sequence(node: Node, x: Value, lengths: Value) -> Value:
    batch, time = node.attribute("batch_axis", 1), node.attribute("time_axis", 0)
    return reversed_sequences(x, node.range(node.shape()[time]), lengths, batch, time)


def reversed_sequences(x: Value, numbers: Value, lengths: Value, batch: int = 1, time: int = 0) -> Value:
    """Return sequences with the steps of their lengths in reverse; `numbers` are those of all steps."""
    along_time = tuple(-1 if i == time else 1 for i in range(x.rank))
    along_batch = tuple(x.shape[batch] if i == batch else 1 for i in range(x.rank))
    at = ops.reshape(numbers, shape=along_time)
    count = ops.reshape(cast(lengths, "int64"), shape=along_batch)
    whole = ops.broadcast_to(ops.where(at < count, count - 1 - at, at), shape=x.shape)
    return ops.take_along_axis(x, whole, axis=time)


def _transpose_out(call: Call) -> Tensor:
    """Return a tensor whose axes are renamed; a Transpose follows where a node asks for another order."""
    x, axes = call.tensor(0), tuple(call.attributes["axes"])
    if x.array is not None:
        turned = None if x.state else np.transpose(x.array, axes)
        if turned is not None:
            return replace(x, type=call.type, array=turned, order=tuple(range(x.rank)))
        x = replace(x, name=call.plain(0), order=tuple(range(x.rank)), array=None, state="")
    return call.result(x.name, [axes.index(axis) for axis in x.order])


def _reshape_out(call: Call) -> Tensor | str:
    """Return a tensor in another shape; axes of extent 1 that appear or vanish keep the order of the others."""
    x, shape = call.tensor(0), call.type.shape
    if x.array is None and x.order != tuple(range(x.rank)):
        wide = [axis for axis, extent in enumerate(x.shape) if extent != 1]
        there = [axis for axis, extent in enumerate(shape) if extent != 1]
        if [x.shape[axis] for axis in wide] == [shape[axis] for axis in there]:
            return _with_units(call, x, dict(zip(wide, there, strict=True)))
    return call.graph.reshaped(call.plain(0), shape)


def _with_units(call: Call, x: Tensor, places: dict[int, int]) -> Tensor:
    rest = [axis for axis in range(len(call.type.shape)) if axis not in places.values()]
    order = [*rest, *(places[axis] for axis in x.order if axis in places)]
    return call.result(call.graph.reshaped(x.name, [call.type.shape[axis] for axis in order]), order)


def _broadcast_out(call: Call) -> str:
    """Return a tensor broadcast to a shape; an extent that it has already needs no size."""
    x, shape = call.tensor(0), call.type.shape
    own = (1,) * (len(shape) - x.rank) + tuple(x.shape)
    wanted = [1 if a == b else b for a, b in zip(own, shape, strict=True)]
    name, dtype = call.plain(0), x.dtype
    return call.add("Expand", name, call.graph.shape(wanted)) if wanted or dtype else name


def _concat_out(call: Call) -> str | Tensor:
    """Return joined tensors; all are taken in the order of the first that has another one than the program."""
    rank, axis = len(call.type.shape), int(call.attributes["axis"]) % len(call.type.shape)
    orders = [x.order for x in call.operands if x is not None and x.array is None]
    order = next((order for order in orders if order != tuple(range(rank))), tuple(range(rank)))
    names = [call.ordered(i, order) for i in range(len(call.operands))]
    if len(names) == 1:
        return call.result(names[0], order)
    return call.result(call.add("Concat", *names, axis=order.index(axis)), order)


def _split_out(call: Call) -> list[Tensor]:
    x, axis = call.tensor(0), int(call.attributes["axis"]) % call.tensor(0).rank
    held, sizes, place = call.ordered(0, x.order), call.integers(*call.attributes["sizes"]), x.order.index(axis)
    names = call.graph.several("Split", held, sizes, count=len(call.types), hint=call.outputs[0], axis=place)
    return [call.result(name, x.order, number) for number, name in enumerate(names)]


IMPORTS: Final[dict[str, Mapping]] = {
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Transpose": _transpose,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Expand": _expand,
    "Concat": lambda node: joined(node.tensors(), node.axis(default=1)),
    "Split": _split,
    "Tile": lambda node: repeated(node.tensor(0), node.extents(1)),
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": _space_to_depth,
    "ReverseSequence": on_plain(_reverse_sequence),
}

EXPORTS: Final[dict[str, Export]] = {
    "reshape": _reshape_out,
    "transpose": _transpose_out,
    "broadcast_to": _broadcast_out,
    "concat": _concat_out,
    "split": _split_out,
}
