"""Rounding, and division with a remainder.

NumPy divides floats with a remainder one by one. For float32 the kernels use float64, where a quotient below 2^29 is
rounded to the right integer and the remainder is exact. Larger quotients and infinities are left to NumPy. float64 has
no such method, and PyTorch's fused loop is five to ten times as fast.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from prograd_proto import TensorType
from runtime.engines.reference.kernels.chunks import blocks, vectors
from runtime.engines.reference.kernels.pointwise import EITHER, ONLY
from runtime.kernel import Array, elementwise, kernel
from runtime.row_rules import pointwise

MOST = 2.0**29

Write = Callable[[Array, Array, Array, Array, Array], None]
"""Function that writes the result from both operands, the integer quotient and the remainder."""

elementwise("floor", np.floor, in_place=ONLY)
elementwise("ceil", np.ceil, in_place=ONLY)
elementwise("round", np.rint, in_place=ONLY)
elementwise("trunc", np.trunc, in_place=ONLY)


def division_scratch(out: TensorType) -> list[TensorType]:
    return vectors(out, *["float64"] * 3) if out.dtype == "float32" else []


@kernel(scratch=division_scratch, in_place=EITHER, rows=pointwise)
def floor_div(a: Array, b: Array, *, out: Array, scratch: list[Array] | tuple[Array, ...] = ()) -> None:
    by_parts(np.floor_divide, np.floor, write_quotient, a, b, out, scratch)


@kernel(scratch=division_scratch, in_place=EITHER, rows=pointwise)
def remainder(a: Array, b: Array, *, out: Array, scratch: list[Array] | tuple[Array, ...] = ()) -> None:
    by_parts(np.remainder, np.floor, write_with_sign_of_b, a, b, out, scratch)


@kernel(scratch=division_scratch, in_place=EITHER, rows=pointwise)
def fmod(a: Array, b: Array, *, out: Array, scratch: list[Array] | tuple[Array, ...] = ()) -> None:
    by_parts(np.fmod, np.trunc, write_with_sign_of_a, a, b, out, scratch)


def by_parts(
    ufunc: np.ufunc,
    round: np.ufunc,
    write: Write,
    a: Array,
    b: Array,
    out: Array,
    scratch: list[Array] | tuple[Array, ...],
) -> None:
    """Compute the ufunc; for float32 from the integer part of the quotient and the remainder."""
    if not scratch:
        ufunc(a, b, out)
        return
    for x, y, to, wide, whole, rest in blocks([a, b], out, scratch):
        np.copyto(wide, x)
        np.copyto(rest, y)
        np.divide(wide, rest, whole)
        round(whole, whole)
        np.multiply(whole, rest, rest)
        np.subtract(wide, rest, rest)
        np.absolute(whole, wide)
        if np.maximum.reduce(wide, axis=None, initial=0.0) < MOST and np.isfinite(np.add.reduce(rest, axis=None)):
            write(x, y, whole, rest, to)
        else:
            ufunc(x, y, to)


def write_quotient(a: Array, b: Array, whole: Array, rest: Array, out: Array) -> None:
    np.copyto(out, whole, "same_kind")


def write_with_sign_of_a(a: Array, b: Array, whole: Array, rest: Array, out: Array) -> None:
    np.copysign(rest, a, out)


def write_with_sign_of_b(a: Array, b: Array, whole: Array, rest: Array, out: Array) -> None:
    np.copysign(rest, b, out)
