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
    """Return x @ w + b, which maps x [..., c] to [..., size].

    Args:
        program: declares the parameters `name.w` [c, size] and `name.b` [size].
        name: name of the layer.
        x: tensor of floats.
        size: the number of outputs for each row.
        bias: False leaves b out.
        initial: initial value of w; Glorot's uniform values by default.
        bias_decay: factor of the weight decay of b.
    """
    shape = (channels(program, f"dense {name!r}", x), size)
    w = program.parameter(f"{name}.w", shape, initial, dtype=x.dtype)
    if not bias:
        return x @ w
    b = program.parameter(f"{name}.b", (size,), zeros(), dtype=x.dtype, decay_scale=bias_decay)
    return x @ w + b
