"""Convolution, pooling, windows, resizing. PyTorch has channels first; there are transposes around everything."""

from __future__ import annotations

import itertools
import math

import numpy as np
import torch
from torch.nn import functional as F  # noqa: N812 - as everywhere

from fuzz.torch_ops.arrays import taken
from fuzz.torch_ops.layers import gradient
from fuzz.torch_ops.table import TORCH, spelled

torch.backends.mkldnn.set_flags(False)  # its convolutions of float32 with dilation read what nobody wrote

CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


def first(x):
    return x.movedim(-1, 1)


def last(x):
    return x.movedim(1, -1)


def filters_first(w):
    return w.movedim((-1, -2), (0, 1))


def edges(padding, axes):
    """Pairs of before and after for each axis."""
    padding = tuple(padding) or (0,) * axes
    both = padding * (2 * axes // len(padding))
    return list(zip(both[:axes], both[axes:], strict=True))


def padded(x, pairs, value=0.0):
    """Channels-first x with that value around."""
    flat = [n for pair in reversed(pairs) for n in pair]
    return F.pad(x, flat, value=value) if any(flat) else x


def many(numbers, axes):
    return tuple(numbers) if numbers else (1,) * axes


@spelled("conv", "conv1d", "conv3d", "conv2d")
def conv(x, w, *, stride=(), padding=(), dilation=(), groups=1, layout="NHWC"):
    axes = x.dim() - 2
    if layout == "NHWC":
        x, w = first(x), filters_first(w)
    x = padded(x, edges(padding, axes)).contiguous()
    y = CONV[axes](x, w.contiguous(), None, many(stride, axes), 0, many(dilation, axes), groups)
    return last(y) if layout == "NHWC" else y


@spelled("depthwise_conv")
def depthwise_conv(x, w, *, stride=(), padding=(), dilation=(), layout="NHWC"):
    if layout == "NHWC":
        w = w.reshape(*w.shape[:-2], 1, w.shape[-2] * w.shape[-1])
    groups = x.shape[-1] if layout == "NHWC" else x.shape[1]
    return conv(x, w, stride=stride, padding=padding, dilation=dilation, groups=groups, layout=layout)


@spelled("conv2d_input_gradient")
def conv2d_input_gradient(dy, w, *, shape, **how):
    x = torch.zeros(shape, dtype=dy.dtype, requires_grad=True)
    return gradient(lambda x: conv(x, w, **how), (x,), (dy,))[0]


@spelled("conv2d_filter_gradient")
def conv2d_filter_gradient(x, dy, *, shape, **how):
    w = torch.zeros(shape, dtype=dy.dtype, requires_grad=True)
    return gradient(lambda w: conv(x, w, **how), (w,), (dy,))[0]


@spelled("conv_transpose")
def conv_transpose(x, w, *, stride=(), padding=(), output_padding=(), dilation=(), groups=1, layout="NHWC"):
    axes = x.dim() - 2
    if layout == "NHWC":
        x, w = first(x), filters_first(w)
    one = tuple(padding) or (0,) * axes
    more = tuple(output_padding) or (0,) * axes
    y = TRANSPOSED[axes](x, w, None, many(stride, axes), one, more, groups, many(dilation, axes))
    return last(y) if layout == "NHWC" else y


def windows(shape, window, stride, pairs, dilation, counts=None):
    """For each place of the window the elements under it, by place in a flattened image; -1 is padding."""
    numbers = np.arange(math.prod(shape)).reshape(shape)
    more = [(0, (w - 1) * d + s) for w, d, s in zip(window, dilation, stride, strict=True)]  # beyond the last edge
    wide = np.pad(numbers, [(a, b + extra) for (a, b), (_, extra) in zip(pairs, more, strict=True)], constant_values=-1)
    if counts is None:
        counts = [
            (n + a + b - d * (w - 1) - 1) // s + 1
            for n, (a, b), d, w, s in zip(shape, pairs, dilation, window, stride, strict=True)
        ]
    made = np.empty((*counts, math.prod(window)), np.int64)
    for at in np.ndindex(*counts):
        cut = tuple(
            slice(i * s, i * s + d * (w - 1) + 1, d) for i, s, d, w in zip(at, stride, dilation, window, strict=True)
        )
        made[at] = wide[cut].reshape(-1)
    return made


def under(x, places, beyond):
    """Channels-first x under each place of the window, [n, c, ..., window]."""
    flat = x.flatten(2)
    known = torch.from_numpy(places)
    found = flat[:, :, known.clamp(min=0).reshape(-1)].reshape(*x.shape[:2], *places.shape)
    return torch.where(known >= 0, found, torch.as_tensor(beyond, dtype=x.dtype))


def ceiled(shape, window, stride, pairs, dilation):
    """Return the output extent of ceil mode: the last window begins before the end of the image and its padding."""
    counts = []
    for n, (a, b), d, w, s in zip(shape, pairs, dilation, window, stride, strict=True):
        count = -(-(n + a + b - d * (w - 1) - 1) // s) + 1
        counts.append(count - 1 if (count - 1) * s >= n + a else count)
    return counts


def pooled(x, window, stride, padding, dilation, ceil_mode, layout, beyond, reduce):
    axes = x.dim() - 2
    x = first(x) if layout == "NHWC" else x
    stride, dilation, pairs = tuple(stride) or tuple(window), many(dilation, axes), edges(padding, axes)
    counts = ceiled(x.shape[2:], window, stride, pairs, dilation) if ceil_mode else None
    places = windows(tuple(x.shape[2:]), window, stride, pairs, dilation, counts)
    y = reduce(under(x, places, beyond), places, pairs, tuple(x.shape[2:]), stride)
    return last(y) if layout == "NHWC" else y


@spelled("max_pool", "max_pool2d")
def max_pool(x, *, window, stride=(), padding=(), dilation=(), ceil_mode=False, layout="NHWC"):
    return pooled(x, window, stride, padding, dilation, ceil_mode, layout, -math.inf, lambda u, *_: u.max(-1).values)


def picked(x, z, how):
    """The elements of z where the maxima of x are."""
    places = windows(tuple(x.shape[1:3]), how["window"], how["stride"], edges(how.get("padding", ()), 2), (1, 1))
    at = under(first(x), places, -math.inf).max(-1).indices
    return last(torch.gather(under(first(z), places, 0.0), -1, at.unsqueeze(-1)).squeeze(-1))


@spelled("max_pool2d_select")
def max_pool2d_select(x, z, **how):
    return picked(x, z, how)


@spelled("max_pool2d_input_gradient")
def max_pool2d_input_gradient(x, dy, **how):
    z = torch.zeros_like(x, requires_grad=True)
    return gradient(lambda z: picked(x.detach(), z, how), (z,), (dy,))[0]


@spelled("avg_pool", "avg_pool2d")
def avg_pool(x, *, window, stride=(), padding=(), ceil_mode=False, count_include_pad=False, layout="NHWC"):
    def mean(u, places, pairs, shape, stride):
        wide = tuple(n + a + b for n, (a, b) in zip(shape, pairs, strict=True)) if count_include_pad else shape
        counted = windows(
            wide,
            window,
            stride,
            [(0, 0)] * len(shape) if count_include_pad else pairs,
            (1,) * len(shape),
            places.shape[:-1],
        )
        return u.sum(-1) / torch.from_numpy((counted >= 0).sum(-1)).to(u.dtype)

    return pooled(x, window, stride, padding, (), ceil_mode, layout, 0.0, mean)


@spelled("avg_pool2d_input_gradient")
def avg_pool2d_input_gradient(dy, *, shape, **how):
    x = torch.zeros(shape, dtype=dy.dtype, requires_grad=True)
    return gradient(lambda x: avg_pool(x, **how), (x,), (dy,))[0]


@spelled("lp_pool")
def lp_pool(x, *, p=2.0, window, stride=(), padding=(), ceil_mode=False, layout="NHWC"):
    def power(u, places, *_):
        there = torch.from_numpy(places >= 0).to(u.dtype)  # a power of 0 has no third derivative
        return (u.abs() ** p * there).sum(-1) ** (1 / p)

    return pooled(x, window, stride, padding, (), ceil_mode, layout, 1.0, power)


def inner(x, layout):
    return tuple(range(1, x.dim() - 1)) if layout == "NHWC" else tuple(range(2, x.dim()))


TORCH["global_avg_pool"] = lambda x, *, layout="NHWC": x.mean(inner(x, layout), keepdim=True)
TORCH["global_max_pool"] = lambda x, *, layout="NHWC": x.amax(inner(x, layout), keepdim=True)


def adaptive(names):
    def call(x, *, size, layout="NHWC"):
        x = first(x) if layout == "NHWC" else x
        y = names[x.dim() - 2](x, size)
        return last(y) if layout == "NHWC" else y

    return call


TORCH["adaptive_avg_pool"] = adaptive({1: F.adaptive_avg_pool1d, 2: F.adaptive_avg_pool2d, 3: F.adaptive_avg_pool3d})
TORCH["adaptive_max_pool"] = adaptive({1: F.adaptive_max_pool1d, 2: F.adaptive_max_pool2d, 3: F.adaptive_max_pool3d})


@spelled("unfold")
def unfold(x, *, window, stride=(1, 1), padding=(), dilation=(1, 1)):
    places = windows(tuple(x.shape[1:3]), window, stride, edges(padding, 2), dilation)
    found = under(first(x), places, 0.0 if x.dtype != torch.bool else False)  # [n, c, rows, columns, window]
    return found.permute(0, 2, 3, 4, 1).flatten(3)


@spelled("fold")
def fold(x, *, shape, **how):
    z = torch.zeros(shape, dtype=x.dtype, requires_grad=True)
    return gradient(lambda z: unfold(z, **how), (z,), (x,))[0]


def coordinate(i, old, new, how):
    match how:
        case "half_pixel":
            return (i + 0.5) * old / new - 0.5
        case "pytorch_half_pixel":
            return (i + 0.5) * old / new - 0.5 if new > 1 else 0.0
        case "align_corners":
            return i * (old - 1) / (new - 1) if new > 1 else 0.0
        case _:
            return i * old / new


def nearest_of(at, how):
    return {
        "round_prefer_floor": math.ceil(at - 0.5),
        "round_prefer_ceil": math.floor(at + 0.5),
        "floor": math.floor(at),
        "ceil": math.ceil(at),
    }[how]


def cubic(t, a=-0.75):
    """Keys' weights of the four neighbours."""
    near = lambda s: (a + 2) * s**3 - (a + 3) * s**2 + 1  # noqa: E731 - as in the paper
    far = lambda s: a * s**3 - 5 * a * s**2 + 8 * a * s - 4 * a  # noqa: E731 - likewise
    return [far(1 + t), near(t), near(1 - t), far(2 - t)]


@spelled("resize")
def resize(x, *, size, axis=(), mode="nearest", coordinates="half_pixel", nearest_mode="round_prefer_floor"):
    for each, new in zip(axis or range(1, x.dim() - 1), size, strict=True):
        old = x.shape[each]
        weights = np.zeros((new, old))
        for i in range(new):
            at = coordinate(i, old, new, coordinates)
            low = math.floor(at)
            taps = {"linear": {low: 1 - (at - low), low + 1: at - low}}.get(mode, {})
            if mode == "nearest":
                taps = {nearest_of(round(at, 9), nearest_mode): 1.0}
            if mode == "cubic":
                taps = dict(zip(range(low - 1, low + 3), cubic(at - low), strict=True))
            for place, weight in taps.items():
                weights[i, min(max(place, 0), old - 1)] += weight
        x = torch.tensordot(x, torch.from_numpy(weights).to(x.dtype), ([each], [1])).movedim(-1, each)
    return x


@spelled("upsample")
def upsample(x, *, factors, mode="nearest", coordinates="half_pixel"):
    size = tuple(n * f for n, f in zip(x.shape[1:-1], factors, strict=True))
    return resize(x, size=size, mode=mode, coordinates=coordinates)


def of_volumes(x, grid, mode, padding_mode, align_corners):
    """Sample volumes: the sum of eight corners, or the nearest voxel."""
    n, *sizes, _ = x.shape
    at = [unnormalised(grid[..., 2 - i], size, align_corners) for i, size in enumerate(sizes)]
    if padding_mode != "zeros":
        at = [within(a, size, padding_mode, align_corners) for a, size in zip(at, sizes, strict=True)]
    taps = [[(torch.round(a), torch.ones_like(a))] if mode == "nearest" else weighted(a, mode) for a in at]
    batch = torch.arange(n).reshape(n, 1, 1, 1)
    total = 0.0
    for corner in itertools.product(*taps):
        places = [place.detach() for place, _ in corner]
        inside = torch.ones_like(places[0], dtype=torch.bool)
        weight = torch.ones_like(places[0])
        for place, size, (_, own) in zip(places, sizes, corner, strict=True):
            inside, weight = inside & (place >= 0) & (place < size), weight * own
        rows = [p.clamp(0, size - 1).to(torch.int64) for p, size in zip(places, sizes, strict=True)]
        total = total + x[(batch, *rows)] * torch.where(inside, weight, torch.zeros_like(weight))[..., None]
    return total


@spelled("grid_sample")
def grid_sample(x, grid, *, mode="linear", padding_mode="zeros", align_corners=False):
    """PyTorch's own has one order of gradients: this is its definition again."""
    if x.ndim == 5:
        return of_volumes(x, grid, mode, padding_mode, align_corners)
    n, h, w, _ = x.shape
    xs, ys = (unnormalised(grid[..., i], extent, align_corners) for i, extent in ((0, w), (1, h)))
    if padding_mode != "zeros" and mode != "cubic":
        xs, ys = (within(at, extent, padding_mode, align_corners) for at, extent in ((xs, w), (ys, h)))
    if mode == "nearest":
        taps_x, taps_y = ([(torch.round(at), torch.ones_like(at))] for at in (xs, ys))
    else:
        taps_x, taps_y = (weighted(at, mode) for at in (xs, ys))
    batch = torch.arange(n).reshape(n, 1, 1)
    total = 0.0
    for row, weight_y in taps_y:
        for column, weight_x in taps_x:
            if padding_mode != "zeros" and mode == "cubic":
                row_, column_ = (
                    within(at.detach(), e, padding_mode, align_corners) for at, e in ((row, h), (column, w))
                )
            else:
                row_, column_ = row.detach(), column.detach()
            inside = (row_ >= 0) & (row_ < h) & (column_ >= 0) & (column_ < w)
            found = x[batch, row_.clamp(0, h - 1).long(), column_.clamp(0, w - 1).long()]
            total = total + torch.where(inside.unsqueeze(-1), found, 0.0) * (weight_x * weight_y).unsqueeze(-1)
    return total


def weighted(at, mode):
    low = torch.floor(at).detach()
    t = at - low
    if mode == "linear":
        return [(low, 1 - t), (low + 1, t)]
    return [(low + i - 1, weight) for i, weight in enumerate(cubic(t))]


def unnormalised(at, extent, align_corners):
    return (at + 1) / 2 * (extent - 1) if align_corners else ((at + 1) * extent - 1) / 2


def within(at, extent, padding_mode, align_corners):
    if padding_mode == "reflection":
        low, high = (0.0, extent - 1.0) if align_corners else (-0.5, extent - 0.5)
        if high <= low:
            return torch.zeros_like(at)
        span = high - low
        off = torch.abs(at - low)
        turns = torch.floor(off / span).detach()
        extra = off - turns * span
        at = torch.where(turns % 2 == 0, extra + low, span - extra + low)
    return torch.clamp(at, 0, extent - 1)


__all__ = ["taken"]
