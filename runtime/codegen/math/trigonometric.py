"""sin, cos, tan: polynomials of the rest of an angle after reduction by quarter turns."""

from __future__ import annotations

from typing import Final

from runtime.codegen.ir import Value
from runtime.codegen.ir.words import fma, where
from runtime.codegen.math.polynomial import polynomial
from runtime.codegen.math.quarter_turns import reduced

AFTER_SINE: Final = {
    32: (-0.16666655, 0.008332178, -0.00019517221),
    64: (
        -0.16666666666666632,
        0.00833333333332241,
        -0.00019841269829805276,
        2.7557313691041756e-06,
        -2.5050757977108868e-08,
        1.5896787550385356e-10,
    ),
}
"""(sin(r) / r - 1) / r**2 in powers of r**2, for sizes of r up to pi / 4."""

AFTER_COSINE: Final = {
    32: (0.041666657, -0.0013887731, 2.4477114e-05),
    64: (
        0.041666666666666644,
        -0.0013888888888882057,
        2.480158729441564e-05,
        -2.755731576306384e-07,
        2.087591237238312e-09,
        -1.136928076360692e-11,
    ),
}
"""(cos(r) - 1 + r**2 / 2) / r**4, likewise."""


def sin(x: Value) -> Value:
    """Return the sine of angles of any size; at most 1.4 and 2.1 ulp."""
    rest, quarters = reduced(x)
    sine, cosine = near_zero(rest)
    y = where((quarters & 1).equal(0), sine, cosine)
    y = where((quarters & 2).equal(0), y, -y)
    return where(x.equal(0), x, y)


def cos(x: Value) -> Value:
    """Return the cosine of angles of any size; at most 1.4 and 2.1 ulp."""
    rest, quarters = reduced(x)
    sine, cosine = near_zero(rest)
    y = where((quarters & 1).equal(0), cosine, sine)
    return where(((quarters + 1) & 2).equal(0), y, -y)


def tan(x: Value) -> Value:
    """Return the tangent of angles of any size; at most 2.7 and 4.3 ulp."""
    rest, quarters = reduced(x)
    sine, cosine = near_zero(rest)
    is_even = (quarters & 1).equal(0)
    y = where(is_even, sine, -cosine) / where(is_even, cosine, sine)
    return where(x.equal(0), x, y)


def near_zero(r: Value) -> tuple[Value, Value]:
    """Return sine and cosine of angles up to an eighth of a turn."""
    z = r * r
    sine = fma(r * z, polynomial(z, AFTER_SINE[r.type.bits]), r)
    cosine = fma(z * z, polynomial(z, AFTER_COSINE[r.type.bits]), fma(z, -0.5, 1.0))
    return sine, cosine
