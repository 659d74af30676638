"""Fits the polynomials of runtime/codegen/math and prints them, with the error of each in bits.

    python benchmarks/minimax.py            all of them
    python benchmarks/minimax.py exp erf    those whose name has one of the words

Remez's exchange with a weight, in 60 digits (mpmath, of the test extra): the polynomial whose largest weighted error is
as small as it can be, or the quotient of two. Coefficients are rounded to the precision they are used in, constant term
first.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable

import mpmath
from mpmath import mpf

mpmath.mp.dps = 60
SAMPLES = 600
Function = Callable[[mpf], mpf]


def main(words: list[str]) -> None:
    for name, (function, weight, low, high, degree, bits) in fits().items():
        if words and not any(word in name for word in words):
            continue
        coefficients, error = remez(function, weight, mpf(low), mpf(high), degree)
        show(f"{name}: [{low}, {high}], degree {degree}", [coefficients], error, bits)
    if not words or any(word in "erfc quotient 32" for word in words):
        show("erfc quotient 32: [0, 10.1], degrees 4 and 5", *remez_of_quotient(whole_scaled_erfc, mpf(10.1), 4, 5), 32)


def show(what: str, polynomials: list[list[mpf]], error: mpf, bits: int) -> None:
    print(f"{what}, error 2**{mpmath.nstr(mpmath.log(error, 2), 4)}")
    for coefficients in polynomials:
        print("    (" + ", ".join(rounded(c, bits) for c in coefficients) + ")", flush=True)


def fits() -> dict[str, tuple[Function, Function, float, float, int, int]]:
    """Map each name of a polynomial to its function, weight of an error, interval, degree, and bits."""
    half, root = 0.35, 0.02944
    return {
        "exp 32": (after_exp, share_of_expm1, -half, half, 5, 32),
        "exp 64": (after_exp, share_of_expm1, -half, half, 10, 64),
        "log 32": (after_log, share_of_log, 0, root, 3, 32),
        "log 64": (after_log, share_of_log, 0, root, 6, 64),
        "long log 64": (after_long_log, share_of_square, 0, root, 6, 64),
        "erf near 32": (near_erf, one, 0, 0.85, 6, 32),
        "erf near 64": (near_erf, one, 0, 1.0, 11, 64),
        "erf far 32": (far_erf, far_weight, 0.92, 4.1, 7, 32),
        "erf far 64": (far_erf, far_weight, 1.0, 6.0, 18, 64),
        "sine 32": (after_sine, share_of_cube, 0, 0.6170, 2, 32),
        "sine 64": (after_sine, share_of_cube, 0, 0.6170, 5, 64),
        "cosine 32": (after_cosine, share_of_cube, 0, 0.6170, 2, 32),
        "cosine 64": (after_cosine, share_of_cube, 0, 0.6170, 5, 64),
        "arcsine 32": (after_arcsine, share_of_cube, 0, 0.25, 4, 32),
        "arcsine 64": (after_arcsine, share_of_cube, 0, 0.25, 12, 64),
        "arctangent 32": (after_arctangent, share_of_cube, 0, 0.1716, 4, 32),
        "arctangent 64": (after_arctangent, share_of_cube, 0, 0.1716, 10, 64),
        "gamma 64": (after_gamma, one, -0.5, 0.5, 18, 64),
        "erfc 64": (scaled_erfc, one, -1, 0.75, 23, 64),
    }


def after_exp(r: mpf) -> mpf:
    """(exp(r) - 1 - r) / r**2, by its series."""
    return mpmath.fsum(r**k / mpmath.factorial(k + 2) for k in range(40))


def share_of_expm1(r: mpf) -> mpf:
    return max(abs(r), mpf(0.02))  # near 0 hardly anything counts, but something must


def after_log(z: mpf) -> mpf:
    """(log((1 + s) / (1 - s)) / s - 2) / z, for s * s = z."""
    return mpmath.fsum(2 * z**k / (2 * k + 3) for k in range(40))


def share_of_log(z: mpf) -> mpf:
    return max(z / 2, mpf(0.0005))


def after_long_log(z: mpf) -> mpf:
    """Return the rest of log after its first two terms, divided by z**2."""
    return mpmath.fsum(2 * z**k / (2 * k + 5) for k in range(40))


def share_of_square(z: mpf) -> mpf:
    return max(z * z / 2, mpf(0.00001))


def near_erf(z: mpf) -> mpf:
    """erf(x) / x - 1 for x * x = z."""
    x = mpmath.sqrt(z)
    return (mpmath.erf(x) / x if x else 2 / mpmath.sqrt(mpmath.pi)) - 1


def one(z: mpf) -> mpf:
    return mpf(1)


def far_erf(t: mpf) -> mpf:
    """The exponent that gives erfc."""
    return -mpmath.log(mpmath.erfc(t))


def far_weight(t: mpf) -> mpf:
    return mpmath.erfc(t)


def share_of_cube(z: mpf) -> mpf:
    return max(z, mpf(0.002))


def after_sine(z: mpf) -> mpf:
    """(sin(r) / r - 1) / z for r * r = z, by its series."""
    return mpmath.fsum((-1) ** (k + 1) * z**k / mpmath.factorial(2 * k + 3) for k in range(25))


def after_cosine(z: mpf) -> mpf:
    """(cos(r) - 1 + z / 2) / z**2, likewise."""
    return mpmath.fsum((-1) ** k * z**k / mpmath.factorial(2 * k + 4) for k in range(25))


def after_arcsine(z: mpf) -> mpf:
    """(asin(x) / x - 1) / z for x * x = z, by its series."""
    return mpmath.fsum(mpmath.binomial(2 * k, k) / (mpf(4) ** k * (2 * k + 1)) * z ** (k - 1) for k in range(1, 110))


def after_arctangent(z: mpf) -> mpf:
    """(atan(t) / t - 1) / z for t * t = z, by its series."""
    return mpmath.fsum((-1) ** k * z ** (k - 1) / (2 * k + 1) for k in range(1, 90))


def after_gamma(x: mpf) -> mpf:
    """log(gamma(2 + x)) / x."""
    return mpmath.loggamma(2 + x) / x if x else 1 - mpmath.euler


def scaled_erfc(q: mpf) -> mpf:
    """(1 + 2 * x) * exp(x * x) * erfc(x) for q = (x - 4) / (x + 4): it hardly changes."""
    x = 4 * (1 + q) / (1 - q)
    return (1 + 2 * x) * whole_scaled_erfc(x)


def whole_scaled_erfc(x: mpf) -> mpf:
    return mpmath.exp(x * x) * mpmath.erfc(x)


def remez(function: Function, weight: Function, low: mpf, high: mpf, degree: int) -> tuple[list[mpf], mpf]:
    """Coefficients from the constant term on, and the largest weighted error."""
    points = [(low + high) / 2 - (high - low) / 2 * mpmath.cos(mpmath.pi * i / (degree + 1)) for i in range(degree + 2)]
    grid = [low + (high - low) * i / SAMPLES for i in range(SAMPLES + 1)]
    values, weights = [function(x) for x in grid], [weight(x) for x in grid]
    coefficients: list[mpf] = []
    for _ in range(8):
        rows = [
            [x**k for k in range(degree + 1)] + [(-1) ** i / max(weight(x), mpf(10) ** -30)]
            for i, x in enumerate(points)
        ]
        *coefficients, _ = mpmath.lu_solve(mpmath.matrix(rows), mpmath.matrix([function(x) for x in points]))
        errors = [
            (f - mpmath.polyval(coefficients[::-1], x)) * w for x, f, w in zip(grid, values, weights, strict=True)
        ]
        points = extrema(grid, errors, degree + 2)
    return coefficients, max(abs(e) for e in errors)


def remez_of_quotient(function: Function, high: mpf, above: int, below: int) -> tuple[list[list[mpf]], mpf]:
    """Coefficients of the two polynomials, the second with the constant 1, and the largest relative error from 0 on.

    Points are spread evenly in (x - 2) / (x + 2). The error times the denominator is not linear, so the denominator of
    the solution before stands in the equation of each point.
    """
    count, end = above + below + 2, (high - 2) / (high + 2)
    spread = [2 * (1 + u) / (1 - u) for u in (-1 + (end + 1) * mpf(i) / SAMPLES for i in range(SAMPLES + 1))]
    values = [function(x) for x in spread]
    points = [spread[round(SAMPLES * (1 - mpmath.cos(mpmath.pi * i / (count - 1))) / 2)] for i in range(count)]
    top, bottom, errors = [mpf(1)], [mpf(1)], [mpf(0)]
    for _ in range(8):
        for _ in range(6):
            rows = []
            for i, x in enumerate(points):
                y, error = function(x), (-1) ** i * mpmath.polyval(bottom[::-1], x)
                rows.append([x**k for k in range(above + 1)] + [-y * x**k for k in range(1, below + 1)] + [y * error])
            *found, _ = mpmath.lu_solve(mpmath.matrix(rows), mpmath.matrix([function(x) for x in points]))
            top, bottom = found[: above + 1], [mpf(1), *found[above + 1 :]]
        errors = [
            mpmath.polyval(top[::-1], x) / mpmath.polyval(bottom[::-1], x) / y - 1
            for x, y in zip(spread, values, strict=True)
        ]
        points = extrema(spread, errors, count)
    return [top, bottom], max(abs(e) for e in errors)


def extrema(grid: list[mpf], errors: list[mpf], count: int) -> list[mpf]:
    """The point of the largest error of each sign's stretch, the largest stretches."""
    best: list[int] = []
    for i, error in enumerate(errors):
        if best and error * errors[best[-1]] > 0:
            if abs(error) > abs(errors[best[-1]]):
                best[-1] = i
        elif error:
            best.append(i)
    while len(best) > count:
        best.pop(0 if abs(errors[best[0]]) < abs(errors[best[-1]]) else -1)
    assert len(best) == count, f"{len(best)} extrema for {count}"
    return [grid[i] for i in best]


def rounded(c: mpf, bits: int) -> str:
    if bits == 64:
        return repr(float(c))
    single = struct.unpack("f", struct.pack("f", float(c)))[0]
    return next(
        text for n in range(6, 18) if struct.pack("f", float(text := f"{single:.{n}g}")) == struct.pack("f", single)
    )


if __name__ == "__main__":
    main(sys.argv[1:])
