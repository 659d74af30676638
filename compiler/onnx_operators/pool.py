"""Pooling: windows and whole images."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from math import prod
from typing import Any, Final

import numpy as np

from compiler.exporters.onnx.call import Call, Export
from compiler.exporters.onnx.tensors import Tensor
from compiler.frontends.arranged import Arranged, arranged
from compiler.frontends.channels import first, last
from compiler.frontends.onnx.node import Mapping, Node, cast, is_integer, on_plain
from compiler.frontends.reductions import reduced
from compiler.onnx_operators.conv import IMAGE, Window, window_of
from prograd_proto import ProgramError
from registry import Value, ops


def _windows(node: Node, x: Value, size: Sequence[int], window: Window, value: float) -> list[Value]:
    """Return, for each element of a window, its value in all windows [n, c, ...]."""
    count, ceil = len(size), bool(node.attribute("ceil_mode", 0))
    outs: list[int] = []
    edges = [list(window.padding[:count]), list(window.padding[count:])]
    for i in range(count):
        extent = int(x.shape[2 + i])
        span, stride = (size[i] - 1) * window.dilation[i] + 1, window.stride[i]
        room = extent + edges[0][i] + edges[1][i]
        steps = (-(-(room - span) // stride) if ceil else (room - span) // stride) + 1
        if ceil and (steps - 1) * stride >= extent + edges[0][i]:
            steps -= 1
        outs.append(steps)
        edges[1][i] += max((steps - 1) * stride + span - room, 0)
    y = ops.pad(x, before=(0, 0, *edges[0]), after=(0, 0, *edges[1]), value=value)
    parts: list[Value] = []
    for at in np.ndindex(*size):
        key: list[Any] = [slice(None)] * 2
        for i, k in enumerate(at):
            begin = k * window.dilation[i]
            key.append(slice(begin, begin + (outs[i] - 1) * window.stride[i] + 1, window.stride[i]))
        parts.append(y[tuple(key)])
    return parts


def _max_pool(node: Node) -> Any:
    x, size = node.tensor(0), tuple(node.attribute("kernel_shape"))
    window = window_of(node, x, size)
    if not node.wants(1) and (not is_integer(x) or x.dtype == "uint8"):
        made = _ours(node, ops.max_pool, size, window, dilation=window.dilation)
        if made is not None:
            return made
    return _max_pool_with_indices(node, size, window)


def _ours(node: Node, pool: Any, size: Sequence[int], window: Window, **more: Any) -> Arranged | None:
    """Return the pool of an operator of ours; None for windows that it refuses, such as those within the padding."""
    ceil, x = bool(node.attribute("ceil_mode", 0)), last(node.tensor(0))
    try:
        return first(pool(x, window=size, stride=window.stride, padding=window.padding, ceil_mode=ceil, **more))
    except ProgramError:
        return None


def _max_pool_with_indices(node: Node, size: Sequence[int], window: Window) -> Any:
    x = node.value(0)
    wide = cast(x, "float64") if is_integer(x) else x
    least = -1e300 if wide.dtype == "float64" else -3e38
    stacked = ops.stack(*_windows(node, wide, size, window, least), axis=-1)
    y = arranged(cast(ops.max(stacked, axis=(-1,)), x.dtype))
    if not node.wants(1):
        return y
    batch, channels, image = node.shape()[0], node.size(1), [node.size(2 + i) for i in range(len(size))]
    planes = ops.reshape(node.range(batch), shape=(-1, 1)) * channels + node.new(np.arange(channels), "int64")
    planes = ops.reshape(planes * prod(image), shape=(batch.plain(), channels, *(1,) * len(size)))
    order = "F" if node.attribute("storage_order", 0) else "C"
    numbers = np.arange(prod(image)).reshape(1, 1, *image, order=order)
    chosen = ops.stack(*_windows(node, node.new(numbers, "int64"), size, window, -1.0), axis=-1)
    best = ops.unsqueeze(ops.argmax(stacked, axis=-1), axis=(-1,))
    wide = ops.broadcast_to(chosen, shape=(*best.shape[:-1], chosen.shape[-1]))
    return y, arranged(ops.squeeze(ops.take_along_axis(wide, best, axis=-1), axis=(-1,)) + planes)


def _avg_pool(node: Node) -> Arranged:
    x, size = node.tensor(0), tuple(node.attribute("kernel_shape"))
    window = window_of(node, x, size)
    counts = bool(node.attribute("count_include_pad", 0))
    is_dense = set(window.dilation) == {1}
    made = _ours(node, ops.avg_pool, size, window, count_include_pad=counts) if is_dense else None
    return _mean_of_windows(node, size, window, counts) if made is None else made


def _mean_of_windows(node: Node, size: Sequence[int], window: Window, counts: bool) -> Arranged:
    x, axes = node.value(0), len(size)
    ones = np.ones((1, 1, *(node.size(2 + i) for i in range(axes))))
    own = window
    if counts:
        sides = list(zip(window.padding[:axes], window.padding[axes:], strict=True))
        ones = np.pad(ones, [(0, 0), (0, 0), *sides], constant_values=1.0)
        own = window._replace(padding=(0,) * 2 * axes)
    total = reduce(ops.add, _windows(node, x, size, window, 0.0))
    return arranged(total / reduce(ops.add, _windows(node, node.new(ones, x.dtype), size, own, 0.0)))


def _lp_pool(node: Node) -> Arranged:
    x, size, p = node.tensor(0), tuple(node.attribute("kernel_shape")), float(node.attribute("p", 2))
    window = window_of(node, x, size)
    if set(window.dilation) == {1}:
        ceil = bool(node.attribute("ceil_mode", 0))
        y = ops.lp_pool(last(x), p=p, window=size, stride=window.stride, padding=window.padding, ceil_mode=ceil)
        return first(y)
    parts = _windows(node, node.value(0), size, window, 0.0)
    return arranged(ops.pow(reduce(ops.add, [ops.pow(ops.abs(part), p) for part in parts]), 1 / p))


def _global(function: Any) -> Mapping:
    return lambda node: reduced(
        lambda v, axes: function(v, axis=axes, keepdims=True),
        node.tensor(0),
        list(range(2, node.operands[0].rank)),
        keepdim=True,
    )


def _max_unpool(node: Node, x: Value, indices: Value, shape: Value | None = None) -> Value:
    window = node.attribute("kernel_shape")
    axes = len(window)
    channels, *image = (node.size(1 + i) for i in range(axes + 1))
    stride, pads = node.attribute("strides", [1] * axes), node.attribute("pads", [0] * 2 * axes)
    own = [(image[i] - 1) * stride[i] - pads[i] - pads[axes + i] + window[i] for i in range(axes)]
    planes = x.shape[0], channels
    blank, plane = node.full((*planes, prod(own)), 0.0, x.dtype), (*planes, prod(image))
    at = ops.remainder(ops.reshape(indices, shape=plane), node.new(prod(own), "int64"))
    flat = ops.put_along_axis(blank, at, ops.reshape(x, shape=plane), axis=2)
    y = ops.reshape(flat, shape=(*planes, *own))
    asked = node.numbers(2)[-axes:] if node.has(2) else own
    more = tuple(a - b for a, b in zip(asked, own, strict=True))
    return ops.pad(y, before=(0,) * x.rank, after=(0, 0, *more)) if any(more) else y


def _col2im(node: Node, x: Value, shape: Value, block: Value) -> Value:
    image, window = node.numbers(1), node.numbers(2)
    axes = len(image)
    stride = node.attribute("strides", [1] * axes)
    dilation, pads = node.attribute("dilations", [1] * axes), node.attribute("pads", [0] * 2 * axes)
    n, rows, count = x.shape[0], node.size(1), node.size(2)
    channels = rows // prod(window)
    full = [image[i] + pads[i] + pads[axes + i] for i in range(axes)]
    outs = [(full[i] - (window[i] - 1) * dilation[i] - 1) // stride[i] + 1 for i in range(axes)]
    at = np.zeros((*window, *outs), dtype=np.int64)
    for i in range(axes):
        place = np.arange(window[i])[:, None] * dilation[i] + np.arange(outs[i])[None] * stride[i]
        own = [1] * 2 * axes
        own[i], own[axes + i] = window[i], outs[i]
        at = at * full[i] + place.reshape(own)
    taps = ops.reshape(x, shape=(n, channels, prod(window) * count))
    blank = node.full((n, channels, prod(full)), 0.0, x.dtype)
    y = ops.reshape(ops.scatter_add(blank, node.new(at.reshape(-1), "int64"), taps, axis=2), shape=(n, channels, *full))
    return y[(slice(None), slice(None), *(slice(pads[i], pads[i] + image[i]) for i in range(axes)))]


def _pool_out(op_type: str) -> Export:
    def mapped(call: Call) -> Tensor:
        given = call.attributes
        counted = int(given["count_include_pad"]) if op_type == "AveragePool" else None
        name = call.add(
            op_type, call.ordered(0, IMAGE), kernel_shape=list(given["window"]), strides=list(given["stride"]),
            pads=list(given["padding"]), count_include_pad=counted,
        )  # fmt: skip
        return call.result(name, IMAGE)

    return mapped


IMPORTS: Final[dict[str, Mapping]] = {
    "MaxPool": _max_pool,
    "AveragePool": _avg_pool,
    "LpPool": _lp_pool,
    "GlobalAveragePool": _global(ops.mean),
    "GlobalMaxPool": _global(ops.max),
    "GlobalLpPool": lambda node: _global(partial(ops.norm, ord=float(node.attribute("p", 2))))(node),
    "MaxUnpool": on_plain(_max_unpool),
    "Col2Im": on_plain(_col2im),
}

EXPORTS: Final[dict[str, Export]] = {"max_pool2d": _pool_out("MaxPool"), "avg_pool2d": _pool_out("AveragePool")}
