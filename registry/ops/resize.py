"""Resampling of images: resize on a regular grid, grid_sample at positions that are data.

Both are composed of other operators: the elements that a result needs are gathered tap by tap and weighted.
"""

from __future__ import annotations

import builtins
import struct
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import chain, product
from math import ceil as round_up
from math import floor as round_down
from math import inf, prod

from prograd_proto import program_pb2 as pb
from prograd_proto.dtypes import NUMBERS
from prograd_proto.result_types.shapes import normal_axis, require_equal_dtypes, require_float, size_known
from prograd_proto.result_types.windows import require_image
from registry.errors import require
from registry.ops.activation import hard_tanh
from registry.ops.arrange import unsqueeze
from registry.ops.copy import cast
from registry.ops.einsum import einsum
from registry.ops.fill import constant
from registry.ops.index import gather
from registry.ops.pointwise import abs, clip, greater, logical_and, where
from registry.ops.rounding import floor, remainder, round
from registry.ops.scatter import gather_nd
from registry.ops.shape import reshape
from registry.spelled import spelled
from registry.spellings import Axis, Numbers, as_tuple
from registry.value import Value

Taps = list[tuple[list[int], list[float]]]
"""For each tap, the element that every result reads and its weight."""

COORDINATES: dict[str, Callable[[int, int, int, Fraction], Fraction]] = {
    "half_pixel": lambda i, old, new, step: (i + Fraction(1, 2)) * step - Fraction(1, 2),
    "pytorch_half_pixel": lambda i, old, new, step: (
        (i + Fraction(1, 2)) * step - Fraction(1, 2) if new > 1 else Fraction(0)
    ),
    "align_corners": lambda i, old, new, step: Fraction(i * (old - 1), new - 1) if new > 1 else Fraction(0),
    "asymmetric": lambda i, old, new, step: i * step,
}
"""Functions from (element i, extents old and new, old elements for each new one) to positions, by ONNX's names."""

NEAREST: dict[str, Callable[[Fraction], int]] = {
    "round_prefer_floor": lambda at: round_up(at - Fraction(1, 2)),
    "round_prefer_ceil": lambda at: round_down(at + Fraction(1, 2)),
    "floor": round_down,
    "ceil": round_up,
}
"""Functions from a position to its nearest element, by ONNX's names."""


@spelled
def resize(
    x: Value,
    *,
    size: Numbers,
    axis: Axis = (),
    mode: str = "nearest",
    coordinates: str = "half_pixel",
    nearest_mode: str = "round_prefer_floor",
    cubic_coefficient: float = -0.75,
    factors: Sequence[float] = (),
    antialias: bool = False,
) -> Value:
    """Return x resampled to size[i] elements along axis[i]: nearest, linear or cubic.

    `axis` defaults to all but batch and channels, which are first and last. Beyond an end the outermost element
    repeats. `coordinates` and `nearest_mode` have ONNX's names (coordinate_transformation_mode). PyTorch's "nearest" is
    asymmetric with floor, its "nearest-exact" is half_pixel with round_prefer_ceil, and the others are half_pixel or
    align_corners. New elements are 1 / factors[i] old ones apart, by default the quotient of the extents.

    With `antialias`, the kernel of a tensor that shrinks grows by the same factor, and weights beyond the ends are left
    out, as in PyTorch and Pillow, whose cubic coefficient is -0.5.
    """
    require_float(x)
    size, axes = as_tuple(size), as_tuple(axis) or tuple(builtins.range(1, x.rank - 1))
    require(len(size) == len(axes), f"size has {len(size)} numbers for {len(axes)} axes")
    known = coordinates in COORDINATES and nearest_mode in NEAREST and mode in ("nearest", "linear", "cubic")
    require(known, f"mode={mode!r}, coordinates={coordinates!r}, nearest_mode={nearest_mode!r} are not all known")
    require(not factors or len(factors) == len(axes), f"there are {len(factors)} factors for {len(axes)} axes")
    require(builtins.all(0 < factor < inf for factor in factors), f"factors={tuple(factors)} are not all positive")
    is_smooth = antialias and mode in ("linear", "cubic") and coordinates.endswith("half_pixel")
    require(is_smooth or not antialias, f"antialias needs linear or cubic at half_pixel, not {mode} at {coordinates}")
    for i, (each, new) in enumerate(zip(axes, size, strict=True)):
        each = normal_axis(each, x.rank)
        old = size_known(x.shape[each], "a resized extent")
        require(old > 0 and new > 0, f"axis {each} has {old} elements and would have {new}; both must be positive")
        step = 1 / Fraction(factors[i]) if factors else Fraction(old, new)
        places = [COORDINATES[coordinates](k, old, new, step) for k in builtins.range(new)]
        if antialias:
            x = _smoothed(x, each, [_smooth_row(at, old, max(step, 1), mode, cubic_coefficient) for at in places])
        else:
            x = _weighted(x, each, _taps(places, old, mode, nearest_mode, cubic_coefficient))
    return x


