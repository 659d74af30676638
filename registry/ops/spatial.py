"""Convolution and pooling over one, two or three axes, composed of the operators for images.

Signals are [n, w, c], images [n, h, w, c], volumes [n, d, h, w, c]; filters end in [c / groups, o]. `window`, `stride`
and `dilation` are a number for each of these axes, or one for all. So is `padding`; or, as in ONNX, it is first the
numbers before every axis and then those after. With layout="NCHW", channels come before all other axes and filters are
[o, c / groups, ...], as in PyTorch, for any number of axes; the function adds transposes.
"""

from __future__ import annotations

import math  # a star import of its names would shadow operators
from collections.abc import Callable

from prograd_proto.result_types.shapes import size_known
from registry.composite import gradients_of
from registry.errors import require
from registry.ops.conv import conv2d, conv2d_input_gradient
from registry.ops.fill import full
from registry.ops.pointwise import abs, logical_or, not_equal, pow, where
from registry.ops.pool import avg_pool2d, max_pool2d
from registry.ops.reduce import max, mean
from registry.ops.shape import concat, pad, reshape, transpose
from registry.spelled import spelled
from registry.spellings import Numbers
from registry.value import Index, Value

Many = tuple[int, ...]
Pool = Callable[[Value, Many, Many, Many], Value]
"""A function that pools images, given a window, a stride and the padding of four edges."""


@spelled
def conv(
    x: Value,
    w: Value,
    *,
    stride: Numbers = (),
    padding: Numbers = (),
    dilation: Numbers = (),
    groups: int = 1,
    layout: str = "NHWC",
) -> Value:
    """Return the convolution of x with the filters w over one, two or three axes; see conv2d.

    Unlike conv2d, which is the operator for images, it supports layout="NCHW".
    """
    if _is_channels_first(x, layout):
        y = conv(_last(x), _filters_last(w), stride=stride, padding=padding, dilation=dilation, groups=groups)
        return _first(y)
    axes = _axes_of(x)
    require(w.rank == x.rank, f"w has {w.rank} axes and x {x.rank}; both need the same number")
    stride, dilation = _numbers("stride", stride, axes, 1), _numbers("dilation", dilation, axes, 1)
    edges = _edges(padding, axes)
    if axes == 3:
        return _conv_volume(x, w, stride, edges, dilation, groups)
    image, window = _as_image(x), _as_image_attributes(stride, edges, dilation)
    filters = w if axes == 2 else reshape(w, shape=(1, *w.shape))
    return _as_rank(conv2d(image, filters, groups=groups, **window), axes)


@spelled
def conv1d(
    x: Value,
    w: Value,
    *,
    stride: Numbers = (),
    padding: Numbers = (),
    dilation: Numbers = (),
    groups: int = 1,
    layout: str = "NHWC",
) -> Value:
    """Return `conv` of signals x [n, w, c] and filters w [w, c / groups, o]; "NCHW" has channels first."""
    _require_axes(x, 1)
    return conv(x, w, stride=stride, padding=padding, dilation=dilation, groups=groups, layout=layout)


@spelled
def conv3d(
    x: Value,
    w: Value,
    *,
    stride: Numbers = (),
    padding: Numbers = (),
    dilation: Numbers = (),
    groups: int = 1,
    layout: str = "NHWC",
) -> Value:
    """Return `conv` of volumes x [n, d, h, w, c], filters [d, h, w, c / groups, o]; "NCHW" has channels first."""
    _require_axes(x, 3)
    return conv(x, w, stride=stride, padding=padding, dilation=dilation, groups=groups, layout=layout)


