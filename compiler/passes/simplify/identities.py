"""Rules of `simplify` for arithmetic and logic: identity operands, and functions that are applied twice.

Operators state these facts as traits. Facts that would change bits, so that no operator states them:

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

from compiler.passes.simplify.rewrites import Scope, rewrites
from prograd_proto import program_pb2 as pb
from prograd_proto.dtypes import FLOATS
from registry.op import find_op


def without_identity(scope: Scope, op: pb.OpDesc) -> Sequence[str] | None:
    """Replace an op with an identity operand by the other operand, if that has the type of the result.

    x * 1 and x / 1 are exact and keep NaN, infinities and the sign of zero. So are x + (-0.0) and x - 0.0 for both
    zeros. x | 0, x ^ 0, x << 0, `x or false` and `x and true` change no bit. Floats that `floor_div` divides by 1 are
    rounded down.
    """
    identity = find_op(op.type).traits.identity_operand
    assert identity is not None, "the rule is of operators with the trait"
    number = identity.floats if scope.result(op).dtype in FLOATS else identity.number
    if number is None:
        return None
    x, other = op.inputs
    for kept, left_out in ((x, other), (other, x)) if identity.either else ((x, other),):
        if scope.holds(left_out, number) and scope.type(kept) == scope.result(op):
            return [kept]
    return None


def undone(scope: Scope, op: pb.OpDesc) -> Sequence[str] | None:
    """Replace -(-x), `not not x` and ~~x by x: the sign bit flips twice, also of a NaN; integers wrap twice."""
    inner = scope.inner(op, op.type)
    return inner.inputs if inner is not None else None


def done_already(scope: Scope, op: pb.OpDesc) -> Sequence[str] | None:
    """Replace abs(abs(x)) by abs(x), and a repeated rounding by one, which is exact for NaN and -0.0."""
    inner = scope.inner(op, op.type)
    return inner.outputs if inner is not None else None


@rewrites("where")
def chosen_always(scope: Scope, op: pb.OpDesc) -> Sequence[str] | None:
    """Replace `where` with a condition that is true everywhere, or nowhere, by the operand that it copies."""
    condition, x, y = op.inputs
    for held, kept in ((1, x), (0, y)):
        if scope.holds(condition, held) and scope.type(kept) == scope.result(op):
            return [kept]
    return None


@rewrites("clip")
def without_bounds(scope: Scope, op: pb.OpDesc) -> Sequence[str] | None:
    """Replace clip(x) without bounds by x."""
    return [op.inputs[0]] if not any(op.inputs[1:]) else None


@rewrites("when_training")
def chosen_in_training(scope: Scope, op: pb.OpDesc) -> Sequence[str] | None:
    """Replace `when_training` by its first operand: entries that do not train have its inference form instead."""
    return [op.inputs[0]] if scope.type(op.inputs[0]) == scope.result(op) else None
