"""erf: a polynomial near 0, and 1 - exp(-g) farther out, where g is one too."""

from __future__ import annotations

from typing import Final

from runtime.engines.native.ir import Value
from runtime.engines.native.ir.words import absolute, copysign, fma, minimum, where
from runtime.engines.native.math.exponential import exp
from runtime.engines.native.math.polynomial import polynomial

NEAR: Final = {
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

FAR: Final = {
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

BORDER: Final = {32: 0.921875, 64: 1.0}
END: Final = {32: 4.1, 64: 6.0}
"""From here on erf is 1."""


def erf(x: Value) -> Value:
    """The error function; at most 1.4 and 1.5 ulp."""
    size = x.type.bits
    t = minimum(absolute(x), END[size])
    near = fma(x, polynomial(x * x, NEAR[size]), x)
    far = 1 - exp(-polynomial(t, FAR[size]))
    return where(t < BORDER[size], near, copysign(far, x))
