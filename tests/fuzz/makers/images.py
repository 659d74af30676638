"""Calls of convolution, pooling, windows and resizing."""

from __future__ import annotations

from typing import Any

from fuzz.drawing import Draw
from fuzz.makers.linear import requantised
from fuzz.makers.table import maker


def numbers(d: Draw, axes: int, low: int, high: int) -> tuple[int, ...]:
    return tuple(d.int(low, high) for _ in range(axes))


def sliding(
    d: Draw, axes: int, *, ends: int = 1, most: tuple[int, ...] | None = None
) -> tuple[list[int], dict[str, Any]]:
    """The extents of an image, and a window that fits it: stride, padding for `ends` ends and dilation."""
    window, stride, dilation = numbers(d, axes, 1, 3), numbers(d, axes, 1, 3), numbers(d, axes, 1, 2)
    if d.chance(0.5):
        dilation = (1,) * axes
    limits = most or tuple(w for w in window)
    padding = tuple(d.int(0, min(2, limits[i % axes])) if d.chance(0.5) else 0 for i in range(axes * ends))
    both = [padding[i] + padding[(i + axes) % len(padding)] for i in range(axes)]
    spans = [dilation[i] * (window[i] - 1) + 1 for i in range(axes)]
    extents = [max(1, spans[i] - both[i]) + d.int(0, 3 if axes < 3 else 1) for i in range(axes)]
    return extents, {"window": window, "stride": stride, "padding": padding, "dilation": dilation}


@maker("conv2d", "conv2d_input_gradient", "conv2d_filter_gradient")
def conv2d(d: Draw) -> None:
    extents, how = sliding(d, 2, ends=2)
    window = how.pop("window")
    groups = d.choice([1, 1, 2, 3])
    depth, made = d.choice([(1, 1), (1, 2), (2, 1), (2, 2)])
    n = d.size(1, 2)
    x = (n, *extents, depth * groups)
    w = (*window, depth, made * groups)
    both = [how["padding"][i] + how["padding"][i + 2] for i in range(2)]
    places = [
        (extents[i] + both[i] - how["dilation"][i] * (window[i] - 1) - 1) // how["stride"][i] + 1 for i in range(2)
    ]
    y = (n, *places, made * groups)
    match d.int(0, 5):
        case 0:
            d.call("conv2d_input_gradient", dy := d.tensor(y), d.tensor(w, dy.dtype), shape=x, groups=groups, **how)
        case 1:
            d.call("conv2d_filter_gradient", a := d.tensor(x), d.tensor(y, a.dtype), shape=w, groups=groups, **how)
        case _:
            d.call("conv2d", a := d.tensor(x), d.tensor(w, a.dtype), groups=groups, **how)


@maker("integer_conv2d")
def integer_conv2d(d: Draw) -> None:
    extents, how = sliding(d, 2, ends=2)
    window, groups = how.pop("window"), d.choice([1, 1, 2, 3])
    depth, made = d.choice([(1, 1), (1, 2), (2, 1), (2, 2), (3, 5)])
    x, w = (d.size(1, 2), *extents, depth * groups), (*window, depth, made * groups)
    zeros = w[-1:] if d.chance(0.3) else ()
    operands = (d.fresh(shape, "uint8") for shape in (x, w, (), zeros))
    requantised(d, d.one("integer_conv2d", *operands, groups=groups, **how))


@maker("conv", "conv1d", "conv3d", "depthwise_conv")
def conv(d: Draw) -> None:
    name, axes = d.choice([("conv", 1), ("conv", 2), ("conv", 3), ("conv1d", 1), ("conv3d", 3), ("depthwise_conv", 2)])
    extents, how = sliding(d, axes, ends=d.int(1, 2))
    window = how.pop("window")
    groups, depth, made = d.choice([1, 1, 2]), d.int(1, 2), d.int(1, 2)
    first = d.chance(0.3)
    channels = depth * groups
    filters = (made * groups, depth, *window) if first else (*window, depth, made * groups)
    if name == "depthwise_conv":
        filters = (channels * made, 1, *window) if first else (*window, channels, made)
    else:
        how["groups"] = groups
    n = d.size(1, 2)
    x = d.tensor((n, channels, *extents) if first else (n, *extents, channels))
    d.call(name, x, d.tensor(filters, x.dtype), layout="NCHW" if first else "NHWC", **how)


