"""Deformable convolution: a convolution whose taps lie at positions that are data."""

from __future__ import annotations

from prograd_proto.result_types.shapes import require_equal_dtypes, require_float, size_known
from prograd_proto.result_types.windows import require_image
from registry.errors import require
from registry.ops.arrange import stack, unsqueeze
from registry.ops.conv import conv2d
from registry.ops.copy import cast
from registry.ops.fill import full_like
from registry.ops.pointwise import clip, logical_and, where
from registry.ops.rounding import floor
from registry.ops.scan import cumsum
from registry.ops.scatter import gather_nd
from registry.ops.shape import reshape, transpose
from registry.spelled import spelled
from registry.spellings import Numbers, as_tuple
from registry.value import Value


@spelled
def deform_conv2d(
    x: Value,
    w: Value,
    offset: Value,
    mask: Value | None = None,
    *,
    stride: Numbers = 1,
    padding: Numbers = 0,
    dilation: Numbers = 1,
    groups: int = 1,
    offset_groups: int = 1,
) -> Value:
    """Return a convolution of images whose taps are moved by `offset` and weighted by `mask`. Zhu et al., 2019.

    x is [n, h, w, c] and the filters w are [rows, columns, c / groups, o], as in conv2d. `offset` is
    [n, oh, ow, offset_groups * rows * columns * 2]: for each group of channels and each tap, pixels down and across.
    `mask` has one number where `offset` has two. Taps between pixels are interpolated; pixels beyond the image are 0.
    `padding` is one number, one for each axis, or those before both axes and then those after.
    """
    require_image(x)
    require_float(x)
    require_equal_dtypes(x.type, offset.type)
    require(w.rank == 4 and w.dtype == x.dtype, f"w is {w.type}, not {x.dtype}[rows, columns, c / groups, o]")
    require(
        groups > 0 and offset_groups > 0, f"groups={groups} and offset_groups={offset_groups} are not both positive"
    )
    rows, columns = (size_known(extent, "an extent of a filter") for extent in w.shape[:2])
    sizes = [size_known(extent, "an extent of an image") for extent in x.shape[1:3]]
    channels, taps = size_known(x.shape[3], "the number of channels"), rows * columns
    (sy, sx), (dy, dx) = _two(stride), _two(dilation)
    before, after = _edges(padding)
    grid = [
        (size + before[i] + after[i] - (extent - 1) * step - 1) // jump + 1
        for i, (size, extent, step, jump) in enumerate(zip(sizes, (rows, columns), (dy, dx), (sy, sx), strict=True))
    ]
    wanted = (x.shape[0], *grid, offset_groups * taps * 2)
    require(offset.shape == wanted, f"offset is {offset.type}, and its shape has to be {list(wanted)}")
    require(channels % offset_groups == 0, f"{channels} channels do not divide into {offset_groups} groups of offsets")
    moved = reshape(offset, shape=(x.shape[0], *grid, offset_groups, taps, 2))
    row, column = _tap_numbers(moved[..., 0], columns)
    down = moved[..., 0] + _positions(moved[..., 0], 1, sy, -before[0]) + row * float(dy)
    across = moved[..., 1] + _positions(moved[..., 1], 2, sx, -before[1]) + column * float(dx)
    seen = _sampled(x, down, across, sizes, offset_groups)  # [n, oh, ow, offset groups, taps, channels of a group]
    if mask is not None:
        require(mask.shape == (*wanted[:3], offset_groups * taps), f"mask is {mask.type}, and offset {offset.type}")
        seen = seen * unsqueeze(reshape(mask, shape=down.shape), axis=(-1,))
    return _products(seen, w, channels, taps, groups)


def _two(numbers: Numbers) -> tuple[int, int]:
    given = as_tuple(numbers)
    require(len(given) in (1, 2), f"{list(given)} has {len(given)} numbers for two axes")
    return (given[0], given[-1])


def _edges(padding: Numbers) -> tuple[tuple[int, int], tuple[int, int]]:
    given = as_tuple(padding)
    if len(given) == 4:
        return (given[0], given[1]), (given[2], given[3])
    return _two(padding), _two(padding)


def _counted(x: Value, axis: int) -> Value:
    """Return 0, 1, 2 ... along an axis of x, with extent 1 along the others."""
    shape = tuple(extent if i == axis else 1 for i, extent in enumerate(x.shape))
    line = x[tuple(slice(None) if i == axis else slice(0, 1) for i in range(x.rank))]
    return cumsum(full_like(reshape(line, shape=shape), 1.0), axis=axis, exclusive=True)


def _positions(x: Value, axis: int, step: int, first: int) -> Value:
    """Return the first row or column of the window of each output pixel."""
    return _counted(x, axis) * float(step) + float(first)


def _tap_numbers(x: Value, columns: int) -> tuple[Value, Value]:
    """Return for each tap, along the last axis of x, its row and its column in the filter."""
    at = _counted(x, x.rank - 1)
    row = floor((at + 0.5) / float(columns))
    return row, at - row * float(columns)


def _sampled(x: Value, down: Value, across: Value, sizes: list[int], groups: int) -> Value:
    """Return the channels of each group at positions between pixels; beyond the image there is 0."""
    n, channels = x.shape[0], x.shape[3]
    assert isinstance(channels, int)
    pixels = reshape(x, shape=(n, sizes[0] * sizes[1], groups, channels // groups))
    group = cast(_counted(down, 3) + 0.0 * down, dtype="int64")
    low = floor(down), floor(across)
    parts = down - low[0], across - low[1]
    total = None
    for i in (0, 1):
        for j in (0, 1):
            at = low[0] + float(i), low[1] + float(j)
            inside = [logical_and(v >= 0.0, v <= size - 1.0) for v, size in zip(at, sizes, strict=True)]
            row, column = (cast(clip(v, 0.0, size - 1.0), dtype="int64") for v, size in zip(at, sizes, strict=True))
            weight = (parts[0] if i else 1.0 - parts[0]) * (parts[1] if j else 1.0 - parts[1])
            weight = where(logical_and(*inside), weight, 0.0)
            found = gather_nd(pixels, stack(row * sizes[1] + column, group, axis=-1), batch_axes=1)
            part = found * unsqueeze(weight, axis=(-1,))
            total = part if total is None else total + part
    assert total is not None
    return total


def _products(seen: Value, w: Value, channels: int, taps: int, groups: int) -> Value:
    """Return the sums of all taps and channels times the filters, as a convolution of one pixel."""
    n, rows, columns = seen.shape[:3]
    order = (0, 1, 2, 4, 3, 5)  # taps before channels
    flat = reshape(transpose(seen, axis=order), shape=(n, rows, columns, taps, groups, channels // groups))
    flat = reshape(transpose(flat, axis=order), shape=(n, rows, columns, taps * channels))
    return conv2d(flat, reshape(w, shape=(1, 1, taps * (channels // groups), w.shape[3])), groups=groups)
