"""The error function and the gamma function, the latter computed in float64 whatever the dtype.

For float64 erf and erfc are W. J. Cody's rational approximations (Rational Chebyshev approximations for the error
function, Mathematics of Computation 23, 1969), for float32 shorter quotients fitted by weighted least squares. The
functions around gamma shift their argument to where Stirling's series has enough terms, and reflect it below 0
(Abramowitz and Stegun, 6.1.17, 6.1.41, 6.3.7, 6.3.18, 6.4.7, 23.2.9). Each takes 30 to 80 calls of NumPy per chunk.
That is two to four times as long as PyTorch, which computes them in registers; erf of float64 takes seven times.
"""

from __future__ import annotations

from math import factorial, fsum, log, pi, prod, sqrt

import numpy as np

from prograd_proto import TensorType
from runtime.engines.reference.kernels.chunks import BITS, choose, chunks, in_chunks, polynomial, quotient, vectors
from runtime.kernel import Array, kernel
from runtime.row_rules import pointwise

NEAR = (  # erf(x) / x, a quotient of polynomials in x * x, below 0.46875
    (1.85777706184603153e-1, 3.16112374387056560, 1.13864154151050156e2, 3.77485237685302021e2, 3.20937758913846947e3),
    (1.0, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3, 2.84423683343917062e3),
)
MIDDLE = (  # erfc(x) * exp(x * x), a quotient of polynomials in x, from 0.46875 to 4
    (
        2.15311535474403846e-8,
        5.64188496988670089e-1,
        8.88314979438837594,
        6.61191906371416295e1,
        2.98635138197400131e2,
        8.81952221241769090e2,
        1.71204761263407058e3,
        2.05107837782607147e3,
        1.23033935479799725e3,
    ),
    (
        1.0,
        1.57449261107098347e1,
        1.17693950891312499e2,
        5.37181101862009858e2,
        1.62138957456669019e3,
        3.29079923573345963e3,
        4.36261909014324716e3,
        3.43936767414372164e3,
        1.23033935480374942e3,
    ),
)
FAR = (  # (1 / sqrt(pi) - x * erfc(x) * exp(x * x)) * x * x, a quotient of polynomials in 1 / (x * x), from 4
    (
        1.63153871373020978e-2,
        3.05326634961232344e-1,
        3.60344899949804439e-1,
        1.25781726111229246e-1,
        1.60837851487422766e-2,
        6.58749161529837803e-4,
    ),
    (
        1.0,
        2.56852019228982242,
        1.87295284992346725,
        5.27905102951428412e-1,
        6.05183413124413191e-2,
        2.33520497626869185e-3,
    ),
)
NEAR_END, MIDDLE_END = 0.46875, 4.0
FEW = 512
"""Number of elements beyond MIDDLE_END up to which new arrays are allocated: most numbers are not so large."""

SINGLE_ERF = (  # erf(x) / x, a quotient of polynomials in x * x, to 2e-8 below SINGLE_END
    (2.050112868e-06, 2.848784933e-04, 3.765447979e-03, 5.274820860e-02, 1.904025925e-01, 1.128379146),
    (3.809175546e-05, 1.162493541e-03, 1.496888168e-02, 1.141075073e-01, 5.020726465e-01, 1.0),
)
SINGLE_ERFC = (  # erfc(x) * exp(x * x), a quotient of polynomials in x, to 6e-9 below 10.2
    (3.288497284e-02, 2.296398387e-01, 7.324870045e-01, 1.239252834, 1.000000006),
    (5.828641209e-02, 4.070520137e-01, 1.327016740, 2.404064795, 2.367632590, 1.0),
)
SINGLE_END = 3.92
"""Argument from which the erf of a float32 is 1."""

SINGLE_ERFC_END = 10.2
"""Argument from which the erfc of a float32 is 0."""

ALL_BUT_NOTHING = 30.0
"""Argument from which erfc is 0 in any dtype; larger arguments, infinity too, are clipped to it."""

BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
EULER = 0.57721566490153286061
STIRLING_FROM = 8
SHIFT = 10


def zeta_less_one(s: int) -> float:
    """Return the sum of k**-s from k = 2, by the Euler-Maclaurin formula from k = 50."""
    tail = [50.0 ** (1 - s) / (s - 1), 50.0**-s / 2]
    for j, b in enumerate(BERNOULLI[:4], 1):
        tail.append(b / factorial(2 * j) * prod(range(s, s + 2 * j - 1)) * 50.0 ** (1 - s - 2 * j))
    return fsum((*(k**-s for k in range(2, 50)), *tail))


AROUND_TWO = (*((-1) ** m * zeta_less_one(m) / m for m in range(26, 1, -1)), 1 - EULER, 0.0)
"""Coefficients of lgamma(2 + x), the highest power first; for |x| up to 1/2 the terms fall by 4 and more."""

