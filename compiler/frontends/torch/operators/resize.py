"""Resampling of images."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from math import floor
from typing import Any, Final

from compiler.errors import CompileError
from compiler.frontends.arranged import Arranged, plain
from compiler.frontends.channels import first, last
from compiler.frontends.pieces import constants
from compiler.frontends.torch.operators.call import Call, Mapping
from prograd_proto.result_types.shapes import size_known
from registry import ops


def _nearest(offset: float) -> Mapping:
    """Return the mapping of nearest elements, at positions that PyTorch rounds to float32, after each operation."""

    def mapped(call: Call, x: Arranged, size: Any, *rest: Any) -> Arranged:
        y, factors = last(x), _factors(rest)
        for axis, extent in enumerate(call.shape[2:], 1):
            old, new = size_known(y.shape[axis], "a resized extent"), extent.known()
            step = _single(1 / factors[axis - 1] if factors else old / new)
            at = [_single(_single(_single((k + offset) * step) - offset) + offset) for k in range(new)]
            y = ops.gather(y, constants(call.block, [min(floor(each), old - 1) for each in at]), axis=axis)
        return first(y)

    return mapped


def _single(x: float) -> float:
    return struct.unpack("<f", struct.pack("<f", x))[0]


def _factors(rest: Sequence[Any]) -> tuple[float, ...]:
    """Return the factors behind the size and `align_corners`: in a list, or as numbers; () if there are none."""
    given = [f for part in rest if not isinstance(part, bool) for f in (part if isinstance(part, list) else [part])]
    return tuple(map(float, given)) if given and None not in given else ()


def _resized(mode: str, *, antialias: bool = False) -> Mapping:
    def mapped(call: Call, x: Arranged, size: Any, *rest: Any) -> Arranged:
        corners = bool(rest) and isinstance(rest[0], bool) and rest[0]
        if corners and antialias:
            raise CompileError("antialias with align_corners is not imported")
        return first(
            ops.resize(
                last(x),
                size=tuple(extent.known() for extent in call.shape[2:]),
                mode=mode,
                coordinates="align_corners" if corners else "half_pixel",
                cubic_coefficient=-0.5 if antialias else -0.75,
                factors=_factors(rest),
                antialias=antialias,
            )
        )

    return mapped


def _sampled(call: Call, x: Arranged, grid: Arranged, mode: int, padding: int, align_corners: bool) -> Arranged:
    y = ops.grid_sample(
        last(x),
        plain(grid),
        mode=("linear", "nearest", "cubic")[mode],
        padding_mode=("zeros", "border", "reflection")[padding],
        align_corners=align_corners,
    )
    return first(y)


OPERATORS: Final[dict[str, Mapping]] = {
    "aten.grid_sampler_2d.default": _sampled,
    "aten.grid_sampler_3d.default": _sampled,
} | {
    f"aten.{name}.{form}": mapping
    for form in ("vec", "default")
    for name, mapping in {
        **{f"upsample_nearest{n}d": _nearest(0.0) for n in (1, 2, 3)},
        **{f"_upsample_nearest_exact{n}d": _nearest(0.5) for n in (1, 2, 3)},
        "upsample_linear1d": _resized("linear"),
        "upsample_bilinear2d": _resized("linear"),
        "upsample_trilinear3d": _resized("linear"),
        "upsample_bicubic2d": _resized("cubic"),
        "_upsample_bilinear2d_aa": _resized("linear", antialias=True),
        "_upsample_bicubic2d_aa": _resized("cubic", antialias=True),
    }.items()
}
