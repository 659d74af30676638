"""Resampling of images and sampling at positions."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from compiler.errors import CompileError
from compiler.frontends.arranged import Arranged, arranged, pointwise, single
from compiler.frontends.channels import first, last
from compiler.frontends.extents import Extent
from compiler.frontends.onnx.node import Mapping, Node, as_float, cast, on_plain
from registry import Value, ops


def _resize(node: Node) -> Arranged:
    """Return a resized tensor: along each axis a product with a constant matrix, or a gather of nearest elements."""
    x = node.tensor(0)
    is_old = node.operator == "Upsample" or node.version < 11
    axes = [a % x.rank for a in node.attribute("axes") or range(x.rank)]
    old = [x.shape[axis] for axis in axes]
    scales, sizes, region = _targets(node, old, is_old)
    plan = _Plan(node, is_old)
    for i, axis in enumerate(axes):
        if sizes[i] is None or (old[i] == Extent(sizes[i]) and scales[i] == 1 and plan.coordinates != CROP):
            continue
        if old[i].symbols:
            raise CompileError(f"Resize of an axis with {old[i]} elements; bind {old[i].symbols[0]!r}")
        ends = None if region is None else (region[i], region[len(axes) + i])
        weights, outside = plan.weights(old[i].number, sizes[i], scales[i], ends)
        x = _weighted(node, x, axis, weights, plan.mode)
        if outside.any():
            mask = node.new(outside.reshape([-1 if k == axis else 1 for k in range(x.rank)]), "bool")
            x = pointwise(lambda m, v: ops.where(m, plan.outside, v), arranged(mask), x)
    return x


def _targets(node: Node, old: list[Extent], is_old: bool) -> tuple[list[float], list[Any], list[float] | None]:
    """Return the scale and the size of each axis, and the region that is resized; None where nothing changes."""
    if is_old:
        given = node.constant(1) if node.has(1) else node.attribute("scales")
        if given is None:  # opset 1
            given = [1.0, 1.0, node.attribute("height_scale"), node.attribute("width_scale")]
        scales, sizes, region = [float(s) for s in given], None, None
    else:
        crops = node.attribute("coordinate_transformation_mode") == CROP
        region = [float(r) for r in node.constant(1)] if node.has(1) and crops else None
        known = node.has(2) and node.shape(2) != (Extent(0),)
        scales = [float(s) for s in node.constant(2)] if known else None
        sizes = node.extents(3) if node.has(3) else None
    if sizes is not None:
        numbers = [None if a == b else b.known() for a, b in zip(old, sizes, strict=True)]
        ratios = [1.0 if n is None else n / a.number for n, a in zip(numbers, old, strict=True)]
        policy = node.attribute("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            asked = [b.number / a.number for a, b in zip(old, sizes, strict=True)]
            ratio = min(asked) if policy == "not_larger" else max(asked)
            ratios = [ratio] * len(old)
            numbers = [math.floor(ratio * a.number + 0.5) for a in old]
        return (
            ratios,
            [a.number if n is None and not a.symbols else n for a, n in zip(old, numbers, strict=True)],
            region,
        )
    if scales is None:
        raise CompileError("neither scales nor sizes are given")
    numbers = [None if a.symbols and s == 1 else scaled(a.number, s) for a, s in zip(old, scales, strict=True)]
    return scales, numbers, region


def scaled(extent: int, scale: float) -> int:
    """Return the extent of a result: floor(extent * scale), a product of float32 numbers as ONNX Runtime computes it.

    A scale of 0.7 is a little less in float32, and ten times as much is 7 only if the product is rounded.
    """
    return math.floor(np.float32(extent) * np.float32(scale))


CROP: Final = "tf_crop_and_resize"
"""The coordinates of a region of the image."""


COORDINATES: Final = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "asymmetric", "align_corners", CROP,
                      "tf_half_pixel_for_nn")  # fmt: skip
"""The rules from an index of the result to a position in the operand."""


HALF_TOLERANCE: Final = 1e-6
"""Distance from a half within which a position counts as one, as positions in float32 are rounded: ONNX Runtime's."""


