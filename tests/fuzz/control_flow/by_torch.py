"""PyTorch as a side: conditions and loops of Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from fuzz.control_flow.tree import Tree, computed

Function = Callable[..., list[Any]]
torch.set_num_threads(1)


class Torch:
    """The calls by PyTorch."""

    def unary(self, x: Any, *, name: str) -> Any:
        return getattr(torch, name)(x)

    def binary(self, x: Any, y: Any, *, name: str) -> Any:
        return getattr(torch, name)(x, y)

    def total(self, x: Any) -> Any:
        return x.sum()

    def product(self, x: Any, w: Any) -> Any:
        return x @ w

    def number(self, x: Any, *, name: str, value: float) -> Any:
        return getattr(torch, name)(x, value)

    def expand(self, x: Any, *, shape: tuple[int, ...]) -> Any:
        return x.expand(shape)

    def row(self, x: Any, *, i: int) -> Any:
        return x[i]

    def as_float(self, x: Any) -> Any:
        return x.to(torch.float64)

    def choose(self, x: Any, y: Any, z: Any) -> Any:
        return torch.where(x > 0.1, y, z)

    def cond(self, x: Any, *operands: Any, bodies: Sequence[Function], limit: float) -> list[Any]:
        return bodies[0 if bool(x > limit) else 1](*operands)

    def scan(
        self, *operands: Any, bodies: Sequence[Function], carries: int, length: int, reverse: bool, save: str
    ) -> list[Any]:
        state, rows = list(operands[:carries]), operands[carries:]
        given: dict[int, list[Any]] = {}
        for i in range(length)[:: -1 if reverse else 1]:
            made = bodies[0](*state, *(x[i] for x in rows))
            state, given[i] = made[:carries], made[carries:]
        if not length:  # shapes of the results, which no iteration gives
            made = bodies[0](*state, *(torch.zeros(x.shape[1:], dtype=x.dtype) for x in rows))[carries:]
            return [*state, *(torch.zeros((0, *y.shape), dtype=y.dtype) for y in made)]
        return [*state, *(torch.stack([given[i][k] for i in range(length)]) for k in range(len(given[0])))]

    def loop(self, *operands: Any, bodies: Sequence[Function], most: int, save: str) -> list[Any]:
        state, trips = list(operands), 0
        while trips < most and bool(bodies[0](*state)[0] > 0):
            state, trips = bodies[1](*state), trips + 1
        return [*state, torch.tensor(trips)]


def by_torch(tree: Tree, directions: Sequence[np.ndarray]) -> tuple[list[np.ndarray], ...]:
    """Return the results, the gradients, and the gradients of their sum along directions."""
    feeds = [torch.from_numpy(np.array(array)).requires_grad_(array.dtype.kind == "f") for array in tree.feeds]
    results = computed(Torch(), tree.body, feeds)
    leaves = [feeds[i] for i in tree.leaves]
    first = _gradients(results[0], leaves)
    along = sum((g * torch.from_numpy(v)).sum() for g, v in zip(first, directions, strict=True))
    second = _gradients(along, leaves)
    return tuple([x.detach().numpy() for x in part] for part in (results, first, second))


def _gradients(loss: Any, leaves: Sequence[Any]) -> list[Any]:
    if not isinstance(loss, torch.Tensor) or not loss.requires_grad:
        return [torch.zeros_like(x) for x in leaves]
    found = torch.autograd.grad(loss, leaves, create_graph=True, allow_unused=True)
    return [torch.zeros_like(x) if g is None else g for g, x in zip(found, leaves, strict=True)]
