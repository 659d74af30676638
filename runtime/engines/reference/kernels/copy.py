"""Kernels that copy elements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prograd_proto import TensorType
from prograd_proto.dtypes import FLOATS, HALVES, INTEGERS, DTypeName
from runtime.engines.reference.kernels.chunks import chunks, vectors
from runtime.kernel import Array, kernel
from runtime.row_rules import pointwise


def cast_scratch(x: TensorType, dtype: DTypeName) -> list[TensorType]:
    if dtype in INTEGERS and x.dtype in FLOATS | HALVES:
        return vectors(x, "bool", *(["float32"] if x.dtype == "bfloat16" else []))
    if (x.dtype == "bfloat16") == (dtype == "bfloat16"):
        return []
    return vectors(x, *(["float32", "bool", "bool", "int32"] if dtype == "bfloat16" else ["float32"]))


@kernel(scratch=cast_scratch, rows=pointwise)
def cast(x: Array, *, dtype: DTypeName, out: Array, scratch: Sequence[Array] = ()) -> None:
    if not scratch:
        np.copyto(out, x, casting="unsafe")
    elif dtype in INTEGERS:
        to_integers(x, out, scratch)
    elif dtype == "bfloat16":
        narrow(x, out, scratch)
    else:
        widen(x, out, scratch)


def widen(bits: Array, out: Array, scratch: Sequence[Array]) -> None:
    """Convert the bits of bfloat16, which are the upper half of a float32."""
    for part, y, single in chunks([bits, out], scratch):
        whole = single.view(np.uint32)
        np.copyto(whole, part)
        np.left_shift(whole, 16, whole)
        np.copyto(y, single, casting="unsafe")


def to_integers(x: Array, out: Array, scratch: Sequence[Array]) -> None:
    """Cast floats towards zero: to the nearest integer in range where they lie outside, and NaN to 0."""
    info = np.iinfo(out.dtype)
    for part, y, mask, *single in chunks([x, out], scratch):
        numbers = part
        if single:
            widen(part, single[0], [single[0]])
            [numbers] = single
        np.copyto(y, numbers, casting="unsafe")  # the result for numbers outside the range depends on the CPU
        for compare, bound, nearest in (
            (np.greater_equal, info.max + 1, info.max),
            (np.less_equal, info.min, info.min),
        ):
            compare(numbers, np.array(bound, numbers.dtype), mask)
            np.copyto(y, nearest, where=mask)
        np.isnan(numbers, mask)
        np.copyto(y, 0, where=mask)


def narrow(x: Array, bits: Array, scratch: Sequence[Array]) -> None:
    """Convert to the bits of bfloat16, rounded to nearest even; every NaN becomes the quiet NaN of its sign."""
    for part, y, single, is_off, is_beyond, work in chunks([x, bits], scratch):
        whole, rounded = single.view(np.uint32), work.view(np.uint32)
        np.copyto(single, part, casting="unsafe")
        if part.dtype in WIDER:
            truncate_oddly(part, single, is_off, is_beyond)
        np.right_shift(whole, 16, rounded)
        np.bitwise_and(rounded, 1, rounded)
        np.add(rounded, 0x7FFF, rounded)  # carries if the lower half is above a half, or is a half after an odd digit
        np.add(rounded, whole, rounded)
        np.right_shift(rounded, 16, rounded)
        np.isnan(single, is_off)
        np.right_shift(whole, 16, whole)
        np.bitwise_and(whole, 0x8000, whole)
        np.bitwise_or(whole, 0x7FC0, whole)
        np.copyto(rounded, whole, where=is_off)
        np.copyto(y, rounded, casting="unsafe")


WIDER = [np.dtype(name) for name in ("float64", "int32", "int64")]
"""Dtypes with numbers that float32 does not have."""


def truncate_oddly(x: Array, single: Array, is_off: Array, is_beyond: Array) -> None:
    """Replace `single` by the adjacent odd float32 where it is not x, so that a second rounding equals that of x.

    The method is Boldo and Melquiond's, 2005.
    """
    whole = single.view(np.uint32)
    np.not_equal(single, x, is_off)
    np.greater(single, x, is_beyond)
    np.not_equal(is_beyond, np.signbit(single), is_beyond)
    np.logical_and(is_beyond, is_off, is_beyond)
    np.subtract(whole, is_beyond, whole)  # one step towards 0
    np.bitwise_or(whole, is_off, whole)


def fill(out: Array, value: float) -> None:
    """Fill an array as kernels see it, where bfloat16 is bits."""
    if out.dtype != np.uint16:
        out.fill(value)
        return
    bits = np.zeros(1, np.uint16)
    vectors = (np.zeros(1, name) for name in ("float32", "bool", "bool", "int32"))
    narrow(np.full(1, value), bits, list(vectors))
    out.fill(bits[0])


@kernel(view=True, rows=pointwise)
def identity(x: Array, *, out: Array) -> None:
    np.copyto(out, x)


@kernel(view=True, rows=pointwise)
def stop_gradient(x: Array, *, out: Array) -> None:
    np.copyto(out, x)


@kernel(rows=pointwise)
def bitcast(x: Array, *, out: Array) -> None:
    np.copyto(out.view(x.dtype), x)