@spelled
def upsample(
    x: Value,
    *,
    factors: Numbers,
    mode: str = "nearest",
    coordinates: str = "half_pixel",
) -> Value:
    """Return x [n, ..., c] with factors[i] times as many elements along each axis between n and c."""
    factors = (factors,) * (x.rank - 2) if isinstance(factors, int) else factors
    require(len(factors) == x.rank - 2, f"there are {len(factors)} factors for {x.rank - 2} axes")
    sizes = (size_known(extent, "a resized extent") for extent in x.shape[1:-1])
    size = tuple(factor * extent for factor, extent in zip(factors, sizes, strict=True))
    return resize(x, size=size, mode=mode, coordinates=coordinates)


@spelled
def grid_sample(
    x: Value,
    grid: Value,
    *,
    mode: str = "linear",
    padding_mode: str = "zeros",
    align_corners: bool = False,
) -> Value:
    """Return images x [n, h, w, c] sampled at grid [n, rows, columns, 2], from -1 to 1 across and down.

    Volumes x [n, d, h, w, c] are sampled at grid [n, depths, rows, columns, 3]: across, down and to the back.
    -1 and 1 are the edges of the image, or with `align_corners` the centers of the outermost pixels. `mode` is nearest,
    linear or cubic with the coefficient -0.75. Beyond the image, `padding_mode` chooses zeros, the pixel at the border,
    or the image's reflection, as in ONNX and PyTorch. Jaderberg et al., 2015.
    """
    if x.rank != 5:
        require_image(x)
    require_equal_dtypes(x.type, grid.type)
    require_float(x)
    known = mode in ("nearest", "linear", "cubic") and padding_mode in ("zeros", "border", "reflection")
    require(known, f"mode={mode!r} and padding_mode={padding_mode!r} are not both known")
    axes = x.rank - 2
    fits = grid.rank == x.rank and grid.shape[0] == x.shape[0] and grid.shape[-1] == axes
    wanted = "rows, columns, 2" if axes == 2 else "depths, rows, columns, 3"
    require(fits, f"grid is {grid.type}, not [{x.shape[0]}, {wanted}]")
    require(axes == 2 or mode != "cubic", "mode='cubic' needs images, not volumes")
    sizes = [size_known(extent, "an extent of an image") for extent in x.shape[1:-1]]
    require(min(sizes) > 0, "the images have no pixels")
    taps = [
        _grid_taps(grid[..., axes - 1 - axis], size, mode, padding_mode, align_corners)
        for axis, size in enumerate(sizes)
    ]
    pixels = reshape(x, shape=(x.shape[0], prod(sizes), x.shape[-1]))
    total = None
    for chosen in product(*taps):
        [(place, weight), *more] = chosen
        for size, (own, own_weight) in zip(sizes[1:], more, strict=True):
            place, weight = place * size + own, weight * own_weight
        part = gather_nd(pixels, unsqueeze(place, axis=(-1,)), batch_axes=1) * unsqueeze(weight, axis=(-1,))
        total = part if total is None else total + part
    return x if total is None else total


def _taps(places: list[Fraction], old: int, mode: str, nearest_mode: str, a: float) -> Taps:
    """Return the taps of each position over `old` elements."""
    if mode == "nearest":
        return [([_inside(NEAREST[nearest_mode](at), old) for at in places], [])]
    lows = [round_down(at) for at in places]
    parts = [float(at - low) for at, low in zip(places, lows, strict=True)]
    if mode == "linear":
        weights = [[1 - t for t in parts], parts]
        return [([_inside(low + i, old) for low in lows], weights[i]) for i in (0, 1)]
    distances = [(i, [builtins.abs(t - i) for t in parts]) for i in (-1, 0, 1, 2)]
    return [([_inside(low + i, old) for low in lows], [_cubic(d, a) for d in far]) for i, far in distances]


