"""Comparison of an imported program with its module."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils import _pytree as pytree

import prograd
from prograd import Program, Run, ops


class Agreement(NamedTuple):
    """The largest differences, relative to the largest element of each tensor.

    Attributes:
        outputs: results in evaluation mode; some modules have further ones in training.
        loss: a loss of all results in training mode.
        gradients: its gradients; elements count relative to a thousandth of the largest gradient of all at least.
        statistics: running statistics after a step.
        transposes: transposes of the imported forward pass.
    """

    outputs: float
    loss: float
    gradients: float
    statistics: float
    transposes: int


def agreement(
    module: torch.nn.Module,
    inputs: Mapping[str, torch.Tensor],
    *,
    batch: str | None = "batch",
    engine: Any = None,
    judge: torch.nn.Module | None = None,
) -> Agreement:
    """Import a module, and compare a prediction and a step of training with PyTorch's, or with those of `judge`."""
    program = prograd.from_torch(copy.deepcopy(module).train(), inputs=dict(inputs), batch=batch)
    names = program.outputs_of_module
    transposes = sum(op.type == "transpose" for op in program.block.desc.ops)
    weights, loss = _weighted_loss(program, names)
    pairs = program.minimize(loss, prograd.sgd(0.0))
    for w, gradient in pairs:
        program.fetch(f"gradient {w.name}", gradient)
    run = Run(program.compile(**{batch: 3} if batch else {}), engine=engine)
    for name, array in weights.items():
        run.state[name] = array
    module = judge or module
    feeds = {name: tensor.numpy() for name, tensor in inputs.items()}
    predicted = run.predict(feeds)
    evaluated = [tensor.detach().numpy() for tensor in results(copy.deepcopy(module).eval(), inputs)]
    ours = [predicted[name] for name in names if name in predicted] or list(predicted.values())  # of another form
    outputs = max(_difference(y, wanted) for y, wanted in zip(ours, evaluated, strict=False))
    trained = copy.deepcopy(module).train()
    wanted = _loss_of(trained, inputs, names, weights, program)
    found = run.step(feeds)
    gradients = _gradients(found, pairs, program, trained)
    statistics = _statistics(run, program, trained)
    return Agreement(outputs, _difference(found["loss"], wanted), gradients, statistics, transposes)


def results(module: torch.nn.Module, inputs: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
    """Return the tensors that a module returns, in the order of its result."""
    by_name = all(name in inspect.signature(module.forward).parameters for name in inputs)
    made = module(**inputs) if by_name else module(*inputs.values())
    return [leaf for leaf in pytree.tree_leaves(made) if isinstance(leaf, torch.Tensor)]


def _weighted_loss(program: Program, names: list[str]) -> tuple[dict[str, np.ndarray], Any]:
    """Return random weights, which are states, and the weighted mean of the sines of all results."""
    rng = np.random.default_rng(1)
    weights: dict[str, np.ndarray] = {}
    loss: Any = None
    for name in names:
        y = program[name]
        if not y.dtype.startswith("float"):
            continue
        shape = tuple(1 if isinstance(extent, str) else extent for extent in y.shape)
        weights[f"weights of {name}"] = rng.normal(size=shape).astype(y.dtype)
        w = program.buffer(f"weights of {name}", shape, dtype=y.dtype)
        term = ops.mean(ops.sin(y) * w)
        loss = term if loss is None else loss + term
    return weights, loss


def _loss_of(module: torch.nn.Module, inputs: Any, names: list[str], weights: Any, program: Program) -> np.ndarray:
    total: Any = 0
    for name, y in zip(names, results(module, inputs), strict=True):
        if f"weights of {name}" in weights:
            total = total + (torch.sin(y) * torch.from_numpy(weights[f"weights of {name}"])).mean()
    total.backward()
    return total.detach().numpy()


def _gradients(found: Mapping[str, Any], pairs: Any, program: Program, module: torch.nn.Module) -> float:
    wanted = {name: p.grad for name, p in module.named_parameters() if p.grad is not None}
    largest = max(float(gradient.abs().max()) for gradient in wanted.values())
    worst = 0.0
    for w, _ in pairs:
        imported = program.states[w.name].imported
        there = wanted[imported.names[0]].permute(tuple(imported.axes)).numpy()
        least = 1e-3 * largest
        worst = max(worst, float(abs(found[f"gradient {w.name}"] - there).max()) / max(float(abs(there).max()), least))
    return worst


def _statistics(run: Run, program: Program, module: torch.nn.Module) -> float:
    there = dict(module.named_buffers())
    imported = {state.name: state.imported.names[0] for state in program.states.values() if state.imported.names}
    pairs = [(name, there[theirs]) for name, theirs in imported.items() if theirs in there]
    return max((_difference(run.state[name], tensor.numpy()) for name, tensor in pairs), default=0.0)


def _difference(found: Any, wanted: np.ndarray) -> float:
    """Return the largest difference relative to the largest element."""
    found = np.asarray(found, np.float64)
    return float(abs(found - wanted).max()) / max(float(abs(wanted).max()), 1e-30) if wanted.size else 0.0
