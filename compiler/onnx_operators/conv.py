"""Convolutions: activations are moved to channels last, and filters stay as the file has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np

from compiler.errors import CompileError
from compiler.exporters.onnx.call import Call, Export, Unmapped
from compiler.exporters.onnx.tensors import Tensor
from compiler.frontends.arranged import Arranged, arranged, ordered, pointwise, unsqueezed
from compiler.frontends.channels import filters, first, last
from compiler.frontends.elements import cast_to
from compiler.frontends.onnx.node import Mapping, Node
from compiler.frontends.pieces import pad, sliced
from registry import ops


class Window(NamedTuple):
    """The windows of a convolution or a pool.

    Attributes:
        stride: steps between windows.
        dilation: steps between elements of a window.
        padding: widths before all axes, and then after all axes.
    """

    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: tuple[int, ...]


def window_of(node: Node, x: Arranged, size: Sequence[int]) -> Window:
    """Return the windows of a node; automatic padding needs extents that are numbers."""
    count = len(size)
    stride = tuple(node.attribute("strides") or [1] * count)
    dilation = tuple(node.attribute("dilations") or [1] * count)
    padding = tuple(node.attribute("pads") or [0] * 2 * count)
    automatic = node.attribute("auto_pad", "NOTSET")
    if automatic == "VALID":
        padding = (0,) * 2 * count
    if automatic.startswith("SAME"):
        totals: list[int] = []
        for i in range(count):
            extent = node.size(2 + i)
            steps = -(-extent // stride[i])
            totals.append(max((steps - 1) * stride[i] + (size[i] - 1) * dilation[i] + 1 - extent, 0))
        padding = parted(totals, upper=automatic == "SAME_UPPER")
    return Window(stride, dilation, padding)


def parted(totals: Sequence[int], *, upper: bool) -> tuple[int, ...]:
    """Return total paddings as those before and after; the larger half is after with `upper`."""
    before = [n // 2 if upper else n - n // 2 for n in totals]
    return (*before, *(n - b for n, b in zip(totals, before, strict=True)))


def convolved(node: Node, x: Arranged, w: Arranged, bias: Arranged | None) -> Arranged:
    """Return the convolution that a node's attributes describe."""
    axes = w.rank - 2
    if axes > 3 or axes < 1:
        raise CompileError(f"a convolution over {axes} axes, and prograd has those over 1 to 3")
    window = window_of(node, x, [extent.number for extent in w.shape[2:]])
    y = ops.conv(
        last(x),
        filters(w),
        stride=window.stride,
        padding=window.padding,
        dilation=window.dilation,
        groups=int(node.attribute("group", 1)),
    )
    return first(y if bias is None else y + ordered(bias, (0,)))


def _conv_transpose(node: Node) -> Arranged:
    """Return a transposed convolution without padding, which is then cropped or padded."""
    x, w, bias = node.tensor(0), node.tensor(1), node.optional(2)
    axes = w.rank - 2
    stride = tuple(node.attribute("strides") or [1] * axes)
    dilation = tuple(node.attribute("dilations") or [1] * axes)
    more = node.attribute("output_padding") or [0] * axes
    pads, automatic = list(node.attribute("pads") or [0] * 2 * axes), node.attribute("auto_pad", "NOTSET")
    asked = node.attribute("output_shape")
    y = first(
        ops.conv_transpose(
            last(x), filters(w), stride=stride, dilation=dilation, groups=int(node.attribute("group", 1))
        )
    )
    if asked or automatic.startswith("SAME"):
        given = list(asked)[-axes:] if asked else [node.size(2 + i) * stride[i] for i in range(axes)]
        totals = [y.shape[2 + i].known() + more[i] - given[i] for i in range(axes)]
        pads = list(parted(totals, upper=automatic == "SAME_UPPER"))
    elif automatic == "VALID":
        pads = [0] * 2 * axes
    missing = [(0, 0)] * x.rank
    for i in range(axes):
        before, after = pads[i], pads[axes + i] - more[i]
        if before > 0 or after > 0:
            y = sliced(y, 2 + i, max(before, 0), y.shape[2 + i].known() - max(after, 0))
        missing[2 + i] = max(-before, 0), max(-after, 0)
    y = pad(y, missing, 0.0)
    return y if bias is None else pointwise(ops.add, y, channels(bias, y.rank))