LGAMMA_TAIL = tuple(b / (2 * k * (2 * k - 1)) for k, b in reversed([*enumerate(BERNOULLI, 1)]))
DIGAMMA_TAIL = (*(-b / (2 * k) for k, b in reversed([*enumerate(BERNOULLI, 1)])), 0.0)


@kernel(scratch=in_chunks(5, "bool"), in_place=[(0, 0)], rows=pointwise)
def erf(x: Array, *, out: Array, scratch: list[Array]) -> None:
    take = single_erf if x.dtype == np.float32 else double_erf
    for parts in chunks([x, out], scratch):
        take(*parts)


def single_erf(x: Array, out: Array, near: Array, square: Array, y: Array, a: Array, *rest: Array) -> None:
    np.clip(x, -SINGLE_END, SINGLE_END, out=near)
    np.multiply(near, near, square)
    quotient(SINGLE_ERF, square, y, a)
    np.multiply(y, near, y)
    np.clip(y, -1, 1, out=out)


def double_erf(x: Array, out: Array, size: Array, y: Array, a: Array, b: Array, c: Array, mask: Array) -> None:
    np.absolute(x, size)
    erfc_beyond(size, y, a, b, c, mask)
    np.subtract(1, y, y)
    np.less_equal(size, NEAR_END, mask)
    if mask.any():
        erf_near(size, a, b, c)
        np.putmask(y, mask, a)
    np.copysign(y, x, out)


def erfc_scratch(x: TensorType) -> list[TensorType]:
    return vectors(x, *[x.dtype] * 4, BITS[x.dtype], "bool")


@kernel(scratch=erfc_scratch, rows=pointwise)
def erfc(x: Array, *, out: Array, scratch: list[Array]) -> None:
    for parts in chunks([x, out], scratch):
        erfc_of(*parts)


def erfc_of(x: Array, out: Array, size: Array, y: Array, a: Array, b: Array, bits: Array, mask: Array) -> None:
    """Write erfc of a chunk into `out`, which is not x; the others are scratch."""
    np.absolute(x, size)
    single = x.dtype == np.float32
    if single:
        np.clip(size, 0, SINGLE_ERFC_END, out=size)
        quotient(SINGLE_ERFC, size, y, a)
        times_bell(size, y, a, b, out)
    else:
        erfc_beyond(size, y, a, b, out, mask)
    np.subtract(2, y, a)
    np.less(x, 0, mask)
    choose(mask, a, y, out, bits)
    if single:
        return
    np.less_equal(size, NEAR_END, mask)
    if mask.any():
        erf_near(x, a, b, y)
        np.subtract(1, a, a)
        np.putmask(out, mask, a)


def erf_near(x: Array, y: Array, square: Array, part: Array) -> None:
    """Write erf into y, valid where |x| is at most NEAR_END."""
    np.multiply(x, x, square)
    quotient(NEAR, square, y, part)
    np.multiply(y, x, y)


def erfc_beyond(x: Array, y: Array, a: Array, b: Array, c: Array, mask: Array) -> None:
    """Write erfc into y, valid where x is at least NEAR_END; x is clipped to ALL_BUT_NOTHING."""
    np.minimum(x, ALL_BUT_NOTHING, out=x)
    quotient(MIDDLE, x, y, a)
    np.greater(x, MIDDLE_END, mask)
    count = np.count_nonzero(mask)
    if 0 < count <= FEW:
        few = x[mask]
        y[mask] = erfc_far(few, *np.empty((3, count)))
    elif count:
        np.putmask(y, mask, erfc_far(x, a, b, c))
    times_bell(x, y, a, b, c)


def erfc_far(x: Array, a: Array, b: Array, c: Array) -> Array:
    """Return erfc(x) * exp(x * x) from MIDDLE_END on, in b."""
    np.multiply(x, x, a)
    np.divide(1, a, a)
    quotient(FAR, a, b, c)
    np.multiply(a, b, b)
    np.subtract(1 / sqrt(pi), b, b)
    np.divide(b, x, b)
    return b


LEADING = {"float32": np.array(-1 << 12, "int32"), "float64": np.array(-1 << 27, "int64")}
"""Masks of the leading bits of a number, whose square is exact."""

SMALL_POWER = (1 / 24, 1 / 6, 1 / 2, 1.0, 1.0)
"""Coefficients of exp(x) below 0.06: to 3e-9, and below 1e-4 to 1e-22."""


def times_bell(x: Array, y: Array, a: Array, b: Array, c: Array) -> None:
    """Multiply y by exp(-x * x) in two factors as Cody does: with a the leading bits of x, of -a * a and the rest."""
    leading = LEADING[x.dtype.name]
    np.bitwise_and(x.view(leading.dtype), leading, a.view(leading.dtype))
    np.subtract(a, x, b)
    np.add(a, x, c)
    np.multiply(b, c, b)
    polynomial(SMALL_POWER, b, c)
    np.multiply(y, c, y)
    np.negative(a, b)
    np.multiply(a, b, a)
    np.exp(a, a)
    np.multiply(y, a, y)


