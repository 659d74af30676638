"""Optimizers as nodes of a graph, whose epsilons lie elsewhere than in ours, and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from compiler.errors import CompileError
from compiler.frontends.arranged import arranged, like, plain
from compiler.frontends.onnx.node import Mapping, Node
from compiler.train.backward import gradients
from registry import Value, ops


def _optimizer(function: Callable[..., tuple[Value, ...]], kinds: int) -> Mapping:
    """Return the mapping of a rule; operands are the rate, the step, all tensors, all gradients, all slots."""

    def mapped(node: Node) -> tuple[Any, ...]:
        rate, step, *rest = (node.value(i) for i in range(len(node.operands)))
        count = len(rest) // kinds
        groups = [rest[kind * count : (kind + 1) * count] for kind in range(kinds)]
        made = [function(node, rate, step, *each) for each in zip(*groups, strict=True)]
        return tuple(arranged(y) for results in zip(*made, strict=True) for y in results)

    return mapped


def _regularized(node: Node, x: Value, dx: Value) -> Value:
    return x * float(node.attribute("norm_coefficient", 0.0)) + dx


def _adagrad(node: Node, rate: Value, step: Value, x: Value, dx: Value, squares: Value) -> tuple[Value, ...]:
    decay, epsilon = float(node.attribute("decay_factor", 0.0)), float(node.attribute("epsilon", 1e-6))
    rate = rate / (1.0 + ops.cast(step, dtype="float32") * decay)
    dx = _regularized(node, x, dx)
    squares = squares + dx * dx
    return x - rate * dx / (ops.sqrt(squares) + epsilon), squares


def _adam(node: Node, rate: Value, step: Value, x: Value, dx: Value, v: Value, h: Value) -> tuple[Value, ...]:
    alpha, beta = float(node.attribute("alpha", 0.9)), float(node.attribute("beta", 0.999))
    epsilon, after = float(node.attribute("epsilon", 1e-6)), float(node.attribute("norm_coefficient_post", 0.0))
    dx = _regularized(node, x, dx)
    v, h = v * alpha + dx * (1.0 - alpha), h * beta + dx * dx * (1.0 - beta)
    t = ops.cast(step, dtype="float32")
    powers = [ops.pow(node.new(base, "float32"), t) for base in (alpha, beta)]
    unbiased = rate * ops.sqrt(1.0 - powers[1]) / ops.where(step > 0, 1.0 - powers[0], 1.0)
    rate = ops.where(step > 0, unbiased, rate)
    return (x - rate * v / (ops.sqrt(h) + epsilon)) * (1.0 - after), v, h


def _momentum(node: Node, rate: Value, step: Value, x: Value, dx: Value, v: Value) -> tuple[Value, ...]:
    alpha, beta = float(node.attribute("alpha")), float(node.attribute("beta"))
    dx = _regularized(node, x, dx)
    share = ops.where(step > 0, node.new(beta, "float32"), node.new(1.0, "float32"))
    v = v * alpha + dx * share
    return x - rate * (dx + v * alpha if node.attribute("mode") == "nesterov" else v), v


def _gradient(node: Node) -> tuple[Any, ...]:
    """Return the gradients of the sum of a tensor of the graph with respect to others."""
    names = list(node.attribute("xs"))
    y, *xs = (node.lifted(node.walk.values[name]) for name in (node.attribute("y"), *names))
    for name, x in zip(names, xs, strict=True):
        if any(x.held(i) != x.shape[i] for i in range(x.rank)):
            raise CompileError(f"the gradient with respect to {name!r}, which is another tensor repeated")
    made = gradients(plain(y), [x.value for x in xs])
    return tuple(like(x, x.value * 0.0 if dx is None else dx) for x, dx in zip(xs, made, strict=True))


IMPORTS: Final[dict[str, Mapping]] = {
    "ai.onnx.preview.training.Gradient": _gradient,
    "ai.onnx.preview.training.Adagrad": _optimizer(_adagrad, 3),
    "ai.onnx.preview.training.Adam": _optimizer(_adam, 4),
    "ai.onnx.preview.training.Momentum": _optimizer(_momentum, 3),
}
