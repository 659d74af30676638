"""The fully connected layer."""

from __future__ import annotations

from prograd import Program, Value, zeros
from prograd.layers.asked import Initial, channels, layer


@layer
def dense(
    program: Program,
    name: str,
    x: Value,
    size: int,
    *,
    bias: bool = True,
    initial: Initial = None,
    bias_decay: float = 1.0,
) -> Value:
    """Return the product x @ w + b: x [..., c] becomes [..., size].

    Args:
        program: declares the parameters `name.w` [c, size] and `name.b` [size].
        name: of the layer.
        x: of floats.
        size: how many numbers come out for each row.
        bias: False leaves b out.
        initial: of w; Glorot's uniform values unless given.
        bias_decay: multiplies the weight decay of b.
    """
    shape = (channels(program, f"dense {name!r}", x), size)
    w = program.parameter(f"{name}.w", shape, initial, dtype=x.dtype)
    if not bias:
        return x @ w
    b = program.parameter(f"{name}.b", (size,), zeros(), dtype=x.dtype, decay_scale=bias_decay)
    return x @ w + b
