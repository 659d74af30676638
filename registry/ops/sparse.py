"""Products with rows of which few elements are not 0, given as positions and values."""

from __future__ import annotations

from prograd_proto import TensorType
from registry.errors import require
from registry.op import op
from registry.ops.arrange import unsqueeze
from registry.ops.index import gather
from registry.ops.reduce import sum
from registry.traits import example, stops
from registry.value import Value


@stops
@example((2, 3), (2, 3), (5, 4))
@op
def sparse_matmul(positions: Value, values: Value, w: Value) -> TensorType:
    """Return the product of sparse rows and a matrix: y[i] is the sum of values[i, k] * w[positions[i, k]] over k.

    `positions` are int32 or int64 [rows, count] and count from 0; one outside of w stops the run. A position may occur
    more than once. Elements whose value is 0 add nothing, whatever w has there: they pad rows that have fewer.
    """
    ...


@sparse_matmul.gradient
def sparse_matmul_gradient(positions: Value, values: Value, w: Value, dy: Value) -> tuple[None, Value, Value]:
    size = w.shape[0]
    require(isinstance(size, int), f"w has the symbol {size!r} as its number of rows; here it must be a number")
    return None, _along_rows(positions, w, dy), sparse_outer_sum(positions, values, dy, size=int(size))


@stops
@example((2, 3), (2, 3), (2, 4))
@op
def sparse_outer_sum(positions: Value, values: Value, b: Value, *, size: int = 5) -> TensorType:
    """Return the transposed product of sparse rows and rows of b: values[i, k] * b[i] is added to row positions[i, k].

    The result has `size` rows. `positions` and `values` are those of `sparse_matmul`; this operator is part of its
    gradient. Rows are added in the order of i, then k.
    """
    ...


@sparse_outer_sum.gradient
def sparse_outer_sum_gradient(
    positions: Value, values: Value, b: Value, dy: Value, *, size: int
) -> tuple[None, Value, Value]:
    return None, _along_rows(positions, dy, b), sparse_matmul(positions, values, dy)


def _along_rows(positions: Value, w: Value, b: Value) -> Value:
    """Return the product of each row of w at a position with the row of b."""
    return sum(gather(w, positions, axis=0) * unsqueeze(b, axis=(1,)), axis=(2,))