@spelled
def conv_transpose(
    x: Value,
    w: Value,
    *,
    stride: Numbers = (),
    padding: Numbers = (),
    output_padding: Numbers = (),
    dilation: Numbers = (),
    groups: int = 1,
    layout: str = "NHWC",
) -> Value:
    """Return x spread by the filters w over one, two or three axes: the adjoint of conv.

    The last axis of w has the channels of x; the axis before it has the result's channels divided by `groups`. With
    layout="NCHW", w is [channels of x, result's / groups, ...] as in PyTorch. An extent becomes (size - 1) * stride -
    padding + dilation * (window - 1) + output_padding + 1, with output_padding less than stride.
    """
    if _is_channels_first(x, layout):
        y = conv_transpose(
            _last(x),
            _filters_last(w),
            stride=stride,
            padding=padding,
            output_padding=output_padding,
            dilation=dilation,
            groups=groups,
        )
        return _first(y)
    axes = _axes_of(x)
    require(w.rank == x.rank, f"w has {w.rank} axes and x {x.rank}; both need the same number")
    stride, dilation = _numbers("stride", stride, axes, 1), _numbers("dilation", dilation, axes, 1)
    more = _numbers("output_padding", output_padding, axes, 0)
    edges = _edges(padding, axes)
    fits = all(0 <= extra < step for extra, step in zip(more, stride, strict=True))
    require(fits, f"output_padding {more} is not in 0 ... stride - 1 for the stride {stride}")
    *window, depth, _ = (size_known(extent, "an extent of the filter") for extent in w.shape)
    sizes = tuple(
        (size_known(x.shape[1 + i], "a spread extent") - 1) * stride[i]
        - edges[i]
        - edges[i + axes]
        + dilation[i] * (window[i] - 1)
        + more[i]
        + 1
        for i in range(axes)
    )
    require(min(sizes) > 0, f"the padding {edges} leaves nothing")
    shape = (x.shape[0], *sizes, depth * groups)
    if axes == 3:
        blank = full.on(x.block)(shape=shape, value=0.0, dtype=x.dtype)

        def forward(z: Value) -> list[Value]:
            return [_conv_volume(z, w, stride, edges, dilation, groups)]

        [y] = gradients_of(forward, [blank], [x])
        require(y is not None, "the filters reach nothing")
        return y if y is not None else blank
    attributes = _as_image_attributes(stride, edges, dilation)
    filters = w if axes == 2 else reshape(w, shape=(1, *w.shape))
    wide = shape if axes == 2 else (shape[0], 1, *shape[1:])
    return _as_rank(conv2d_input_gradient(_as_image(x), filters, shape=wide, groups=groups, **attributes), axes)


@spelled
def depthwise_conv(
    x: Value,
    w: Value,
    *,
    stride: Numbers = (),
    padding: Numbers = (),
    dilation: Numbers = (),
    layout: str = "NHWC",
) -> Value:
    """Return x [n, ..., c] with each channel convolved with its own filters w [..., c, m].

    Channel i makes the channels i * m ... (i + 1) * m - 1. With layout="NCHW", x is [n, c, ...] and w [c * m, 1, ...],
    as in PyTorch.
    """
    if _is_channels_first(x, layout):
        groups = size_known(x.shape[1], "the number of channels")
        return conv(x, w, stride=stride, padding=padding, dilation=dilation, groups=groups, layout=layout)
    require(w.rank == x.rank, f"w has {w.rank} axes and x {x.rank}; both need the same number")
    *window, channels, count = w.shape
    channels, count = size_known(channels, "the number of channels"), size_known(count, "the number of windows")
    filters = reshape(w, shape=(*window, 1, channels * count))
    return conv(x, filters, stride=stride, padding=padding, dilation=dilation, groups=channels)


@spelled
def max_pool(
    x: Value,
    *,
    window: Numbers,
    stride: Numbers = (),
    padding: Numbers = (),
    dilation: Numbers = (),
    ceil_mode: bool = False,
    layout: str = "NHWC",
) -> Value:
    """Return the maximum of x in each window over one, two or three axes; `stride` defaults to `window`.

    Padding never wins, and the gradient goes to the first of equal maxima. With `ceil_mode`, windows that reach beyond
    the last edge count if they start before it. A window that covers padding only is refused.
    """
    if _is_channels_first(x, layout):
        y = max_pool(_last(x), window=window, stride=stride, padding=padding, dilation=dilation, ceil_mode=ceil_mode)
        return _first(y)
    window = _window_of(x, window)
    axes = len(window)
    dilation = _numbers("dilation", dilation, axes, 1)
    stride = _numbers("stride", window if stride == () else stride, axes, 1)
    edges = _edges(padding, axes)
    if ceil_mode:
        edges = _with_ceil(x, _spans(window, dilation), stride, edges)
    if any(step != 1 for step in dilation):
        return _dilated_max(x, window, stride, edges, dilation)
    return _pooled(x, lambda x, w, s, p: max_pool2d(x, window=w, stride=s, padding=p), window, stride, edges)


