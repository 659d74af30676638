"""The error function, the gamma function, and the functions that their gradients of every order need; floats only."""

from __future__ import annotations

import math  # a star import of its names would shadow operators

from prograd_proto import TensorType
from registry.op import op
from registry.ops.pointwise import exp, pointwise
from registry.value import Value

BELL = 2 / math.sqrt(math.pi)

erf = pointwise(
    "erf",
    "Return the error function, 2 / sqrt(pi) times the integral of exp(-t * t) from 0 to x.",
    lambda x, y, dy: dy * (exp(-x * x) * BELL),
)
erfc = pointwise(
    "erfc", "Return the complement 1 - erf(x), accurate where it is small.", lambda x, y, dy: dy * (exp(-x * x) * -BELL)
)
lgamma = pointwise(
    "lgamma",
    "Return the logarithm of the absolute value of the gamma function, infinite at 0, -1, -2 ...",
    lambda x, y, dy: dy * digamma(x),
)
digamma = pointwise(
    "digamma",
    "Return the derivative of lgamma: infinite at 0, with the sign of -x, and NaN at -1, -2 ...",
    lambda x, y, dy: dy * polygamma(x, n=1),
)


@op
def polygamma(x: Value, *, n: int) -> TensorType:
    """Return the n-th derivative of digamma, n from 1 to 100."""
    ...


@polygamma.gradient
def polygamma_gradient(x: Value, dy: Value, *, n: int) -> Value:
    return dy * polygamma(x, n=n + 1)
