"""Small models in both forms: ops that build the loss in a program, and the loss and its gradients in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from compiler import Program, Value, ops

Arrays = dict[str, np.ndarray]
LossAndGradients = Callable[[Arrays, Arrays], tuple[float, Arrays]]


def start_of(model: Model) -> tuple[Arrays, Arrays]:
    rng = np.random.default_rng(11)
    return {name: 0.5 * rng.normal(size=shape) for name, shape in model.parameters.items()}, model.feeds(rng)


@dataclass(frozen=True)
class Model:
    """A model in both forms: what builds its loss, and what computes the loss and its gradients by hand."""

    build: Callable[[Program, dict[str, Value]], Value]
    by_hand: LossAndGradients
    parameters: dict[str, tuple[int, ...]]
    feeds: Callable[[np.random.Generator], Arrays]


def linear(program: Program, w: dict[str, Value]) -> Value:
    x = program.input("x", "float64", ("rows", 3))
    y = program.input("y", "float64", ("rows", 1))
    return ops.mean(ops.square(x @ w["w"] + w["b"] - y))


def linear_by_hand(w: Arrays, feeds: Arrays) -> tuple[float, Arrays]:
    x, y = feeds["x"], feeds["y"]
    error = x @ w["w"] + w["b"] - y
    slope = 2 * error / len(x)
    return float(np.mean(error**2)), {"w": x.T @ slope, "b": slope.sum(0)}


def linear_feeds(rng: np.random.Generator) -> Arrays:
    x = rng.normal(size=(16, 3))
    return {"x": x, "y": x @ [[1.0], [-2.0], [0.5]] + 3 + 0.1 * rng.normal(size=(16, 1))}


def layers(program: Program, w: dict[str, Value]) -> Value:
    x = program.input("x", "float64", ("rows", 5))
    label = program.input("label", "int64", ("rows",))
    h = ops.tanh(x @ w["w1"] + w["b1"])
    return ops.softmax_cross_entropy(h @ w["w2"] + w["b2"], label)


def layers_by_hand(w: Arrays, feeds: Arrays) -> tuple[float, Arrays]:
    x, label = feeds["x"], feeds["label"]
    h = np.tanh(x @ w["w1"] + w["b1"])
    loss, dlogits = cross_entropy_by_hand(h @ w["w2"] + w["b2"], label)
    dh = dlogits @ w["w2"].T * (1 - h * h)
    return loss, {"w1": x.T @ dh, "b1": dh.sum(0), "w2": h.T @ dlogits, "b2": dlogits.sum(0)}


def cross_entropy_by_hand(logits: np.ndarray, label: np.ndarray) -> tuple[float, np.ndarray]:
    rows = np.arange(len(label))
    powers = np.exp(logits - logits.max(1, keepdims=True))
    p = powers / powers.sum(1, keepdims=True)
    slope = p.copy()
    slope[rows, label] -= 1
    return float(-np.log(p[rows, label]).mean()), slope / len(label)


def layers_feeds(rng: np.random.Generator) -> Arrays:
    return {"x": rng.normal(size=(12, 5)), "label": rng.integers(0, 3, 12)}


def images(program: Program, w: dict[str, Value]) -> Value:
    x = program.input("x", "float64", ("rows", 6, 6, 2))
    label = program.input("label", "int64", ("rows",))
    h = ops.relu(ops.conv2d(x, w["filter"], padding=(1, 1)) + w["bias"])
    h = ops.max_pool2d(h, window=(2, 2), stride=(2, 2))
    return ops.softmax_cross_entropy(ops.reshape(h, shape=("rows", 27)) @ w["w"], label)


def images_by_hand(w: Arrays, feeds: Arrays) -> tuple[float, Arrays]:
    x, label = feeds["x"], feeds["label"]
    n = len(x)
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    places = [(i, j) for i in range(3) for j in range(3)]
    windows = {(i, j): padded[:, i : i + 6, j : j + 6] for i, j in places}
    before = sum(windows[i, j] @ w["filter"][i, j] for i, j in places) + w["bias"]
    h = np.maximum(before, 0)
    cells = h.reshape(n, 3, 2, 3, 2, 3).transpose(0, 1, 3, 5, 2, 4).reshape(n, 3, 3, 3, 4)
    flat = cells.max(-1).reshape(n, 27)
    loss, dlogits = cross_entropy_by_hand(flat @ w["w"], label)
    dcells = np.zeros_like(cells)
    np.put_along_axis(dcells, cells.argmax(-1)[..., None], (dlogits @ w["w"].T).reshape(n, 3, 3, 3, 1), -1)
    dh = dcells.reshape(n, 3, 3, 3, 2, 2).transpose(0, 1, 4, 2, 5, 3).reshape(n, 6, 6, 3) * (before > 0)
    dfilter = np.zeros_like(w["filter"])
    for i, j in places:
        dfilter[i, j] = np.einsum("nhwc,nhwo->co", windows[i, j], dh)
    return loss, {"filter": dfilter, "bias": dh.sum((0, 1, 2)), "w": flat.T @ dlogits}


def images_feeds(rng: np.random.Generator) -> Arrays:
    return {"x": rng.normal(size=(5, 6, 6, 2)), "label": rng.integers(0, 4, 5)}


MODELS = {
    "linear": Model(linear, linear_by_hand, {"w": (3, 1), "b": (1,)}, linear_feeds),
    "layers": Model(layers, layers_by_hand, {"w1": (5, 8), "b1": (8,), "w2": (8, 3), "b2": (3,)}, layers_feeds),
    "images": Model(images, images_by_hand, {"filter": (3, 3, 2, 3), "bias": (3,), "w": (27, 4)}, images_feeds),
}