@spelled
def avg_pool(
    x: Value,
    *,
    window: Numbers,
    stride: Numbers = (),
    padding: Numbers = (),
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    layout: str = "NHWC",
) -> Value:
    """Return the mean of x in each window over one, two or three axes; `stride` defaults to `window`.

    Padding counts as zeros with `count_include_pad`, which is off as in ONNX; PyTorch has it on. The elements that
    `ceil_mode` adds beyond the last edge never count.
    """
    if _is_channels_first(x, layout):
        y = avg_pool(
            _last(x),
            window=window,
            stride=stride,
            padding=padding,
            ceil_mode=ceil_mode,
            count_include_pad=count_include_pad,
        )
        return _first(y)
    window = _window_of(x, window)
    axes = len(window)
    stride = _numbers("stride", window if stride == () else stride, axes, 1)
    edges = _edges(padding, axes)
    wide = _with_ceil(x, window, stride, edges) if ceil_mode else edges
    if count_include_pad and any(edges):
        x = pad(x, before=(0, *edges[:axes], 0), after=(0, *edges[axes:], 0))
        wide = tuple(all_of_it - counted for all_of_it, counted in zip(wide, edges, strict=True))
    return _pooled(x, lambda x, w, s, p: avg_pool2d(x, window=w, stride=s, padding=p), window, stride, wide)


@spelled
def lp_pool(
    x: Value,
    *,
    p: float = 2.0,
    window: Numbers,
    stride: Numbers = (),
    padding: Numbers = (),
    ceil_mode: bool = False,
    layout: str = "NHWC",
) -> Value:
    """Return the p-norm of x in each window, (sum of |x| ** p) ** (1 / p); padding adds nothing.

    With `ceil_mode`, windows reach beyond the last edge as those of max_pool do, and sum the elements inside. PyTorch
    scales that sum by the size of the window divided by the size of its part inside.
    """
    require(p > 0, f"p={p} is not positive")
    if _is_channels_first(x, layout):
        y = lp_pool(_last(x), p=p, window=window, stride=stride, padding=padding, ceil_mode=ceil_mode)
        return _first(y)
    window = _window_of(x, window)
    axes = len(window)
    edges = _edges(padding, axes)
    if ceil_mode:
        edges = _with_ceil(x, window, _numbers("stride", window if stride == () else stride, axes, 1), edges)
    means = avg_pool(pow(abs(x), p), window=window, stride=stride, padding=edges, count_include_pad=True)
    return pow(means * math.prod(window), 1 / p)


@spelled
def global_avg_pool(x: Value, *, layout: str = "NHWC") -> Value:
    """Return the mean of each channel over all axes but batch and channels, which keep the extent 1."""
    return mean(x, axis=_places(x, layout), keepdims=True)


@spelled
def global_max_pool(x: Value, *, layout: str = "NHWC") -> Value:
    """Return the maximum of each channel over all axes but batch and channels, which keep the extent 1."""
    return max(x, axis=_places(x, layout), keepdims=True)


@spelled
def adaptive_avg_pool(x: Value, *, size: Numbers, layout: str = "NHWC") -> Value:
    """Return the means of size[i] windows per axis, the j-th from floor(j * n / size) to ceil((j + 1) * n / size)."""
    if _is_channels_first(x, layout):
        return _first(adaptive_avg_pool(_last(x), size=size))
    return _adapted(x, size, lambda x, window: avg_pool(x, window=window))


@spelled
def adaptive_max_pool(x: Value, *, size: Numbers, layout: str = "NHWC") -> Value:
    """Return the maxima of size[i] windows along each axis, which are those of adaptive_avg_pool."""
    if _is_channels_first(x, layout):
        return _first(adaptive_max_pool(_last(x), size=size))
    return _adapted(x, size, lambda x, window: max_pool(x, window=window))


