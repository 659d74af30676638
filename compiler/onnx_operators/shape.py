"""Rearrangements: views, permutations, slices, pieces, padding, filled tensors."""

# pyright: basic
# onnx is imported by name and has no types here, nor have the lambdas of a table.

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from compiler.errors import CompileError
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
from compiler.frontends.torch.operators.shape import pad, sliced, split
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
        size, count = node.sizes()[axis], int(node.attribute("num_outputs", len(node.outputs)))
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
    huge = 2**31 - 1
    if start == Extent(0) and step == 1 and (end == size or (not end.symbols and end.number >= huge)):
        return x
    if size.symbols or start.symbols or end.symbols:
        if step == 1 and not start.symbols and start.number >= 0 and end == size.times(ONE):
            raise CompileError(f"a slice that leaves out {start} of {size} elements; bind {size.symbols[0]!r}")
        symbol = [*size.symbols, *start.symbols, *end.symbols][0]
        raise CompileError(f"a slice of an axis with {size} elements needs numbers; bind {symbol!r}")
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
            size = x.shape[axis].number
            x = sliced(x, axis, max(-before, 0), size - max(-after, 0))
    pairs = [(max(a, 0), max(b, 0)) for a, b in pairs]
    if mode == "constant" and isinstance(value, Arranged):
        outside = np.pad(np.zeros([extent.number for extent in x.shape], bool), pairs, constant_values=True)
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


def _trilu(node: Node, x: Value, offset: Value | None = None) -> Value:
    k = node.number(1) if node.has(1) else 0
    if 0 in x.shape:
        return x
    return (ops.triu if node.attribute("upper", 1) else ops.tril)(x, offset=k)


def _constant_of_shape(node: Node) -> Arranged:
    tensor = node.attribute("value")
    number = np.zeros(1, np.float32) if tensor is None else node.walk.tensors.array(tensor)
    shape = node.extents(0)
    return expanded(arranged(node.store(number.reshape(()))), shape)


def _eye_like(node: Node) -> Arranged:
    rows, columns = node.sizes()
    dtype = node.results[0] or "float32"
    return arranged(node.store(np.eye(rows, columns, node.attribute("k", 0), dtype=dtype)))


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
        old = x.shape[axis].number
        if size < old:
            first = (old - size) // 2
            x = sliced(x, axis, first, first + size)
        else:
            before = (size - old) // 2
            pairs[axis] = before, size - old - before
    return pad(x, pairs, 0.0)


def _reverse_sequence(node: Node, x: Value, lengths: Value) -> Value:
    batch, time = node.attribute("batch_axis", 1), node.attribute("time_axis", 0)
    size = x.shape[time]
    along_time = tuple(-1 if i == time else 1 for i in range(x.rank))
    along_batch = tuple(x.shape[batch] if i == batch else 1 for i in range(x.rank))
    at = node.new(np.arange(size).reshape(along_time), "int64")
    count = ops.reshape(cast(lengths, "int64"), shape=along_batch)
    whole = ops.broadcast_to(ops.where(at < count, count - 1 - at, at), shape=x.shape)
    return ops.take_along_axis(x, whole, axis=time)


def _range(node: Node) -> Any:
    first, last, step = (node.constant(i).reshape(()) for i in range(3))
    return node.walk.constant(np.arange(first, last, step, dtype=first.dtype))


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
    "Trilu": on_plain(_trilu),
    "ConstantOfShape": _constant_of_shape,
    "EyeLike": _eye_like,
    "Range": _range,
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": _space_to_depth,
    "CenterCropPad": _center_crop_pad,
    "ReverseSequence": on_plain(_reverse_sequence),
}
