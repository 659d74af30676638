"""The fully connected layer."""

from __future__ import annotations

from prograd import Value, zeros
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