@maker("conv_transpose")
def conv_transpose(d: Draw) -> None:
    axes = d.choice([1, 2, 2, 3])
    window, stride, dilation = numbers(d, axes, 1, 3), numbers(d, axes, 1, 2), numbers(d, axes, 1, 2)
    extents = [d.int(1, 3 if axes < 3 else 2) for _ in range(axes)]
    more = tuple(d.int(0, s - 1) for s in stride)
    padding = tuple(d.int(0, 1) if window[i] > 2 else 0 for i in range(axes))
    groups, depth, made = d.choice([1, 1, 2]), d.int(1, 2), d.int(1, 2)
    first = d.chance(0.3)
    n = d.size(1, 2)
    x = d.tensor((n, depth * groups, *extents) if first else (n, *extents, depth * groups))
    w = d.tensor((depth * groups, made, *window) if first else (*window, made, depth * groups), x.dtype)
    how = dict(stride=stride, padding=padding, output_padding=more, dilation=dilation, groups=groups)
    d.call("conv_transpose", x, w, layout="NCHW" if first else "NHWC", **how)


@maker("max_pool2d", "avg_pool2d", "max_pool2d_input_gradient", "max_pool2d_select", "avg_pool2d_input_gradient")
def pool2d(d: Draw) -> None:
    extents, how = sliding(d, 2, ends=2)
    window, padding, stride = how["window"], how["padding"], how["stride"]
    how = dict(window=window, stride=stride, padding=tuple(min(p, window[i % 2] - 1) for i, p in enumerate(padding)))
    both = [how["padding"][i] + how["padding"][i + 2] for i in range(2)]
    extents = [max(extents[i], window[i] - both[i]) for i in range(2)]
    places = [(extents[i] + both[i] - window[i]) // stride[i] + 1 for i in range(2)]
    n, c = d.size(1, 2), d.size(1, 2)
    x, y = (n, *extents, c), (n, *places, c)
    match d.int(0, 7):
        case 0:
            d.call("max_pool2d_input_gradient", a := d.tensor(x), d.tensor(y, a.dtype), **how)
        case 1:
            d.call("max_pool2d_select", a := d.tensor(x), a if d.chance(0.2) else d.tensor(x, a.dtype), **how)
        case 2:
            d.call("avg_pool2d_input_gradient", d.tensor(y), shape=x, count_include_pad=d.chance(0.5), **how)
        case 3 | 4:
            d.call("avg_pool2d", d.tensor(x), count_include_pad=d.chance(0.5), **how)
        case _:
            d.call("max_pool2d", d.tensor(x), **how)


@maker("max_pool", "avg_pool", "lp_pool")
def pool(d: Draw) -> None:
    axes = d.choice([1, 2, 2, 3])
    name = d.choice(["max_pool", "max_pool", "avg_pool", "lp_pool"])
    window = numbers(d, axes, 1, 3)
    stride = numbers(d, axes, 1, 3) if d.chance(0.8) else ()
    dilation = numbers(d, axes, 1, 2) if name == "max_pool" and d.chance(0.5) else (1,) * axes
    padding = tuple(d.int(0, w // 2) if d.chance(0.5) else 0 for w in window) if name != "lp_pool" else (0,) * axes
    extents = [dilation[i] * (window[i] - 1) + 1 + d.int(0, 3 if axes < 3 else 1) for i in range(axes)]
    first = d.chance(0.3)
    n, c = d.size(1, 2), d.size(1, 2)
    x = d.tensor((n, c, *extents) if first else (n, *extents, c), kind="positive" if name == "lp_pool" else "normal")
    how: dict[str, Any] = dict(window=window, stride=stride, padding=padding, ceil_mode=d.chance(0.5))
    if name == "max_pool":
        how["dilation"] = dilation
    elif name == "avg_pool":
        how["count_include_pad"] = d.chance(0.5)
    else:
        how["p"] = d.choice([1.0, 2.0, 3.0, 1.5])
    d.call(name, x, layout="NCHW" if first else "NHWC", **how)


@maker("global_avg_pool", "global_max_pool", "adaptive_avg_pool", "adaptive_max_pool")
def pool_all(d: Draw) -> None:
    axes = d.int(1, 3)
    first = d.chance(0.3)
    extents = numbers(d, axes, 1, 4 if axes < 3 else 2)
    n, c = d.size(1, 2), d.size(1, 2)
    x = d.tensor((n, c, *extents) if first else (n, *extents, c))
    name = d.choice(["global_avg_pool", "global_max_pool", "adaptive_avg_pool", "adaptive_max_pool"])
    size = {} if name.startswith("global") else {"size": tuple(d.int(1, extent) for extent in extents)}
    d.call(name, x, layout="NCHW" if first else "NHWC", **size)


@maker("unfold", "fold")
def unfold(d: Draw) -> None:
    extents, how = sliding(d, 2, ends=2)
    n, c = d.size(1, 2), d.int(1, 2)
    shape = (n, *extents, c)
    both = [how["padding"][i] + how["padding"][i + 2] for i in range(2)]
    window, dilation = how["window"], how["dilation"]
    places = [(extents[i] + both[i] - dilation[i] * (window[i] - 1) - 1) // how["stride"][i] + 1 for i in range(2)]
    if d.chance(0.5):
        d.call("unfold", d.tensor(shape), **how)
    else:
        d.call("fold", d.tensor((n, *places, window[0] * window[1] * c)), shape=shape, **how)


COORDINATES = ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"]


@maker("resize", "upsample")
def resize(d: Draw) -> None:
    axes = d.int(1, 2)
    x = d.tensor((d.size(1, 2), *numbers(d, axes, 1, 4), d.size(1, 2)))
    mode = d.choice(["nearest", "linear", "cubic"])
    coordinates = d.choice(COORDINATES)
    if d.chance(0.3):
        d.call("upsample", x, factors=numbers(d, axes, 1, 2), mode=mode, coordinates=coordinates)
        return
    nearest = d.choice(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
    d.call("resize", x, size=numbers(d, axes, 1, 5), mode=mode, coordinates=coordinates, nearest_mode=nearest)


@maker("grid_sample")
def grid_sample(d: Draw) -> None:
    n = d.int(1, 2)
    axes = d.choice([2, 2, 3])
    x = d.tensor((n, *numbers(d, axes, 2, 4), d.int(1, 2)))
    grid = d.tensor((n, *numbers(d, axes, 1, 3), axes), x.dtype)
    padding = d.choice(["zeros", "border", "reflection"])
    mode = d.choice(["nearest", "linear", "cubic"] if axes == 2 else ["nearest", "linear"])
    d.call("grid_sample", x, grid, mode=mode, padding_mode=padding, align_corners=d.chance(0.5))


@maker("deform_conv2d")
def deform_conv2d(d: Draw) -> None:
    n, groups, offset_groups = d.int(1, 2), d.int(1, 2), d.int(1, 2)
    rows, columns = numbers(d, 2, 1, 2)
    h, w = numbers(d, 2, 2, 3)
    x = d.tensor((n, h, w, 2 * d.int(1, 2)))
    filters = d.tensor((rows, columns, x.shape[3] // groups, 2), x.dtype)
    padding = d.int(0, 1)
    grid = h + 2 * padding - rows + 1, w + 2 * padding - columns + 1
    taps = offset_groups * rows * columns
    more = [d.tensor((n, *grid, taps), x.dtype)] if d.chance(0.5) else []
    offset = d.tensor((n, *grid, 2 * taps), x.dtype)
    d.call("deform_conv2d", x, filters, offset, *more, padding=padding, groups=groups, offset_groups=offset_groups)


@maker("random_flip", "random_crop", "random_colour", "random_noise", "random_cutout", "mixup")
def augmented(d: Draw) -> None:
    name = d.choice(["random_flip", "random_crop", "random_colour", "random_noise", "random_cutout", "mixup"])
    x = d.tensor((d.int(1, 3), d.int(1, 4), d.int(1, 4), d.choice([1, 3])))
    match name:
        case "random_flip":
            d.call(name, x, axis=d.choice([1, 2, (1, 2)]), probability=d.choice([0.0, 0.5, 1.0]))
        case "random_crop":
            d.call(name, x, padding=d.choice([0, 1, (2, 1)]), value=d.choice([0.0, 1.0]))
        case "random_colour":
            strengths = {"saturation": d.choice([0.0, 0.5])} if x.shape[-1] == 3 else {}
            d.call(name, x, brightness=d.choice([0.0, 0.25]), contrast=d.choice([0.0, 0.5]), **strengths)
        case "random_noise":
            d.call(name, x, deviation=d.choice([0.0, 0.5]))
        case "random_cutout":
            d.call(name, x, size=d.choice([1, 2, (1, 3)]), value=d.choice([0.0, 1.0]))
        case _:
            d.call(name, x, d.tensor((x.shape[0], d.int(1, 3)), x.dtype), alpha=d.choice([0.5, 1.0]))
