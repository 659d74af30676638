"""Ranges that functions need: how to make such numbers, and how operators bring other numbers into the range.

"positive" is 0.5 ... 2 or so, "inside" within -0.9 ... 0.9, "above" from 1.2, "probability" within 0 ... 1,
"logarithms" are of probabilities, "regular" matrices have an inverse, "definite" ones are symmetric with
positive eigenvalues, "below n" are whole numbers, and "sign" is 1 or -1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Shape = tuple[int, ...]
INTS = ("int64", "int32", "uint8")
ONLY_NEW = ("below", "sign")
"""Kinds that no operator makes of other numbers."""


def made_array(rng: np.random.Generator, shape: Shape, dtype: str, kind: str) -> np.ndarray:
    """Numbers of a kind."""
    word, *rest = kind.split()
    if word == "below":
        array = rng.integers(0, max(1, int(rest[0])), shape)
    elif word in MADE:
        array = MADE[word](rng, shape)
    elif dtype == "bool":
        array = rng.random(shape) < 0.5
    elif dtype in INTS:
        array = rng.integers(0, 20, shape) if dtype == "uint8" else rng.integers(-9, 10, shape)
    else:
        array = rng.normal(size=shape)
    return np.asarray(array).astype(dtype).reshape(shape)


def _logarithms(rng: np.random.Generator, shape: Shape) -> np.ndarray:
    array = rng.normal(size=shape)
    return array - np.log(np.sum(np.exp(array), axis=-1, keepdims=True))


def _definite(rng: np.random.Generator, shape: Shape) -> np.ndarray:
    array = rng.normal(size=shape) * 0.7
    return array @ array.swapaxes(-1, -2) + np.eye(shape[-1])


MADE: dict[str, Callable[[np.random.Generator, Shape], np.ndarray]] = {
    "positive": lambda rng, shape: rng.uniform(0.5, 2.0, shape),
    "inside": lambda rng, shape: rng.uniform(-0.9, 0.9, shape),
    "probability": lambda rng, shape: rng.uniform(0.05, 0.95, shape),
    "above": lambda rng, shape: rng.uniform(1.3, 3.0, shape),
    "logarithms": _logarithms,
    "regular": lambda rng, shape: np.tanh(rng.normal(size=shape)) * 0.3 + 2 * np.eye(*shape[-2:]),
    "definite": _definite,
    "sign": lambda rng, shape: rng.choice([-1.0, 1.0], shape),
}


def _positive(d: Any, x: Any) -> Any:
    if d.chance(0.5):
        return d.one("exp", d.one("tanh", x))
    return d.one("add", d.one("square", d.one("tanh", x)), 0.5)


def _regular(d: Any, x: Any) -> Any:
    eye = d.one("eye", shape=x.shape, dtype=x.dtype)
    return d.one("add", d.one("mul", d.one("tanh", x), 0.3), d.one("mul", eye, 2.0))


def _positive_definite(d: Any, x: Any) -> Any:
    product = d.one("matmul", d.one("tanh", x), d.one("tanh", x), transpose_b=True)
    return d.one("add", product, d.one("eye", shape=x.shape, dtype=x.dtype))


ADAPTED: dict[str, Callable[[Any, Any], Any]] = {
    "positive": _positive,
    "inside": lambda d, x: d.one("mul", d.one("tanh", x), 0.9),
    "probability": lambda d, x: d.one("sigmoid", x),
    "above": lambda d, x: d.one("add", d.one("exp", d.one("tanh", x)), 1.0),
    "logarithms": lambda d, x: d.one("log_softmax", x),
    "regular": _regular,
    "definite": _positive_definite,
}
"""Functions that map a tensor into the range of each kind; they take a Draw and the tensor."""