def _inside(at: int, size: int) -> int:
    return min(builtins.max(at, 0), size - 1)


def _cubic(d: float, a: float) -> float:
    """Return the cubic weight of an element at the distance d, below 2. Keys, 1981."""
    if d <= 1:
        return ((a + 2) * d - (a + 3)) * d * d + 1
    return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a


def _smooth_row(at: Fraction, old: int, stretch: Fraction | int, mode: str, a: float) -> list[float]:
    """Return the weights of `old` elements in a result at a position, whose sum is 1, by the stretched kernel."""
    reach = 1 if mode == "linear" else 2
    far = [float(builtins.abs(i - at) / stretch) for i in builtins.range(old)]
    row = [(1 - d if mode == "linear" else _cubic(d, a)) if d < reach else 0.0 for d in far]
    return [weight / sum(row) for weight in row]


def _smoothed(x: Value, axis: int, rows: list[list[float]]) -> Value:
    """Return the products of a matrix with an axis of x."""
    matrix = reshape(_vector(x, x.dtype, [*chain(*rows)]), shape=(len(rows), len(rows[0])))
    letters = "abcdefgh"[: x.rank]
    return einsum(f"{letters},z{letters[axis]}->{letters.replace(letters[axis], 'z')}", x, matrix)


def _weighted(x: Value, axis: int, taps: Taps) -> Value:
    """Return the sum over the taps of elements along an axis times their weights; no weights are ones."""
    total = x
    for number, (places, weights) in enumerate(taps):
        part = gather(x, _vector(x, "int64", places), axis=axis)
        if weights:
            part = part * reshape(_vector(x, x.dtype, weights), shape=(len(weights), *(1,) * (x.rank - 1 - axis)))
        total = total + part if number else part
    return total


def _vector(x: Value, dtype: str, numbers: list[int] | list[float]) -> Value:
    code = {"int64": "q", "float32": "f", "float64": "d"}[dtype]
    data = struct.pack(f"<{len(numbers)}{code}", *numbers)
    return constant.on(x.block)(value=pb.SmallTensor(dtype=NUMBERS[dtype], shape=[len(numbers)], data=data))


def _grid_taps(at: Value, size: int, mode: str, padding_mode: str, align_corners: bool) -> list[tuple[Value, Value]]:
    """Return for each tap along one axis the pixel that every position reads, and its weight."""
    at = (at + 1.0) * ((size - 1) / 2) if align_corners else ((at + 1.0) * size - 1.0) * 0.5
    first, last = (0.0, size - 1.0) if align_corners else (-0.5, size - 0.5)
    if mode != "cubic":  # whose pixels are looked up one by one beyond the image
        at = _back(at, first, last, size, padding_mode)
    if mode == "nearest":
        near = round(at)
        return [_tap(near, near * 0.0 + 1.0, size)]
    low = floor(at)
    part = at - low
    if mode == "linear":
        return [_tap(low, 1.0 - part, size), _tap(low + 1.0, part, size)]
    weights = [
        ((part * -0.75 + 1.5) * part - 0.75) * part,
        (part * 1.25 - 2.25) * part * part + 1.0,
        ((part * -1.25 + 1.5) * part + 0.75) * part,
        (part * 0.75 - 0.75) * part * part,
    ]
    pixels = [_back(low + float(i), first, last, size, padding_mode) for i in (-1, 0, 1, 2)]
    return [_tap(pixel, weight, size) for pixel, weight in zip(pixels, weights, strict=True)]


def _back(at: Value, first: float, last: float, size: int, padding_mode: str) -> Value:
    """Return positions beyond the image moved into it, unless they give zeros; no gradient flows at the ends."""
    if padding_mode == "zeros":
        return at
    if padding_mode == "reflection":
        span = last - first
        if span == 0:
            return at * 0.0
        turn = remainder(abs(at - first), 2 * span)
        at = where(greater(turn, span), 2 * span - turn, turn) + first
    return hard_tanh(at, min=0.0, max=size - 1.0)


def _tap(pixel: Value, weight: Value, size: int) -> tuple[Value, Value]:
    """Return a pixel's index within the image, and its weight, which is 0 beyond it."""
    within = logical_and(pixel >= 0.0, pixel <= size - 1.0)
    return cast(clip(pixel, 0.0, size - 1.0), dtype="int64"), where(within, weight, 0.0)