def channels(w: Arranged, rank: int) -> Arranged:
    """Return a vector as one along the channels of a tensor of this rank."""
    for _ in range(rank - 2):
        w = unsqueezed(w, w.rank)
    return w


def integer_convolution(node: Node) -> Arranged:
    """Return a ConvInteger, computed in float64."""
    x, w = (cast_to(node.tensor(i), "float64") for i in (0, 1))
    if node.has(2):
        x = pointwise(ops.sub, x, cast_to(node.tensor(2), "float64"))
    if node.has(3):
        zero = cast_to(node.tensor(3), "float64")
        w = pointwise(ops.sub, w, channels(zero, w.rank + 1) if zero.rank else zero)
    return cast_to(convolved(node, x, w, None), "int32")


def _causal(node: Node) -> tuple[Arranged, Arranged]:
    """Return a depthwise convolution of the cached last steps and the new ones, and the new cache."""
    x, w, bias, past = node.value(0), node.value(1), node.optional_value(2), node.optional_value(3)
    size, count = node.size(2, 1), (x.shape[0], node.size(1), node.size(2))
    if past is None and size > 1:
        past = node.full((count[0], count[1], size - 1), 0.0, x.dtype)
    seen = ops.concat(past, x, axis=2) if size > 1 and past is not None else x
    y = ops.conv(seen, w, groups=count[1], layout="NCHW")
    y = y if bias is None else y + ops.reshape(bias, shape=(count[1], 1))
    y = ops.silu(y) if node.attribute("activation", "none") in ("silu", "swish") else y
    whole = count[2] + size - 1
    rest = seen[:, :, whole - (size - 1) :] if size > 1 else node.full((count[0], count[1], 0), 0.0, x.dtype)
    return arranged(y), arranged(rest)


IMAGE: Final = (0, 3, 1, 2)
"""The order [n, c, h, w] of an image [n, h, w, c]."""

FILTER: Final = (3, 2, 0, 1)
"""The order [o, c, h, w] of a filter [h, w, c, o]."""


def window_out(call: Call, size: Sequence[int | str] | None = None) -> dict[str, Any]:
    """Return the windows of a convolution as attributes of ONNX, of the size of its filters by default."""
    given = call.attributes
    return {
        "kernel_shape": list(call.tensor(1).shape[:2] if size is None else size), "strides": list(given["stride"]),
        "pads": list(given["padding"]), "dilations": list(given["dilation"]), "group": int(given.get("groups", 1)),
    }  # fmt: skip


def _conv_out(call: Call, *bias: str) -> Tensor:
    name = call.add("Conv", call.ordered(0, IMAGE), call.ordered(1, FILTER), *bias, **window_out(call))
    return call.result(name, IMAGE)


def with_bias(call: Call) -> Tensor | str | None:
    """Return a convolution or a product of a matrix to which a vector of channels is added, as one node."""
    for made, number in with_vectors(call, "conv2d", "matmul"):
        return _conv_out(made, call.plain(1 - number)) if made.op_type == "conv2d" else _gemm(call, made, number)
    return None


def with_vectors(call: Call, *op_types: str) -> Iterator[tuple[Call, int]]:
    """Yield each operand that such an op made for this op alone, where the other operand is a vector of channels."""
    for number in (0, 1):
        made, other = call.made_by(number, *op_types), call.operands[1 - number]
        if made is None or other is None or other.rank != 1 or made.types[0] != call.type:
            continue
        if len(call.walk.readers[call.inputs[number]]) == 1:
            yield made, number


def _gemm(call: Call, made: Call, number: int) -> str | None:
    if made.tensor(0).rank != 2 or made.tensor(1).rank != 2:
        return None
    flags = {f"trans{side.upper()}": int(made.attributes[f"transpose_{side}"]) or None for side in "ab"}
    a, b = made.tensor(0), made.tensor(1)
    if b.array is None and b.order == (1, 0):  # a transposed matrix is the flag
        b, flags["transB"] = (
            replace(b, order=(0, 1), type=b.type._replace(shape=b.shape[::-1])),
            (None if flags["transB"] else 1),
        )
    return call.add("Gemm", call.graph.plain(a), call.graph.plain(b), call.plain(1 - number), **flags)


