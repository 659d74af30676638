"""JAX as a side: `jax.lax`. A bounded loop is a scan of conditions, which JAX differentiates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from fuzz.control_flow.tree import Tree, computed

jax.config.update("jax_enable_x64", True)
Function = Callable[..., list[Any]]
UNARY = {"sin": jnp.sin, "cos": jnp.cos, "tanh": jnp.tanh, "sigmoid": jax.nn.sigmoid, "neg": jnp.negative}
BINARY = {"add": jnp.add, "sub": jnp.subtract, "mul": jnp.multiply}


class Jax:
    """The calls by JAX."""

    def unary(self, x: Any, *, name: str) -> Any:
        return UNARY[name](x)

    def binary(self, x: Any, y: Any, *, name: str) -> Any:
        return BINARY[name](x, y)

    def total(self, x: Any) -> Any:
        return jnp.sum(x)

    def product(self, x: Any, w: Any) -> Any:
        return x @ w

    def number(self, x: Any, *, name: str, value: float) -> Any:
        return BINARY[name](x, jnp.asarray(value, x.dtype))

    def expand(self, x: Any, *, shape: tuple[int, ...]) -> Any:
        return jnp.broadcast_to(x, shape)

    def row(self, x: Any, *, i: int) -> Any:
        return x[i]

    def as_float(self, x: Any) -> Any:
        return x.astype(jnp.float64)

    def choose(self, x: Any, y: Any, z: Any) -> Any:
        return jnp.where(x > 0.1, y, z)

    def cond(self, x: Any, *operands: Any, bodies: Sequence[Function], limit: float) -> list[Any]:
        return list(lax.cond(x > limit, bodies[0], bodies[1], *operands))

    def scan(
        self, *operands: Any, bodies: Sequence[Function], carries: int, length: int, reverse: bool, save: str
    ) -> list[Any]:
        def step(state: Any, rows: Any) -> Any:
            made = bodies[0](*state, *rows)
            return tuple(made[:carries]), tuple(made[carries:])

        state, stacks = lax.scan(step, operands[:carries], operands[carries:], length=length, reverse=reverse)
        return [*state, *stacks]

    def loop(self, *operands: Any, bodies: Sequence[Function], most: int, save: str) -> list[Any]:
        def step(state: Any, _: Any) -> Any:
            values, trips, going = state
            going = going & (bodies[0](*values)[0] > 0)
            values = lax.cond(going, lambda *v: tuple(bodies[1](*v)), lambda *v: v, *values)
            return (values, trips + going, going), None

        begin = operands, jnp.zeros((), jnp.int64), jnp.asarray(True)
        (values, trips, _), _ = lax.scan(step, begin, None, length=most)
        return [*values, trips]


def by_jax(tree: Tree, directions: Sequence[np.ndarray]) -> tuple[list[np.ndarray], ...]:
    """Return the results, the gradients, and the gradients of their sum along directions."""
    leaves = tree.leaves

    def results(*floats: Any) -> list[Any]:
        given = dict(zip(leaves, floats, strict=True))
        feeds = [given.get(i, jnp.asarray(array)) for i, array in enumerate(tree.feeds)]
        return computed(Jax(), tree.body, feeds)

    def along(*floats: Any) -> Any:
        grads = jax.grad(lambda *f: results(*f)[0], argnums=tuple(range(len(leaves))))(*floats)
        return sum(jnp.sum(g * v) for g, v in zip(grads, directions, strict=True)), grads

    def everything(*floats: Any) -> Any:
        (_, first), second = jax.value_and_grad(along, argnums=tuple(range(len(leaves))), has_aux=True)(*floats)
        return results(*floats), first, second

    made = jax.jit(everything)(*(jnp.asarray(tree.feeds[i]) for i in leaves))
    return tuple([np.asarray(x) for x in part] for part in made)
