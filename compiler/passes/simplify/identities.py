"""Rules of `simplify` for arithmetic and logic: identity operands, and functions that are applied twice.

Rules that are missing because they would change bits:

x + 0.0 and x - (-0.0)      -0.0 becomes 0.0
x * 0, x - x, x / x         NaN and infinities give NaN; 0 * -1 is -0.0
0 - x, x * -1, x / -1       `neg` also turns the sign of a NaN
a - (-b), a + (-b)          so it does here
x ** 1, x ** 2              which NaN NumPy gives depends on its version, and powers are not rounded alike on all CPUs
maximum(x, x), relu twice   which of 0.0 and -0.0 is larger depends on the CPU
(a + b) + c                 rounds otherwise than a + (b + c)
b + a for a + b             if both are NaN the first one is handed on
"""

from __future__ import annotations

from collections.abc import Sequence

from compiler.passes.simplify.rewrites import Rewrite, Scope
from prograd_proto import program_pb2 as pb
from prograd_proto.dtypes import INTEGERS


def times_one(scope: Scope, op: pb.OpDesc) -> Sequence[str] | None:
    """Replace x * 1 and 1 * x by x: the product is exact and keeps NaN, infinities and the sign of zero."""
    return _without(scope, op, 1, either=True)


def divided_by_one(scope: Scope, op: pb.OpDesc) -> Sequence[str] | None:
    """Replace x / 1 by x: the quotient is exact, also that of integers by `floor_div`."""
    if op.type == "floor_div" and scope.result(op).dtype not in INTEGERS:
        return None  # floats are rounded down
    return _without(scope, op, 1)


def plus_minus_zero(scope: Scope, op: pb.OpDesc) -> Sequence[str] | None:
    """Replace x + (-0.0) and -0.0 + x by x, which is exact for both zeros; for integers also x + 0."""
    return _without(scope, op, 0 if scope.result(op).dtype in INTEGERS else -0.0, either=True)


def minus_zero(scope: Scope, op: pb.OpDesc) -> Sequence[str] | None:
    """Replace x - 0.0 by x, which is exact for both zeros."""
    return _without(scope, op, 0)


def with_no_bits(scope: Scope, op: pb.OpDesc) -> Sequence[str] | None:
    """Replace x | 0, x ^ 0, `x or false` and `x xor false`, either way round, by x: no bit changes."""
    return _without(scope, op, 0, either=True)


def with_truth(scope: Scope, op: pb.OpDesc) -> Sequence[str] | None:
    """Replace `x and true`, either way round, by x."""
    return _without(scope, op, 1, either=True)


def shifted_nowhere(scope: Scope, op: pb.OpDesc) -> Sequence[str] | None:
    """Replace x << 0 and x >> 0 by x."""
    return _without(scope, op, 0)


def undone(scope: Scope, op: pb.OpDesc) -> Sequence[str] | None:
    """Replace -(-x), `not not x` and ~~x by x: the sign bit flips twice, also of a NaN; integers wrap twice."""
    inner = scope.inner(op, op.type)
    return inner.inputs if inner is not None else None


def done_already(scope: Scope, op: pb.OpDesc) -> Sequence[str] | None:
    """Replace abs(abs(x)) by abs(x), and a repeated rounding by one, which is exact for NaN and -0.0."""
    inner = scope.inner(op, op.type)
    return inner.outputs if inner is not None else None


def chosen_always(scope: Scope, op: pb.OpDesc) -> Sequence[str] | None:
    """Replace `where` with a condition that is true everywhere, or nowhere, by the operand that it copies."""
    condition, x, y = op.inputs
    for held, kept in ((1, x), (0, y)):
        if scope.holds(condition, held) and scope.type(kept) == scope.result(op):
            return [kept]
    return None


def without_bounds(scope: Scope, op: pb.OpDesc) -> Sequence[str] | None:
    """Replace clip(x) without a bound by x, which it copies."""
    return [op.inputs[0]] if not any(op.inputs[1:]) else None


IDENTITIES: dict[str, tuple[Rewrite, ...]] = {
    "mul": (times_one,),
    "div": (divided_by_one,),
    "floor_div": (divided_by_one,),
    "add": (plus_minus_zero,),
    "sub": (minus_zero,),
    "bitwise_or": (with_no_bits,),
    "bitwise_xor": (with_no_bits,),
    "logical_or": (with_no_bits,),
    "logical_xor": (with_no_bits,),
    "logical_and": (with_truth,),
    "left_shift": (shifted_nowhere,),
    "right_shift": (shifted_nowhere,),
    "neg": (undone,),
    "logical_not": (undone,),
    "bitwise_not": (undone,),
    "abs": (done_already,),
    "floor": (done_already,),
    "ceil": (done_already,),
    "round": (done_already,),
    "trunc": (done_already,),
    "clip": (without_bounds,),
    "where": (chosen_always,),
}


def _without(scope: Scope, op: pb.OpDesc, neutral: float, *, either: bool = False) -> Sequence[str] | None:
    """Return the other operand if the second one (or either) is the identity and the result has its shape."""
    x, other = op.inputs
    for kept, left_out in ((x, other), (other, x)) if either else ((x, other),):
        if scope.holds(left_out, neutral) and scope.type(kept) == scope.result(op):
            return [kept]
    return None