def _conv_transpose_out(call: Call) -> Tensor:
    """Return images that a convolution with these windows would see: a transposed convolution."""
    window = tuple(int(extent) for extent in call.tensor(1).shape[:2])
    return _spread(call, call.ordered(1, FILTER), window)


def _spread(call: Call, filters: str, window: tuple[int, ...]) -> Tensor:
    given = call.attributes
    image, made = call.type.shape[1:3], call.tensor(0).shape[1:3]
    more: list[int] = []
    for axis in (0, 1):
        extent, count = image[axis], made[axis]
        if isinstance(extent, str) or isinstance(count, str):
            raise Unmapped(f"makes images of {extent} rows; bind the symbol")
        reach = given["dilation"][axis] * (window[axis] - 1) + 1
        edges = given["padding"][axis] + given["padding"][axis + 2]
        more.append(extent - (given["stride"][axis] * (count - 1) + reach - edges))
    fits = all(0 <= more[i] < max(given["stride"][i], given["dilation"][i]) for i in (0, 1))
    name = call.add(
        "ConvTranspose", call.ordered(0, IMAGE), filters, output_padding=more if fits else None,
        **window_out(call, window),
    )  # fmt: skip
    if not fits:  # windows leave out the last rows
        name = call.add("Pad", name, call.integers(0, 0, 0, 0, 0, 0, *more))
    return call.result(name, IMAGE)


def _eye_filter(call: Call, window: Sequence[int], channels: int) -> str:
    """Return filters [o, c, h, w] whose product with a window is the window, its elements in the order [h, w, c]."""
    count = window[0] * window[1] * channels
    filters = np.zeros((count, channels, *window), call.type.dtype)
    at = np.arange(count)
    filters[at, at % channels, at // channels // window[1], at // channels % window[1]] = 1
    return call.graph.constant(filters)


def _unfold_out(call: Call) -> Tensor:
    window, channels = call.attributes["window"], int(call.tensor(0).shape[3])
    filters = _eye_filter(call, window, channels)
    return call.result(call.add("Conv", call.ordered(0, IMAGE), filters, **window_out(call, window)), IMAGE)


def _fold_out(call: Call) -> Tensor:
    """Return images that sum the elements of all windows: a transposed convolution with filters of one element."""
    given = call.attributes
    filters = _eye_filter(call, given["window"], int(call.type.shape[3]))
    return _spread(call, filters, tuple(int(extent) for extent in given["window"]))


def _deform(node: Node) -> Arranged:
    x, w, offset, bias, mask = node.tensor(0), node.tensor(1), node.tensor(2), node.optional(3), node.optional(4)
    if x.rank != 4:
        raise CompileError(f"DeformConv over {x.rank - 2} axes, and prograd's deform_conv2d has two")
    y = ops.deform_conv2d(
        last(x),
        filters(w),
        last(offset),
        None if mask is None else last(mask),
        stride=tuple(node.attribute("strides") or (1, 1)),
        padding=tuple(node.attribute("pads") or (0, 0, 0, 0)),
        dilation=tuple(node.attribute("dilations") or (1, 1)),
        groups=int(node.attribute("group", 1)),
        offset_groups=int(node.attribute("offset_group", 1)),
    )
    return first(y if bias is None else y + ordered(bias, (0,)))


IMPORTS: Final[dict[str, Mapping]] = {
    "Conv": lambda node: convolved(node, node.tensor(0), node.tensor(1), node.optional(2)),
    "ConvTranspose": _conv_transpose,
    "DeformConv": _deform,
    "CausalConvWithState": _causal,
}

EXPORTS: Final[dict[str, Export]] = {
    "conv2d": _conv_out,
    "conv2d_input_gradient": _conv_transpose_out,
    "unfold": _unfold_out,
    "fold": _fold_out,
}
