"""erf: a polynomial near 0, and 1 - exp(-g) with a polynomial g beyond; erfc: exp(-x * x) times a smooth factor."""

from __future__ import annotations

from typing import Final

from runtime.codegen.ir import Value
from runtime.codegen.ir.words import absolute, copysign, fma, minimum, where
from runtime.codegen.math.exponential import exp
from runtime.codegen.math.pairs import product_of
from runtime.codegen.math.polynomial import polynomial

CENTRE_POLYNOMIAL: Final = {
    32: (0.12837917, -0.37612635, 0.11283702, -0.026859699, 0.0052017057, -0.00081496855, 8.397281e-05),
    64: (
        0.12837916709551256,
        -0.3761263890318355,
        0.11283791670945252,
        -0.026866170643276125,
        0.005223977607423092,
        -0.0008548325989694213,
        0.00012055295320816539,
        -1.4924744676123467e-05,
        1.6447517905844336e-06,
        -1.6209178121161903e-07,
        1.3722987551709718e-08,
        -7.801212724343664e-10,
    ),
}
"""erf(x) / x - 1 in powers of x**2."""

TAIL_POLYNOMIAL: Final = {
    32: (
        -0.00017587311,
        1.1295208,
        0.63333464,
        0.108293936,
        -0.025128616,
        0.0041746395,
        -0.00043521821,
        2.116185e-05,
    ),
    64: (
        1.7650508885115245e-07,
        1.1283773354844813,
        0.636628579388733,
        0.10274663753403693,
        -0.01907620104207257,
        -0.0002844581527429534,
        0.0017747102720314018,
        -0.0006472896961879269,
        4.9842538064845366e-05,
        6.716054574774505e-05,
        -4.343176866467189e-05,
        1.588270470294708e-05,
        -4.1331941993714946e-06,
        8.046221449535007e-07,
        -1.1746997572838483e-07,
        1.2549017292261343e-08,
        -9.286323666710576e-10,
        4.2586597689223584e-11,
        -9.11922457167616e-13,
    ),
}
"""-log(erfc(x)) in powers of x."""

MAX_POLYNOMIAL_ARGUMENT: Final = {32: 0.921875, 64: 1.0}
SATURATED_ARGUMENT: Final = {32: 4.1, 64: 6.0}
"""erf is 1 from here on."""

SCALED_QUOTIENT: Final = (
    (1.0, 1.238427, 0.73162156, 0.22922713, 0.032798275),
    (1.0, 2.3668067, 2.4022677, 1.3254012, 0.4063209, 0.05813273),
)
"""exp(x * x) * erfc(x) of float32, a quotient of polynomials in x."""

SCALED_POLYNOMIAL: Final = (
    1.2329951186255526,
    -0.13962111684056253,
    0.015379652102619651,
    0.06809705425469528,
    -0.10103906603629931,
    0.0937328349982576,
    -0.06633036581232585,
    0.037167515538957425,
    -0.01619773405658818,
    0.005031969965024348,
    -0.0007577732967668423,
    -0.00019925662595221067,
    0.00015062171338025537,
    -2.4399442273335293e-05,
    -1.122215651475496e-05,
    5.710201040254411e-06,
    2.9411715279102536e-07,
    -8.259798193489276e-07,
    7.415180060410717e-08,
    1.1035232404119531e-07,
    -1.749663315591125e-08,
    -1.408452027844966e-08,
    1.6838786240218872e-09,
    1.202085083974723e-09,
)
"""(1 + 2 * x) * exp(x * x) * erfc(x) of float64 in powers of (x - 4) / (x + 4)."""

VANISHED_ARGUMENT: Final = {32: 10.5, 64: 27.3}
"""erfc is 0 from here on."""


def erf(x: Value) -> Value:
    """Return the error function; at most 1.4 and 1.5 ulp."""
    size = x.type.bits
    t = minimum(absolute(x), SATURATED_ARGUMENT[size])
    near = fma(x, polynomial(x * x, CENTRE_POLYNOMIAL[size]), x)
    far = 1 - exp(-polynomial(t, TAIL_POLYNOMIAL[size]))
    return where(t < MAX_POLYNOMIAL_ARGUMENT[size], near, copysign(far, x))


def erfc(x: Value) -> Value:
    """Return 1 - erf(x), which keeps its digits where it is small; at most 4.3 and 4.5 ulp.

    exp(-x * x) is written as in the gradient of gelu, so that both are computed once; a factor corrects its rounding.
    """
    t = minimum(absolute(x), VANISHED_ARGUMENT[x.type.bits])
    curve, (_, rest) = _scaled_erfc(t), product_of(t, t)
    y = exp(-(x * x)) * fma(curve, -rest, curve)
    return where(x < 0, 2 - y, y)


def _scaled_erfc(t: Value) -> Value:
    """Return exp(t * t) * erfc(t) for t from 0 on."""
    if t.type.bits == 32:
        above, below = (polynomial(t, part) for part in SCALED_QUOTIENT)
        return above / below
    return polynomial((t - 4) / (t + 4), SCALED_POLYNOMIAL) / (t + t + 1)
