"""Resampling of images."""

# pyright: basic
# PyTorch is imported by name and has no types here, nor have the lambdas of a table.

from __future__ import annotations

from typing import Any, Final

from compiler.frontends.arranged import Arranged
from compiler.frontends.channels import first, last
from compiler.frontends.torch.operators.call import Call, Mapping
from registry import ops


def _resized(mode: str, coordinates: str, nearest_mode: str = "floor") -> Mapping:
    def mapped(call: Call, x: Arranged, size: Any, *rest: Any) -> Arranged:
        """Return images of the result's size; `align_corners` stands before the factors."""
        corners = bool(rest) and isinstance(rest[0], bool) and rest[0]
        sizes = tuple(extent.number for extent in call.shape[2:])
        kind = "align_corners" if corners else coordinates
        return first(ops.resize(last(x), size=sizes, mode=mode, coordinates=kind, nearest_mode=nearest_mode))

    return mapped


_NEAREST = _resized("nearest", "asymmetric")
_EXACT = _resized("nearest", "half_pixel", "round_prefer_ceil")

OPERATORS: Final[dict[str, Mapping]] = {
    f"aten.{name}.{form}": mapping
    for form in ("vec", "default")
    for name, mapping in {
        **{f"upsample_nearest{n}d": _NEAREST for n in (1, 2, 3)},
        **{f"_upsample_nearest_exact{n}d": _EXACT for n in (1, 2, 3)},
        "upsample_linear1d": _resized("linear", "half_pixel"),
        "upsample_bilinear2d": _resized("linear", "half_pixel"),
        "upsample_trilinear3d": _resized("linear", "half_pixel"),
        "upsample_bicubic2d": _resized("cubic", "half_pixel"),
    }.items()
}