@kernel(scratch=in_chunks(7, "bool", "bool", dtype="float64"), in_place=[(0, 0)], rows=pointwise)
def lgamma(x: Array, *, out: Array, scratch: list[Array]) -> None:
    """Compute lgamma of |x|; gamma(x) * gamma(-x) = -pi / (x * sin(pi * x)) then gives that of negative x."""
    for part, to, wide, size, y, a, b, c, d, is_below, mask in chunks([x, out], scratch):
        np.copyto(wide, part)
        np.absolute(wide, size)
        np.less(wide, 0, is_below)
        lgamma_of_positive(size, y, a, b, c, d, mask)
        if is_below.any():
            from_nearest_whole(size, a, b)
            np.multiply(a, pi, a)
            np.sin(a, a)
            np.absolute(a, a)
            np.equal(a, 0, mask)
            np.divide(a, pi, a)
            np.log(a, a)
            np.log(size, b)
            np.add(a, b, a)
            np.add(a, y, a)
            np.negative(a, a)
            np.putmask(y, is_below, a)
            np.logical_and(mask, is_below, mask)
            np.putmask(y, mask, np.inf)
        np.copyto(to, y, casting="same_kind")


def lgamma_of_positive(x: Array, y: Array, a: Array, b: Array, c: Array, d: Array, mask: Array) -> None:
    """Write lgamma into y: by Stirling's series where x is large, else from the interval around 2."""
    np.greater_equal(x, STIRLING_FROM, mask)
    if not mask.all():
        lgamma_of_small(x, y, a, b, c, d, mask)
        np.greater_equal(x, STIRLING_FROM, mask)
    if mask.any():
        np.divide(1, x, a)
        np.multiply(a, a, b)
        polynomial(LGAMMA_TAIL, b, c)
        np.multiply(c, a, c)
        np.log(x, a)
        np.subtract(a, 1, a)
        np.subtract(x, 0.5, b)
        np.multiply(a, b, a)
        np.add(a, (log(2 * pi) - 1) / 2, a)
        np.add(a, c, a)
        np.putmask(y, mask, a)


def lgamma_of_small(x: Array, y: Array, near: Array, whole: Array, factor: Array, sum: Array, mask: Array) -> None:
    """Write lgamma into y for x below STIRLING_FROM: x = whole + near, where near is exact and at most 1/2."""
    np.rint(x, whole)
    np.subtract(x, whole, near)
    polynomial(AROUND_TWO, near, y)
    np.copyto(factor, x)
    np.greater_equal(whole, 2, mask)
    np.putmask(factor, mask, 1)  # gamma(2 + near) = x * gamma(x)
    np.add(near, 1, sum)
    times_where(np.less, whole, 1, factor, sum, mask)  # gamma(2 + near) = (x + 1) * x * gamma(x)
    for k in range(2, STIRLING_FROM):
        np.add(near, k, sum)
        if not times_where(np.greater, whole, k, factor, sum, mask):
            break  # gamma(x) = (2 + near) ... (x - 1) * gamma(2 + near)
    np.log(factor, factor)
    np.subtract(whole, 1.5, sum)
    np.copysign(1, sum, sum)
    np.multiply(factor, sum, factor)
    np.add(y, factor, y)


def times_where(compare: np.ufunc, x: Array, bound: float, product: Array, factor: Array, mask: Array) -> bool:
    """Multiply the product by the factor, which is overwritten, where x compares so.

    Return True if it does anywhere.
    """
    compare(x, bound, mask)
    if not mask.any():
        return False
    np.logical_not(mask, mask)
    np.putmask(factor, mask, 1)
    np.multiply(product, factor, product)
    return True


def from_nearest_whole(x: Array, y: Array, whole: Array) -> None:
    """Write the difference of x and the nearest integer into y: exact, and 0 where all numbers are integers."""
    np.clip(x, -(2.0**53), 2.0**53, out=y)
    np.rint(y, whole)
    np.subtract(y, whole, y)


@kernel(scratch=in_chunks(5, "bool", "bool", dtype="float64"), in_place=[(0, 0)], rows=pointwise)
def digamma(x: Array, *, out: Array, scratch: list[Array]) -> None:
    """Compute digamma; below 0 it is that of 1 - x less pi / tan(pi * x)."""
    for part, to, wide, y, a, b, c, is_below, is_pole in chunks([x, out], scratch):
        reflect(part, wide, a, is_below)
        digamma_of_positive(wide, y, a, b, c)
        if is_below.any():
            cotangent(part, a, b)
            np.rint(part, b)
            np.equal(part, b, is_pole)
            np.putmask(a, is_pole, np.nan)
            np.multiply(a, pi, a)
            np.subtract(y, a, a)
            np.putmask(y, is_below, a)
        np.copyto(to, y, casting="same_kind")