def _conv_volume(x: Value, w: Value, stride: Many, edges: Many, dilation: Many, groups: int) -> Value:
    """Return a convolution of volumes as one of images: depth under the window becomes channels.

    The planes of a volume lie below one another in the image. Positions where the window covers two planes are computed
    and left out.
    """
    n, *sizes, channels = (x.shape[0], *(size_known(extent, "an extent of a volume") for extent in x.shape[1:]))
    *window, depth, made = (size_known(extent, "an extent of the filter") for extent in w.shape)
    require(groups > 0 and channels == depth * groups, f"x has {channels} channels, w expects {depth * groups}")
    spans = _spans(tuple(window), dilation)
    wide = [size + edges[i] + edges[i + 3] for i, size in enumerate(sizes)]
    for span, size in zip(spans, wide, strict=True):
        require(span <= size, f"the window spans {span} of an extent that is {size} with padding")
    planes, rows, columns = ((a - b) // s + 1 for a, b, s in zip(wide, spans, stride, strict=True))
    more = -wide[1] % stride[1]  # so every plane starts at a window position
    height = wide[1] + more
    x = pad(x, before=(0, *edges[:3], 0), after=(0, edges[3], edges[4] + more, edges[5], 0))
    x = reshape(x, shape=(*x.shape[:-1], groups, depth))
    starts = [i * dilation[0] for i in range(window[0])]
    under = [x[:, start : start + stride[0] * (planes - 1) + 1 : stride[0]] for start in starts]
    image = reshape(concat(*under, axis=-1), shape=(n, planes * height, wide[2], window[0] * channels))
    filters = reshape(transpose(w, axis=(1, 2, 0, 3, 4)), shape=(*window[1:], window[0] * depth, made))
    y = conv2d(image, filters, stride=stride[1:], dilation=dilation[1:], groups=groups)
    below = planes * (height // stride[1]) - size_known(y.shape[1], "a height")
    y = pad(y, before=(0,) * 4, after=(0, below, 0, 0))
    return reshape(y, shape=(n, planes, height // stride[1], columns, made))[:, :, :rows]


def _pooled(x: Value, pool: Pool, window: Many, stride: Many, edges: Many) -> Value:
    """Return the pooling over any number of axes; volumes pool each plane first, then the depth."""
    axes = _axes_of(x)
    if axes < 3:
        attributes = _as_image_attributes(stride, edges, (1,) * axes)
        y = pool(_as_image(x), (1,) * (2 - axes) + window, attributes["stride"], attributes["padding"])
        return _as_rank(y, axes)
    n, depth, height, width, channels = x.shape
    depth, channels = size_known(depth, "the depth"), size_known(channels, "the number of channels")
    planes = reshape(transpose(x, axis=(0, 2, 3, 1, 4)), shape=(n, height, width, depth * channels))
    planes = pool(planes, window[1:], stride[1:], (*edges[1:3], *edges[4:]))
    rows, columns = (size_known(extent, "an extent of a volume") for extent in planes.shape[1:3])
    back = transpose(reshape(planes, shape=(n, rows, columns, depth, channels)), axis=(0, 3, 1, 2, 4))
    deep = pool(
        reshape(back, shape=(n, depth, rows * columns, channels)),
        (window[0], 1),
        (stride[0], 1),
        (edges[0], 0, edges[3], 0),
    )
    return reshape(deep, shape=(n, deep.shape[1], rows, columns, channels))


def _dilated_max(x: Value, window: Many, stride: Many, edges: Many, dilation: Many) -> Value:
    """Return the maximum along each axis of the elements under the taps of the window; the first of equal ones."""
    axes = _axes_of(x)
    spans = _spans(window, dilation)
    fits = all(edge < spans[i % axes] for i, edge in enumerate(edges))
    require(fits, f"padding {edges} is not smaller than {spans}, which the window {window} spans")
    inside = [(edges[i], edges[i] + size_known(x.shape[i + 1], "a pooled extent")) for i in range(axes)]
    x = pad(x, before=(0, *edges[:axes], 0), after=(0, *edges[axes:], 0), value=-math.inf)
    for axis, (count, step, gap, span) in enumerate(zip(window, stride, dilation, spans, strict=True), 1):
        size = size_known(x.shape[axis], "a pooled extent")
        require(span <= size, f"the window spans {span} of an extent that is {size} with padding")
        places = (size - span) // step + 1
        for place in range(places):
            starts = range(place * step, place * step + span, gap)
            some = any(inside[axis - 1][0] <= start < inside[axis - 1][1] for start in starts)
            require(some, f"the window {window} sees nothing but padding at place {place} of axis {axis}")
        y = None
        for tap in range(count):
            key: list[Index] = [slice(None)] * x.rank
            key[axis] = slice(tap * gap, tap * gap + step * (places - 1) + 1, step)
            seen = x[tuple(key)]
            y = seen if y is None else where(logical_or(seen > y, not_equal(seen, seen)), seen, y)
        x = x if y is None else y
    return x


def _adapted(x: Value, size: Numbers, pool: Callable[[Value, Many], Value]) -> Value:
    axes = _axes_of(x)
    size = (size,) * axes if isinstance(size, int) else size
    require(len(size) == axes and min(size) > 0, f"size {size} is not {axes} positive numbers")
    for axis, count in enumerate(size):
        extent = size_known(x.shape[axis + 1], "a pooled extent")
        require(extent > 0, f"axis {axis + 1} has no elements")
        if extent % count == 0:
            x = pool(x, tuple(extent // count if i == axis else 1 for i in range(axes)))
            continue
        parts: list[Value] = []
        for place in range(count):
            first, last = place * extent // count, -(-(place + 1) * extent // count)
            key: list[Index] = [slice(None)] * x.rank
            key[axis + 1] = slice(first, last)
            parts.append(pool(x[tuple(key)], tuple(last - first if i == axis else 1 for i in range(axes))))
        x = concat(*parts, axis=axis + 1)
    return x


def _with_ceil(x: Value, spans: Many, stride: Many, edges: Many) -> Many:
    """Return the edges, enlarged for one more window after each axis if it starts before the last padding."""
    axes = len(spans)
    after: list[int] = []
    for i, (span, step) in enumerate(zip(spans, stride, strict=True)):
        size = size_known(x.shape[i + 1], "a pooled extent")
        free = size + edges[i] + edges[i + axes] - span
        count = -(-free // step) + 1
        if (count - 1) * step >= size + edges[i]:
            count -= 1
        after.append(edges[i + axes] + (count - 1) * step - free if (count - 1) * step > free else edges[i + axes])
    return (*edges[:axes], *after)


def _edges(padding: Numbers, axes: int) -> Many:
    padding = (padding,) * axes if isinstance(padding, int) else padding
    padding = padding or (0,) * axes
    require(
        len(padding) in (axes, 2 * axes) and min(padding) >= 0,
        f"padding {padding} is not {axes} or {2 * axes} numbers from 0",
    )
    return padding if len(padding) == 2 * axes else padding * 2


def _numbers(name: str, numbers: Numbers, axes: int, least: int) -> Many:
    numbers = (numbers,) * axes if isinstance(numbers, int) else numbers
    numbers = numbers or (least,) * axes
    require(len(numbers) == axes and min(numbers) >= least, f"{name} {numbers} is not {axes} numbers from {least}")
    return numbers


def _spans(window: Many, dilation: Many) -> Many:
    return tuple(gap * (count - 1) + 1 for count, gap in zip(window, dilation, strict=True))


def _as_image_attributes(stride: Many, edges: Many, dilation: Many) -> dict[str, Many]:
    """Return the attributes for images; a signal is an image of one row."""
    if len(stride) == 2:
        return dict(stride=stride, padding=edges, dilation=dilation)
    return dict(stride=(1, *stride), padding=(0, edges[0], 0, edges[1]), dilation=(1, *dilation))


def _as_image(x: Value) -> Value:
    return x if x.rank == 4 else reshape(x, shape=(x.shape[0], 1, *x.shape[1:]))


def _as_rank(y: Value, axes: int) -> Value:
    return y if axes == 2 else reshape(y, shape=(y.shape[0], *y.shape[2:]))


def _axes_of(x: Value) -> int:
    require(3 <= x.rank <= 5, f"x has {x.rank} axes; it needs one to three between batch and channels")
    return x.rank - 2


def _window_of(x: Value, window: Numbers) -> Many:
    axes = _axes_of(x)
    window = (window,) * axes if isinstance(window, int) else window
    require(len(window) == axes, f"window has {len(window)} numbers; x has {axes} axes to pool")
    return window


def _require_axes(x: Value, axes: int) -> None:
    require(x.rank == axes + 2, f"x has {x.rank} axes, not {axes + 2}; conv takes any number")


def _places(x: Value, layout: str) -> tuple[int, ...]:
    first = 2 if _is_channels_first(x, layout) else 1
    return tuple(range(first, first + _axes_of(x)))


def _is_channels_first(x: Value, layout: str) -> bool:
    require(layout in ("NHWC", "NCHW"), f"layout={layout!r} is not 'NHWC' or 'NCHW'")
    _axes_of(x)
    return layout == "NCHW"


def _last(x: Value) -> Value:
    return transpose(x, axis=(0, *range(2, x.rank), 1))


def _first(x: Value) -> Value:
    return transpose(x, axis=(0, x.rank - 1, *range(1, x.rank - 1)))


def _filters_last(w: Value) -> Value:
    return transpose(w, axis=(*range(2, w.rank), 1, 0))