class _Plan:
    """The attributes of a Resize.

    Attributes:
        mode: "nearest", "linear" or "cubic".
        coordinates: the rule from an index of the result to a position in the operand.
        outside: the value of elements beyond the image.
    """

    def __init__(self, node: Node, is_old: bool) -> None:
        self.mode = node.attribute("mode", "nearest")
        self.mode = "linear" if self.mode == "bilinear" else self.mode
        self.coordinates = "asymmetric" if is_old else node.attribute("coordinate_transformation_mode", "half_pixel")
        if self.coordinates not in COORDINATES:
            raise CompileError(
                f"coordinate_transformation_mode={self.coordinates!r} is none of {', '.join(COORDINATES)}"
            )
        self.nearest = "floor" if is_old else node.attribute("nearest_mode", "round_prefer_floor")
        self.smooth = bool(node.attribute("antialias", 0))
        self.excludes = bool(node.attribute("exclude_outside", 0))
        self.cubic = float(node.attribute("cubic_coeff_a", -0.75))
        self.outside = float(node.attribute("extrapolation_value", 0.0))

    def weights(self, old: int, new: int, scale: float, ends: tuple[float, float] | None) -> tuple[Any, Any]:
        """Return the matrix [new, old] of an axis, and which of its rows lie beyond the image."""
        made, outside = np.zeros((new, old)), np.zeros(new, bool)
        number = np.float32 if self.mode == "nearest" else float  # as ONNX Runtime, where it decides the element
        for row in range(new):
            at = self._position(number(row), old, new, number(scale), ends)
            outside[row] = self.coordinates == CROP and not 0 <= at <= old - 1
            if self.mode == "nearest":
                made[row, min(max(self._nearest(at), 0), old - 1)] = 1.0
                continue
            taps = self._taps(at, old, min(scale, 1.0) if self.smooth else 1.0)
            total = sum(weight for _, weight in taps)
            for place, weight in taps:
                made[row, place] += weight / total
        return made, outside

    def _position(self, row: Any, old: int, new: int, scale: Any, ends: tuple[float, float] | None) -> Any:
        """Return the position of a row, in the precision of `row` and `scale`."""
        length = scale * old
        match self.coordinates:
            case "pytorch_half_pixel" if new == 1:
                return 0.0
            case "half_pixel" | "pytorch_half_pixel":
                return (row + 0.5) / scale - 0.5
            case "half_pixel_symmetric":
                return old / 2 * (1 - new / length) + (row + 0.5) / scale - 0.5
            case "asymmetric":
                return row / scale
            case "align_corners":  # of the rows that there are, as ONNX Runtime and PyTorch do; not of scale * old
                return row * (old - 1) / (new - 1) if new != 1 else 0.0
            case "tf_crop_and_resize" if ends is not None:
                return _cropped(row, old, new, *ends)
            case _:  # tf_half_pixel_for_nn
                return (row + 0.5) / scale

    def _nearest(self, at: Any) -> int:
        below = math.floor(at)
        rest = at - below
        match self.nearest:
            case "round_prefer_floor":
                return below + int(rest > 0.5 + HALF_TOLERANCE)
            case "round_prefer_ceil":
                return below + int(rest >= 0.5 - HALF_TOLERANCE)
            case "ceil":
                return math.ceil(at)
            case _:
                return math.floor(at)

    def _taps(self, at: float, old: int, zoom: float) -> list[tuple[int, float]]:
        reach = (1 if self.mode == "linear" else 2) / zoom
        made: list[tuple[int, float]] = []
        for place in range(math.floor(at - reach), math.ceil(at + reach) + 1):
            weight = self._weight(abs((at - place) * zoom))
            if weight and not (self.excludes and not 0 <= place < old):
                made.append((min(max(place, 0), old - 1), weight))
        return made

    def _weight(self, d: float) -> float:
        a = self.cubic
        if self.mode == "linear":
            return max(0.0, 1.0 - d)
        if d <= 1:
            return ((a + 2) * d - (a + 3)) * d * d + 1
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a if d < 2 else 0.0


def _cropped(row: int, old: int, new: int, begin: float, end: float) -> float:
    if new == 1:
        return 0.5 * (begin + end) * (old - 1)
    return begin * (old - 1) + row * (end - begin) * (old - 1) / (new - 1)


def _weighted(node: Node, x: Arranged, axis: int, weights: Any, mode: str) -> Arranged:
    """Return the products of a matrix with an axis of the model."""
    x, [place] = single(x, [axis])
    v = x.value
    if mode == "nearest":
        y = ops.gather(v, node.new(weights.argmax(axis=1), "int64"), axis=place)
    else:
        order = [i for i in range(v.rank) if i != place] + [place]
        inverse = [order.index(i) for i in range(v.rank)]
        wide = ops.transpose(as_float(v), axis=tuple(order)) if v.rank > 1 else ops.reshape(as_float(v), shape=(1, -1))
        matrix = node.new(weights.T, wide.dtype)
        y = ops.matmul(wide, matrix)
        y = ops.transpose(y, axis=tuple(inverse)) if v.rank > 1 else ops.reshape(y, shape=(weights.shape[0],))
        y = cast(y, v.dtype)
    shape = [Extent(weights.shape[0]) if i == axis else extent for i, extent in enumerate(x.shape)]
    return Arranged(y, x.axes, tuple(shape))


