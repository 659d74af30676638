"""Products of matrices."""

from __future__ import annotations

from prograd_proto import TensorType
from registry.op import op
from registry.ops.copy import as_factor
from registry.ops.reduce import sum_to
from registry.traits import lowered
from registry.value import Value


@lowered("a", "b")
@op
def matmul(a: Value, b: Value, *, transpose_a: bool = False, transpose_b: bool = False) -> TensorType:
    """Return the matrix product a @ b over the last two axes; the flags transpose an operand first.

    Leading axes broadcast as in NumPy; both operands have at least two axes. The result of bfloat16 operands is
    float32: their products are exact in it, and it has the sums.
    """
    ...


@matmul.gradient
def matmul_gradient(a: Value, b: Value, dy: Value, *, transpose_a: bool, transpose_b: bool) -> tuple[Value, Value]:
    dy = as_factor(dy, a)
    if transpose_a:
        da = matmul(b, dy, transpose_a=transpose_b, transpose_b=True)
    else:
        da = matmul(dy, b, transpose_b=not transpose_b)
    if b.rank == 2 and not transpose_a:  # one product of tall matrices, not many small ones and their sum
        db = outer_sum(dy, a) if transpose_b else outer_sum(a, dy)
    elif transpose_b:
        db = matmul(dy, a, transpose_a=True, transpose_b=transpose_a)
    else:
        db = matmul(a, dy, transpose_a=not transpose_a)
    return sum_to(da, a), sum_to(db, b)


@lowered("a", "b")
@op
def outer_sum(a: Value, b: Value) -> TensorType:
    """Return the outer product of the last axes, summed over leading axes: y[i, j] = sum a[..., i] * b[..., j].

    The result of bfloat16 operands is float32, as that of `matmul`.
    """
    ...


@outer_sum.gradient
def outer_sum_gradient(a: Value, b: Value, dy: Value) -> tuple[Value, Value]:
    dy = as_factor(dy, a)
    return matmul(b, dy, transpose_b=True), matmul(a, dy)
