"""Parts of tensors: slices, padding, crops."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np

from compiler.errors import CompileError
from compiler.exporters.onnx.call import Call, Export, Unmapped
from compiler.exporters.onnx.tensors import Tensor
from compiler.frontends.arranged import Arranged, arranged, like, plain, pointwise, single
from compiler.frontends.extents import ONE, Extent
from compiler.frontends.onnx.node import Mapping, Node
from compiler.frontends.pieces import pad, sliced, sliced_to
from registry import ops

HUGE: Final = 10**9
"""Exporters end slices of whole axes here or at the largest integers."""


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
    if not start.symbols and start.number < 0 and (end == size or end.number >= HUGE):
        end = Extent(0)
    if not start.symbols and not end.symbols and end.number - start.number == 1 == step:
        return sliced(x, axis, start.number, end.number)
    if step == 1 and end.symbols and start == Extent(0):
        return sliced_to(x, axis, end)
    if step == 1 and start.symbols and start.number < 0 and (end == size or end.number >= HUGE):
        return sliced_to(x, axis, start._replace(number=-start.number), start)
    if step == 1 and not start.symbols and start.number >= 0 and end == size.times(ONE):
        raise CompileError(f"a slice that leaves out {start} of {size} elements; bind {size.symbols[0]!r}")
    symbol = [*size.symbols, *start.symbols, *end.symbols][0]
    raise CompileError(f"a slice of an axis with {size} elements needs numbers; bind {symbol!r}")


def _pad(node: Node) -> Arranged:
    x, mode = node.tensor(0), node.attribute("mode", "constant")
    if node.version >= 11:
        widths = node.numbers(1)
        value = node.number_or_tensor(2, 0.0)
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


def _slice_out(call: Call) -> Tensor:
    given, order = call.attributes, call.tensor(0).order
    last = call.walk.finals.get(call.inputs[0])
    if last is not None:  # the last cells of an LSTM
        return replace(last, type=call.type)
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
    given, order, dtype = call.attributes, call.tensor(0).order, call.type.dtype
    widths = [given[side][axis] for side in ("before", "after") for axis in order]
    if not any(widths):
        return call.result(call.ordered(0, order), order)
    narrow = {"float16": "float32", "bfloat16": "float32", "bool": "int32", "uint8": "int32"}
    inside = narrow.get(dtype, dtype) if call.opset < 21 else dtype
    x, value = call.cast(call.ordered(0, order), inside, dtype), call.number(given["value"], inside)
    return call.result(call.cast(call.add("Pad", x, call.integers(*widths), value), dtype, inside), order)


IMPORTS: Final[dict[str, Mapping]] = {"Slice": _slice, "Pad": _pad, "CenterCropPad": _center_crop_pad}

EXPORTS: Final[dict[str, Export]] = {"slice": _slice_out, "unslice": _unslice_out, "pad": _pad_out}
