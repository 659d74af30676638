"""Numbers for the values of a program under construction, by the oracle; and lines of tests."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

import numpy as np
from oracles.interpret import interpret

from compiler import Value, gradients, ops
from registry import Block

STEP = 1e-5
"""Step of central differences, whose error is its square, about 1e-10, and a rounding error of 1e-16 / 1e-5."""


def values_of(values: Sequence[Value], feeds: Mapping[str, np.ndarray | float]) -> list[np.ndarray]:
    """The elements of each value, given those of inputs and states by tensor name."""
    block = values[0].block
    arrays = {name: np.asarray(array, block.types[name].dtype) for name, array in feeds.items()}
    found = interpret(block.desc, arrays, bodies=block.bodies)
    return [found[value.name] for value in values]


def value_of(value: Value, feeds: Mapping[str, np.ndarray | float]) -> np.ndarray:
    return values_of([value], feeds)[0]


def check_orders(y: Value, inputs: Sequence[Value], feeds: Mapping[str, np.ndarray], highest: int):
    """Each directional derivative of the sum of y, up to the highest order, is the difference quotient of the one
    before; the first is that of y itself. The gradients are of the inputs taken together."""
    block = y.block
    rng = np.random.default_rng(7)
    directions = [block.define(f"direction_{x.name}", x.type) for x in inputs]
    along = {v.name: rng.normal(size=v.type.static_shape) for v in directions}
    weights = block.define("weights", y.type)
    feeds = {**feeds, **along, weights.name: rng.normal(size=y.type.static_shape)}
    derivative = ops.sum(y * weights)
    for order in range(1, highest + 1):
        next_one = directional(derivative, inputs, directions)
        plus, minus = (
            value_of(derivative, {**feeds, **{x.name: feeds[x.name] + s * along[v.name] for x, v in pairs}})
            for pairs in [list(zip(inputs, directions, strict=True))]
            for s in (STEP, -STEP)
        )
        found, wanted = value_of(next_one, feeds), (plus - minus) / (2 * STEP)
        np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=1e-6 * 10 ** (order - 1), err_msg=f"order {order}")
        derivative = next_one


def directional(y: Value, inputs: Sequence[Value], directions: Sequence[Value]) -> Value:
    """The derivative of the scalar y along the directions."""
    grads = gradients(y, inputs)
    parts = [ops.sum(dx * v) for dx, v in zip(grads, directions, strict=True) if dx is not None]
    assert parts, "nothing depends on the inputs"
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def define(block: Block, name: str, shape: tuple[int | str, ...] = (), dtype: str = "float64") -> Value:
    """A tensor that is given."""
    from prograd_proto import TensorType

    return block.define(name, TensorType(dtype, shape))


def here(lines: int = 0) -> str:
    """Return the caller's file and line as in a program's locations, `lines` lines further down."""
    frame = sys._getframe(1)
    path = os.path.relpath(frame.f_code.co_filename)
    return f"{os.path.basename(path) if path.startswith('..') else path}:{frame.f_lineno + lines}"
