"""Rearrangements: views, permutations, slices, pieces, padding, filled tensors."""

# pyright: basic
# onnx is imported by name and has no types here, nor have the lambdas of a table.

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from compiler.errors import CompileError
from compiler.exporters.onnx.call import Call, Export, Unmapped
from compiler.exporters.onnx.tensors import Tensor
from compiler.frontends.arranged import (
    Arranged,
    arranged,
    expanded,
    like,
    permuted,
    plain,
    pointwise,
    single,
    squeezed,
    unsqueezed,
    viewed,
)
from compiler.frontends.extents import ONE, Extent, product
from compiler.frontends.onnx.node import Mapping, Node, cast, on_plain
from compiler.frontends.pieces import pad, sliced, sliced_to, split
from registry import Value, ops

HUGE: Final = 10**9
"""Exporters end slices of whole axes here or at the largest integers."""


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


def _concat(node: Node) -> Arranged:
    return joined(node.tensors(), node.axis(default=1))


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


def _slice(node: Node) -> Any:
    if node.version < 10:
        starts, ends = ([Extent(int(n)) for n in node.attribute(name)] for name in ("starts", "ends"))
        axes, steps = node.attribute("axes"), None
    else:
        starts, ends = node.extents(1), node.extents(2)
        axes, steps = (node.numbers(i) if node.has(i) else None for i in (3, 4))
    x = node.tensor(0)
    axes = range(len(starts)) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        x = _cut(node, x, start, end, int(axis) % x.rank, int(step))
    return x


def _cut(node: Node, x: Arranged, start: Extent, end: Extent, axis: int, step: int) -> Arranged:
    size = x.shape[axis]
    if start == Extent(0) and step == 1 and (end == size or (not end.symbols and end.number >= HUGE)):
        return x
    if size.symbols or start.symbols or end.symbols:
        return _cut_by_symbols(x, start, end, axis, step)
    n, first, last = size.number, start.number, end.number
    if step > 0:
        taken = range(n)[max(min(first, n), -n) : max(min(last, n), -n) : step]
    else:
        taken = range(n)[min(first, n - 1) if first >= -n else -n - 1 : last if last >= -n else None : step]
    if not taken:
        shape = [0 if i == axis else extent.plain() for i, extent in enumerate(x.shape)]
        return arranged(node.full(shape, 0, x.dtype))
    if step < 0:  # the same elements forwards, and then reversed
        x = sliced(x, axis, taken[-1], taken[0] + 1, -step)
        x, [place] = single(x, [axis])
        return like(x, ops.flip(x.value, axis=(place,)))
    return sliced(x, axis, taken.start, taken.stop, step)


def _cut_by_symbols(x: Arranged, start: Extent, end: Extent, axis: int, step: int) -> Arranged:
    """Return a slice that begins or ends at a symbol; raise CompileError unless it has as many positions as one."""
    size = x.shape[axis]
    if step == 1 and end.symbols and start == Extent(0):
        return sliced_to(x, axis, end)
    if step == 1 and start.symbols and start.number < 0 and (end == size or end.number >= HUGE):
        return sliced_to(x, axis, start._replace(number=-start.number), start)
    if step == 1 and not start.symbols and start.number >= 0 and end == size.times(ONE):
        raise CompileError(f"a slice that leaves out {start} of {size} elements; bind {size.symbols[0]!r}")
    symbol = [*size.symbols, *start.symbols, *end.symbols][0]
    raise CompileError(f"a slice of an axis with {size} elements needs numbers; bind {symbol!r}")


def _tile(node: Node) -> Arranged:
    x, counts = node.tensor(0), node.extents(1)
    if all(count == ONE for count in counts):
        return x
    wide = x
    for axis in reversed(range(x.rank)):
        if counts[axis] != ONE:
            wide = unsqueezed(wide, axis)
            wide = expanded(wide, (*wide.shape[:axis], counts[axis], *wide.shape[axis + 1 :]))
    return viewed(wide, [count.times(extent) for count, extent in zip(counts, x.shape, strict=True)])


def _pad(node: Node) -> Arranged:
    x, mode = node.tensor(0), node.attribute("mode", "constant")
    if node.version >= 11:
        widths = node.numbers(1)
        value = _fill(node)
        axes = node.numbers(3) if node.has(3) else range(x.rank)
    else:
        widths = list(node.attribute("pads", node.attribute("paddings")))  # the name in opset 1
        value, axes = node.attribute("value", 0.0), range(x.rank)
    half = len(widths) // 2
    pairs = [(0, 0)] * x.rank
    for i, axis in enumerate(axes):
        pairs[axis % x.rank] = widths[i], widths[half + i]
    for axis, (before, after) in enumerate(pairs):
        if min(before, after) < 0:
            x = sliced(x, axis, max(-before, 0), x.shape[axis].known() - max(-after, 0))
    pairs = [(max(a, 0), max(b, 0)) for a, b in pairs]
    if mode == "constant" and isinstance(value, Arranged):
        outside = np.pad(
            np.zeros([1 if extent.symbols else extent.number for extent in x.shape], bool), pairs, constant_values=True
        )
        return pointwise(ops.where, arranged(node.new(outside)), value, pad(x, pairs, 0.0))
    if mode == "constant":
        return pad(x, pairs, value)
    function = {"reflect": ops.pad_reflect, "edge": ops.pad_edge, "wrap": ops.pad_wrap}[mode]
    return arranged(function(plain(x), before=tuple(a for a, _ in pairs), after=tuple(b for _, b in pairs)))


