"""Resampling of images."""

from __future__ import annotations

from typing import Any, Final

from compiler.errors import CompileError
from compiler.frontends.arranged import Arranged, plain
from compiler.frontends.channels import first, last
from compiler.frontends.torch.operators.call import Call, Mapping
from registry import ops


def _resized(mode: str, coordinates: str, nearest_mode: str = "floor", *, antialias: bool = False) -> Mapping:
    def mapped(call: Call, x: Arranged, size: Any, *rest: Any) -> Arranged:
        """Return images of the result's size; behind `align_corners` there are factors, in a list or as numbers."""
        corners = bool(rest) and isinstance(rest[0], bool) and rest[0]
        if corners and antialias:
            raise CompileError("antialias with align_corners is not imported")
        given = [f for part in rest if not isinstance(part, bool) for f in (part if isinstance(part, list) else [part])]
        return first(
            ops.resize(
                last(x),
                size=tuple(extent.known() for extent in call.shape[2:]),
                mode=mode,
                coordinates="align_corners" if corners else coordinates,
                nearest_mode=nearest_mode,
                cubic_coefficient=-0.5 if antialias else -0.75,
                factors=tuple(map(float, given)) if given and None not in given else (),
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


_NEAREST = _resized("nearest", "asymmetric")
_EXACT = _resized("nearest", "half_pixel", "round_prefer_ceil")

OPERATORS: Final[dict[str, Mapping]] = {
    "aten.grid_sampler_2d.default": _sampled,
    "aten.grid_sampler_3d.default": _sampled,
} | {
    f"aten.{name}.{form}": mapping
    for form in ("vec", "default")
    for name, mapping in {
        **{f"upsample_nearest{n}d": _NEAREST for n in (1, 2, 3)},
        **{f"_upsample_nearest_exact{n}d": _EXACT for n in (1, 2, 3)},
        "upsample_linear1d": _resized("linear", "half_pixel"),
        "upsample_bilinear2d": _resized("linear", "half_pixel"),
        "upsample_trilinear3d": _resized("linear", "half_pixel"),
        "upsample_bicubic2d": _resized("cubic", "half_pixel"),
        "_upsample_bilinear2d_aa": _resized("linear", "half_pixel", antialias=True),
        "_upsample_bicubic2d_aa": _resized("cubic", "half_pixel", antialias=True),
    }.items()
}
