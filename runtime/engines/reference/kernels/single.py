"""Functions of float32 that NumPy computes element by element, made of those that it has for vector registers.

Each computes a function of a vector x into `out`, which may be x unless stated otherwise. The other arrays are scratch
of the same length. All are exact to a few roundings, also where the result is small, and correct at the ends.
"""

from __future__ import annotations

from math import pi

import numpy as np

from runtime.dtypes import Array
from runtime.engines.reference.kernels.chunks import quotient

PI, HALF_PI = np.array(pi, "float32"), np.array(pi / 2, "float32")
TINY = np.array(1e-45, "float32")
ATAN = (  # atan(x) / x, a quotient of polynomials in x * x, to 1e-9 below 1
    (0.00889566, 0.28614662, 1.12904597, 1.0),
    (0.05045679, 0.57360906, 1.46237918, 1.0),
)


def log1p(x: Array, out: Array, sum: Array, lost: Array) -> None:
    """Compute log(s) + (1 + x - s) / s for s = 1 + x as rounded; the correction is NaN at both ends of x."""
    np.add(x, 1, sum)
    np.subtract(sum, 1, lost)
    np.subtract(x, lost, lost)
    np.divide(lost, sum, lost)
    np.fmax(lost, -1, out=lost)
    np.log(sum, sum)
    np.add(sum, lost, sum)
    np.copysign(sum, x, out)  # keeps -0.0


def expm1(x: Array, out: Array, bend: Array, power: Array) -> None:
    """Compute expm1 as tanh(x / 2) * (exp(x) + 1)."""
    np.multiply(x, 0.5, bend)
    np.tanh(bend, bend)
    np.exp(x, power)
    np.add(power, 1, power)
    np.multiply(power, bend, out)


def tan(x: Array, out: Array, cosine: Array) -> None:
    np.cos(x, cosine)
    np.sin(x, out)
    np.divide(out, cosine, out)


def atan(x: Array, out: Array, size: Array, part: Array, y: Array, square: Array, more: Array) -> None:
    """Compute atan of the smaller of |x| and 1 / |x|; the result for 1 / |x| is subtracted from pi / 2."""
    np.absolute(x, size)
    np.divide(1, size, part)
    np.minimum(size, part, out=part)
    atan_to_one(part, y, square, more)
    np.greater(size, 1, size)
    turned(y, size, HALF_PI)
    np.copysign(y, x, out)


def atan2(
    a: Array, b: Array, out: Array, rise: Array, run: Array, y: Array, part: Array, more: Array, mask: Array
) -> None:
    """Compute atan2 from the smaller of |a| and |b| over the larger, then by octant; `out` may be a or b."""
    np.absolute(a, rise)
    np.absolute(b, run)
    np.maximum(rise, run, out=part)
    np.isfinite(part, mask)
    if not mask.all():
        np.arctan2(a, b, out)
        return
    np.minimum(rise, run, out=y)
    np.greater(rise, run, rise)
    np.maximum(part, TINY, out=part)
    np.divide(y, part, part)
    atan_to_one(part, y, run, more)
    turned(y, rise, HALF_PI)
    np.signbit(b, mask)
    np.multiply(mask, PI, run)
    np.subtract(run, y, y)
    np.absolute(y, y)
    np.copysign(y, a, out)


def atan_to_one(x: Array, y: Array, square: Array, more: Array) -> None:
    """Write the angle into y, for x from 0 to 1."""
    np.multiply(x, x, square)
    quotient(ATAN, square, y, more)
    np.multiply(y, x, y)


def turned(y: Array, is_beyond: Array, angle: Array) -> None:
    """Subtract y from the angle where `is_beyond` is 1; that array is overwritten."""
    np.multiply(is_beyond, angle, is_beyond)
    np.subtract(is_beyond, y, y)
    np.absolute(y, y)


def sinh(x: Array, out: Array, power: Array, bend: Array, part: Array) -> None:
    """Compute t * (e * e + 1) / 2 + t / (1 + t) with the sign of x, for e = exp(|x| / 2) and t = tanh(|x| / 2)."""
    np.absolute(x, power)
    np.multiply(power, 0.5, power)
    np.tanh(power, bend)
    half_of_square(power, part)
    np.add(power, 0.5, power)
    np.multiply(power, bend, power)
    np.add(bend, 1, part)
    np.divide(bend, part, part)
    np.add(power, part, power)
    np.copysign(power, x, out)


def cosh(x: Array, out: Array, power: Array, part: Array) -> None:
    """Compute cosh as p + 1 / (4 * p) for p = exp(|x|) / 2."""
    np.absolute(x, power)
    np.multiply(power, 0.5, power)
    half_of_square(power, part)
    np.divide(0.25, power, part)
    np.add(part, power, out)


def half_of_square(x: Array, part: Array) -> None:
    """Replace x by exp(x) * exp(x) / 2, which overflows no sooner than sinh and cosh do."""
    np.exp(x, x)
    np.multiply(x, 0.5, part)
    np.multiply(x, part, x)


def atanh(x: Array, out: Array, size: Array, part: Array, more: Array) -> None:
    """Compute atanh as log1p(2 * |x| / (1 - |x|)) / 2, with the sign of x."""
    np.absolute(x, size)
    np.subtract(1, size, part)
    np.add(size, size, size)
    np.divide(size, part, size)
    log1p(size, size, part, more)
    np.multiply(size, 0.5, size)
    np.copysign(size, x, out)