def digamma_of_positive(x: Array, y: Array, a: Array, b: Array, c: Array) -> None:
    """Write digamma into y: that of x + SHIFT, less 1 / (x + k) for all smaller k."""
    np.add(x, SHIFT, a)
    np.log(a, y)
    np.divide(1, a, a)
    np.multiply(a, a, b)
    polynomial(DIGAMMA_TAIL, b, c)
    np.add(y, c, y)
    np.multiply(a, 0.5, a)
    np.subtract(y, a, y)
    for k in reversed(range(1, SHIFT)):
        np.add(x, k, a)
        np.divide(1, a, a)
        np.subtract(y, a, y)
    np.divide(1, x, a)  # with the sign of a zero
    np.subtract(y, a, y)


@kernel(scratch=in_chunks(5, "bool", dtype="float64"), in_place=[(0, 0)], rows=pointwise)
def polygamma(x: Array, *, n: int, out: Array, scratch: list[Array]) -> None:
    """Compute polygamma, up to sign and factor the sum of (x + k)**-(n + 1).

    Below 0 it is that of 1 - x and a derivative of the cotangent.
    """
    tail = zeta_tail(n + 1)
    cot = cotangent_derivative(n)
    for part, to, wide, y, a, b, c, is_below in chunks([x, out], scratch):
        reflect(part, wide, a, is_below)
        hurwitz_zeta(n + 1, tail, wide, y, a, b, c)
        np.multiply(y, factorial(n) * (-1) ** (n + 1), y)
        if is_below.any():
            cotangent(part, a, b)
            polynomial(cot, a, b)
            np.multiply(y, (-1) ** n, a)
            np.subtract(a, b, a)
            np.putmask(y, is_below, a)
        np.copyto(to, y, casting="same_kind")


def hurwitz_zeta(s: int, tail: tuple[float, ...], x: Array, y: Array, a: Array, b: Array, c: Array) -> None:
    """Write the sum of (x + k)**-s over all k into y, by the Euler-Maclaurin formula from k = SHIFT + s."""
    np.add(x, SHIFT + s, a)
    np.divide(1, a, a)
    np.multiply(a, a, b)
    polynomial(tail, b, y)  # of the three parts y = a**(s - 1) / (s - 1) + a**s / 2 + a**(s + 1) * tail
    np.multiply(y, a, y)
    np.add(y, 0.5, y)
    np.multiply(y, a, y)
    np.add(y, 1 / (s - 1), y)
    power(a, s - 1, b)
    np.multiply(y, b, y)
    for k in reversed(range(SHIFT + s)):
        np.add(x, k, a)
        np.divide(1, a, a)
        power(a, s, b)
        np.add(y, b, y)


def zeta_tail(s: int) -> tuple[float, ...]:
    """Return the numbers B[2 j] / (2 j)! * s * (s + 1) ... (s + 2 j - 2), the last first."""
    found: list[float] = []
    rising = float(s)
    for j, b in enumerate(BERNOULLI, 1):
        found.append(b / factorial(2 * j) * rising)
        rising *= (s + 2 * j - 1) * (s + 2 * j)
    return tuple(reversed(found))


def power(x: Array, n: int, out: Array) -> None:
    """Compute the n-th power, by products while they are cheaper."""
    if n > 8:
        np.power(x, n, out)
        return
    np.copyto(out, x)
    for _ in range(n - 1):
        np.multiply(out, x, out)


def cotangent_derivative(n: int) -> tuple[float, ...]:
    """Return the n-th derivative of pi / tan(pi * x) as a polynomial in 1 / tan(pi * x), the highest power first."""
    rising = [0.0, 1.0]
    for _ in range(n):  # p becomes -(1 + c * c) * dp / dc
        slope = [k * p for k, p in enumerate(rising)][1:]
        rising = [-(low + high) for low, high in zip([*slope, 0.0, 0.0], [0.0, 0.0, *slope], strict=True)]
    return tuple(p * pi ** (n + 1) for p in reversed(rising))


def reflect(x: Array, out: Array, part: Array, is_below: Array) -> None:
    """Compute 1 - x where x is below 0, else x."""
    np.less(x, 0, is_below)
    np.copyto(out, x)
    if is_below.any():
        np.subtract(1, out, part)
        np.putmask(out, is_below, part)


def cotangent(x: Array, out: Array, part: Array) -> None:
    """Compute 1 / tan(pi * x), infinite where x is an integer."""
    np.copyto(part, x)
    from_nearest_whole(part, out, part)
    np.multiply(out, pi, out)
    np.tan(out, out)
    np.divide(1, out, out)
