"""The fully connected layer, of dense rows and of sparse ones."""

from __future__ import annotations

from prograd import Value, ops, zeros
from prograd.layers.asked import Initial, channels, layer, program_of


@layer
def dense(
    x: Value,
    name: str,
    size: int,
    *,
    bias: bool = True,
    initial: Initial = None,
    bias_decay_scale: float = 1.0,
) -> Value:
    """Return x @ w + b, which maps x [..., c] to [..., size].

    Args:
        x: tensor of floats; its program declares the parameters `name.w` [c, size] and `name.b` [size].
        name: name of the layer.
        size: the number of outputs for each row.
        bias: False leaves b out.
        initial: initial value of w; Glorot's uniform values by default.
        bias_decay_scale: factor of the weight decay of b.
    """
    what = f"dense {name!r}"
    program, shape = program_of(what, x), (channels(what, x), size)
    w = program.parameter(f"{name}.w", shape, initial, dtype=x.dtype)
    if not bias:
        return x @ w
    b = program.parameter(f"{name}.b", (size,), zeros(), dtype=x.dtype, decay_scale=bias_decay_scale)
    return x @ w + b


@layer
def sparse_dense(
    positions: Value,
    values: Value,
    name: str,
    count: int,
    size: int,
    *,
    bias: bool = True,
    initial: Initial = None,
    bias_decay_scale: float = 1.0,
) -> Value:
    """Return x @ w + b for rows x of `count` numbers of which few are not 0, as [rows, size].

    Args:
        positions: integers from 0 to count - 1, the positions of the numbers of each row [rows, k].
        values: the numbers at these positions [rows, k]; 0 where a row has fewer. Its program declares the parameters
            `name.w` [count, size] and `name.b` [size].
        name: name of the layer.
        count: length of a row, were it dense.
        size: the number of outputs for each row.
        bias: False leaves b out.
        initial: initial value of w; Glorot's uniform values by default.
        bias_decay_scale: factor of the weight decay of b.
    """
    program = program_of(f"sparse_dense {name!r}", values)
    w = program.parameter(f"{name}.w", (count, size), initial, dtype=values.dtype)
    y = ops.sparse_matmul(positions, values, w)
    if not bias:
        return y
    return y + program.parameter(f"{name}.b", (size,), zeros(), dtype=values.dtype, decay_scale=bias_decay_scale)