def _grid_sample(node: Node) -> Arranged:
    x = node.tensor(0)
    if x.rank not in (4, 5):
        raise CompileError(f"GridSample over {x.rank - 2} axes, and prograd's grid_sample has two or three")
    mode = str(node.attribute("mode", "linear"))
    y = ops.grid_sample(
        last(x),
        node.value(1),
        mode={"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode),
        padding_mode=node.attribute("padding_mode", "zeros"),
        align_corners=bool(node.attribute("align_corners", 0)),
    )
    return first(y)


def _affine_grid(node: Node, theta: Value, size: Value) -> Value:
    sizes, corners = node.numbers(1), bool(node.attribute("align_corners", 0))
    lines = [np.linspace(-1, 1, n) if corners else (np.arange(n) * 2 + 1) / n - 1 for n in sizes[2:]]
    axes = np.meshgrid(*lines, indexing="ij")[::-1]
    base = np.stack([*axes, np.ones_like(axes[0])], axis=-1).reshape(1, -1, len(sizes) - 1)
    grid = ops.broadcast_to(node.new(base, theta.dtype), shape=(sizes[0], *base.shape[1:]))
    y = ops.matmul(grid, theta, transpose_b=True)
    return ops.reshape(y, shape=(sizes[0], *sizes[2:], len(sizes) - 2))


def _roi_align(node: Node, x: Value, rois: Value, batch: Value) -> Value:
    """Return means or maxima of bilinear samples in each bin of each region."""
    count, rows, columns = (node.size(axis) for axis in (1, 2, 3))
    regions = rois.shape[0]
    out = int(node.attribute("output_height", 1)), int(node.attribute("output_width", 1))
    taps = int(node.attribute("sampling_ratio", 0))
    if taps == 0:
        raise CompileError("RoiAlign with sampling_ratio=0 samples as often as its data says; set a number")
    default = "half_pixel" if node.version >= 16 else "output_half_pixel"
    shift = 0.5 if node.attribute("coordinate_transformation_mode", default) == "half_pixel" else 0.0
    corners = rois * float(node.attribute("spatial_scale", 1.0)) - shift
    left, top, right, bottom = (ops.reshape(corners[:, i : i + 1], shape=(regions, 1)) for i in range(4))
    width, height = right - left, bottom - top
    if not shift:
        width, height = ops.maximum(width, 1.0), ops.maximum(height, 1.0)

    def positions(begin: Value, extent: Value, bins: int, size: int) -> tuple[Value, Value, Value, Value]:
        inside = (np.arange(bins)[:, None] + (np.arange(taps)[None] + 0.5) / taps).reshape(1, -1) / bins
        at = begin + extent * node.new(inside, x.dtype)
        beyond = ops.logical_or(at < -1.0, at > float(size))
        at = ops.maximum(at, 0.0)
        low = ops.floor(at)
        end = low >= float(size - 1)
        low, high = (ops.where(end, float(size - 1), v) for v in (low, low + 1.0))
        return low, high, ops.where(end, 0.0, at - low), beyond

    y0, y1, fy, outside_y = positions(top, height, out[0], rows)
    x0, x1, fx, outside_x = positions(left, width, out[1], columns)
    shape = (regions, out[0] * taps, out[1] * taps)
    image = ops.transpose(x, axis=(0, 2, 3, 1))
    number = ops.broadcast_to(ops.reshape(cast(batch, "int64"), shape=(regions, 1, 1)), shape=shape)

    def down(v: Value) -> Value:
        return ops.reshape(v, shape=(regions, shape[1], 1))

    def across(v: Value) -> Value:
        return ops.reshape(v, shape=(regions, 1, shape[2]))

    def sample(row: Value, column: Value, weight: Value) -> Value:
        where = [ops.broadcast_to(cast(v, "int64"), shape=shape) for v in (down(row), across(column))]
        pixel = ops.gather_nd(image, ops.stack(number, *where, axis=-1))
        return pixel * ops.reshape(weight, shape=(*shape, 1))

    wy, wx = down(fy), across(fx)
    parts = [
        sample(y0, x0, (1.0 - wy) * (1.0 - wx)),
        sample(y0, x1, (1.0 - wy) * wx),
        sample(y1, x0, wy * (1.0 - wx)),
        sample(y1, x1, wy * wx),
    ]
    biggest = node.attribute("mode", "avg") == "max"
    whole = parts[0]
    for part in parts[1:]:
        whole = ops.maximum(whole, part) if biggest else whole + part
    dead = ops.reshape(ops.logical_or(down(outside_y), across(outside_x)), shape=(*shape, 1))
    whole = ops.reshape(ops.where(dead, 0.0, whole), shape=(regions, out[0], taps, out[1], taps, count))
    pooled = ops.max(whole, axis=(2, 4)) if biggest else ops.mean(whole, axis=(2, 4))
    return ops.transpose(pooled, axis=(0, 3, 1, 2))


IMPORTS: Final[dict[str, Mapping]] = {
    "Resize": _resize,
    "Upsample": _resize,
    "GridSample": _grid_sample,
    "AffineGrid": on_plain(_affine_grid),
    "RoiAlign": on_plain(_roi_align),
}
