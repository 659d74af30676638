"""The quantile function of the normal distribution, in float64.

Wichura, "Algorithm AS 241: the percentage points of the normal distribution", 1988; its coefficients, constant term
first.
"""

from __future__ import annotations

from typing import Final

from runtime.codegen.ir import Value
from runtime.codegen.ir.words import absolute, copysign, sqrt, where
from runtime.codegen.math.logarithm import log
from runtime.codegen.math.polynomial import polynomial

CENTRE_WIDTH: Final = 0.425
"""Distance from 1/2 up to which the first quotient applies; beyond, a quotient of the root of the logarithm does."""

NEAR_TOP: Final = (
    3.3871328727963665,
    133.14166789178438,
    1971.5909503065513,
    13731.69376550946,
    45921.95393154987,
    67265.7709270087,
    33430.57558358813,
    2509.0809287301227,
)
NEAR_BOTTOM: Final = (
    1.0,
    42.31333070160091,
    687.1870074920579,
    5394.196021424751,
    21213.794301586597,
    39307.89580009271,
    28729.085735721943,
    5226.495278852854,
)
FAR_TOP: Final = (
    1.4234371107496835,
    4.630337846156546,
    5.769497221460691,
    3.6478483247632045,
    1.2704582524523684,
    0.2417807251774506,
    0.022723844989269184,
    0.0007745450142783414,
)
FAR_BOTTOM: Final = (
    1.0,
    2.053191626637759,
    1.6763848301838038,
    0.6897673349851,
    0.14810397642748008,
    0.015198666563616457,
    0.0005475938084995345,
    1.0507500716444169e-09,
)


def normal_quantile(p: Value) -> Value:
    """Return the quantile of probabilities over 1e-11 from 0 and 1, within 1e-14 of the larger of 1 and its size."""
    q = p - 0.5
    square = CENTRE_WIDTH * CENTRE_WIDTH - q * q
    near = q * polynomial(square, NEAR_TOP) / polynomial(square, NEAR_BOTTOM)
    root = sqrt(-log(where(q < 0, p, 1 - p))) - 1.6
    far = polynomial(root, FAR_TOP) / polynomial(root, FAR_BOTTOM)
    return where(absolute(q) <= CENTRE_WIDTH, near, copysign(far, q))