def _fill(node: Node) -> Any:
    """Return the number that a Pad fills with; a tensor if it is data."""
    if not node.has(2):
        return 0.0
    x = node.operands[2]
    return x if isinstance(x, Arranged) else x.array().reshape(-1)[0].item()


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


def _center_crop_pad(node: Node) -> Arranged:
    x, sizes = node.tensor(0), node.numbers(1)
    axes = [a % x.rank for a in node.attribute("axes", range(x.rank))]
    pairs = [(0, 0)] * x.rank
    for axis, size in zip(axes, sizes, strict=True):
        old = node.size(axis)
        if size < old:
            first = (old - size) // 2
            x = sliced(x, axis, first, first + size)
        else:
            before = (size - old) // 2
            pairs[axis] = before, size - old - before
    return pad(x, pairs, 0.0)


def _reverse_sequence(node: Node, x: Value, lengths: Value) -> Value:
    batch, time = node.attribute("batch_axis", 1), node.attribute("time_axis", 0)
    along_time = tuple(-1 if i == time else 1 for i in range(x.rank))
    along_batch = tuple(x.shape[batch] if i == batch else 1 for i in range(x.rank))
    at = ops.reshape(node.range(node.shape()[time]), shape=along_time)
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
    order = x.order if x.array is None else tuple(range(x.rank))
    sizes = call.integers(*call.attributes["sizes"])
    held = call.ordered(0, order)
    names = call.graph.several(
        "Split", held, sizes, count=len(call.types), hint=call.outputs[0], axis=order.index(axis)
    )
    return [call.result(name, order, number) for number, name in enumerate(names)]


def _slice_out(call: Call) -> Tensor:
    x, given = call.tensor(0), call.attributes
    last = call.walk.finals.get(call.inputs[0])
    if last is not None:  # the last cells of an LSTM
        return replace(last, type=call.type)
    order = x.order if x.array is None else tuple(range(x.rank))
    axes = [order.index(axis) for axis in given["axes"]]
    if not axes:
        return call.result(call.ordered(0, order), order)
    ranges = [_clipped(*each) for each in zip(given["starts"], given["stops"], given["strides"], strict=True)]
    starts, ends, steps = zip(*ranges, strict=True)
    name = call.add("Slice", call.ordered(0, order), *(call.integers(*v) for v in (starts, ends, axes, steps)))
    return call.result(name, order)


def _clipped(start: int, stop: int, step: int) -> tuple[int, int, int]:
    """Return a range as ONNX reads it: it counts a stop of -1 from the end, and clips the ends of empty ranges."""
    if not range(start, stop, step):
        return 0, 0, 1
    return start, stop if stop >= 0 else -(2**63), step


def _unslice_out(call: Call) -> str:
    """Return zeros around a slice; one whose steps are not 1 has no counterpart."""
    given, shape = call.attributes, call.type.shape
    if any(step != 1 for step in given["strides"]):
        raise Unmapped("spreads a slice with steps, which ONNX cannot pad")
    before, after = [0] * len(shape), [0] * len(shape)
    for axis, start, stop in zip(given["axes"], given["starts"], given["stops"], strict=True):
        before[axis], after[axis] = start, int(shape[axis]) - max(stop, start)
    if not shape:
        return call.plain(0)
    return call.add("Pad", call.plain(0), call.integers(*before, *after), call.number(0))


def _pad_out(call: Call) -> Tensor:
    x, given = call.tensor(0), call.attributes
    order = x.order if x.array is None else tuple(range(x.rank))
    widths = [given[side][axis] for side in ("before", "after") for axis in order]
    if not any(widths):
        return call.result(call.ordered(0, order), order)
    value = call.number(given["value"])
    if x.dtype in ("float16", "bfloat16", "bool", "uint8") and call.opset < 21:
        inside = "int32" if x.dtype in ("bool", "uint8") else "float32"
        padded = call.add("Pad", call.cast(call.ordered(0, order), inside), call.integers(*widths),
                          call.number(given["value"], inside))  # fmt: skip
        return call.result(call.cast(padded, x.dtype), order)
    return call.result(call.add("Pad", call.ordered(0, order), call.integers(*widths), value), order)


IMPORTS: Final[dict[str, Mapping]] = {
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Transpose": _transpose,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Expand": _expand,
    "Concat": _concat,
    "Split": _split,
    "Slice": _slice,
    "Tile": _tile,
    "Pad": _pad,
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": _space_to_depth,
    "CenterCropPad": _center_crop_pad,
    "ReverseSequence": on_plain(_reverse_sequence),
}

EXPORTS: Final[dict[str, Export]] = {
    "reshape": _reshape_out,
    "transpose": _transpose_out,
    "broadcast_to": _broadcast_out,
    "concat": _concat_out,
    "split": _split_out,
    "slice": _slice_out,
    "unslice": _unslice_out,
    "pad": _pad_out,
}
