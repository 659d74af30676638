"""Floats of four and eight bits, which float32 carries and which are rounded where a node makes them."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from registry import Value, ops

EXPONENT: Final = 0x7F800000
"""The bits of the exponent of a float32."""


class Format(NamedTuple):
    """A format of floats.

    Attributes:
        digits: bits of the fraction.
        least: the exponent of the smallest normal number.
        largest: the largest finite number.
        beyond: what a number above it becomes unless it saturates.
        has_signed_zero: False if there is one zero alone.
    """

    digits: int
    least: int
    largest: float
    beyond: float
    has_signed_zero: bool = True


FORMATS: Final = {
    "float8e4m3fn": Format(3, -6, 448.0, np.nan),
    "float8e4m3fnuz": Format(3, -7, 240.0, np.nan, False),
    "float8e5m2": Format(2, -14, 57344.0, np.inf),
    "float8e5m2fnuz": Format(2, -15, 57344.0, np.nan, False),
    "float4e2m1": Format(1, 0, 6.0, 6.0),
}
"""Formats by ONNX's names. Micikevicius et al., 2022; Noune et al., 2022; Open Compute Project, 2023."""


def rounded(v: Value, dtype: str, *, saturates: bool = True) -> Value:
    """Return float32 numbers rounded to the nearest ones of a format, ties to even, as float32."""
    kind = FORMATS[dtype]
    power = ops.bitcast(ops.bitwise_and(ops.bitcast(v), EXPONENT))
    step = ops.maximum(power, 2.0**kind.least) * 2.0**-kind.digits
    y = ops.where(ops.isinf(v), v, ops.round(v / step) * step)
    if kind.beyond == kind.largest:
        y = ops.where(ops.isnan(v), 0.0, y)  # there is no NaN
    if saturates or kind.beyond == kind.largest:
        y = ops.clip(y, -kind.largest, kind.largest)
    else:
        over = v * 0.0 + kind.beyond if np.isnan(kind.beyond) else y * kind.beyond
        y = ops.where(ops.abs(y) > kind.largest, over, y)
    return y if kind.has_signed_zero else ops.where(ops.equal(y, 0.0), 0.0, y)
