"""Optimizers of torch.optim that prograd has only here, Rprop, ASGD and Muon; and Adafactor along other axes.

Each function takes a group, the rate, the decay, and the axes of PyTorch in the order in which the program stores them:
an imported weight is stored with other axes than its module's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from compiler.errors import CompileError
from compiler.train import trust_ratios
from compiler.train.optimizers import Optimizer, Slot
from compiler.train.schedules import as_schedule
from prograd_proto import TensorType
from registry import Value, ops


def rprop(group: Mapping[str, Any], *, rate: Any, decay: float, order: Sequence[int]) -> Optimizer:
    """Return steps that grow while a gradient keeps its sign, and shrink where it changes."""
    less, more = map(float, group["etas"])
    least, most = map(float, group["step_sizes"])
    first = _constant("Rprop", rate)

    def update(w: Value, dw: Value, before: Value, size: Value, rate: Value, **settings: Any) -> list[Value]:
        signs = ops.sign(dw * before)
        grown = ops.where(signs > 0.0, size * more, ops.where(signs < 0.0, size * less, size))
        size = ops.minimum(ops.maximum(grown, least), most)
        dw = ops.where(signs < 0.0, 0.0, dw)
        return [w - ops.sign(dw) * size, dw, size]

    def slots(type: TensorType) -> Sequence[Slot]:
        return [Slot("before"), Slot("size", initial=first)]

    return Optimizer(update, slots, as_schedule(rate), 0.0, {}, decays="by itself")


def asgd(group: Mapping[str, Any], *, rate: Any, decay: float, order: Sequence[int]) -> Optimizer:
    """Return descent by a rate that falls with the steps; the average of the parameters is not kept."""
    shrinking, power = float(group["lambd"]), float(group["alpha"])
    first = _constant("ASGD", rate)

    def update(w: Value, dw: Value, rate: Value, step: Value, **settings: Any) -> list[Value]:
        count = ops.cast(step, dtype="float64")
        exact = first / ops.pow(1.0 + shrinking * first * count, power)
        eta = ops.cast(ops.cast(exact, dtype="float32"), dtype=w.dtype)  # PyTorch keeps it so
        return [w * (1.0 - shrinking * eta) - eta * (dw + decay * w)]

    return Optimizer(update, lambda type: [], as_schedule(rate), 0.0, {}, True, decays="by itself")


def adafactor(group: Mapping[str, Any], *, rate: Any, decay: float, order: Sequence[int]) -> Optimizer:
    """Return Adafactor along the last two axes of PyTorch."""
    epsilon1, epsilon2 = group["eps"]
    power, limit = float(group["beta2_decay"]), float(group["d"])
    last, before = (list(order).index(len(order) - k) for k in (1, 2)) if len(order) > 1 else (-1, -2)
    return trust_ratios.adafactor(
        rate, beta2_decay=power, epsilon1=epsilon1, epsilon2=epsilon2, limit=limit, axes=(last, before), decay=decay
    )


def muon(group: Mapping[str, Any], *, rate: Any, decay: float, order: Sequence[int]) -> Optimizer:
    """Return steps along the nearest orthogonal matrix of a momentum, by Newton and Schulz (Jordan, 2024)."""
    momentum, epsilon = float(group["momentum"]), float(group["eps"])
    a, b, c = map(float, group["ns_coefficients"])
    kind = group["adjust_lr_fn"]

    def update(w: Value, dw: Value, velocity: Value, rate: Value, **settings: Any) -> list[Value]:
        if w.rank != 2:
            raise CompileError(f"optimizer=Muon updates matrices, and {w.name} has {w.rank} axes")
        velocity = ops.lerp(velocity, dw, 1.0 - momentum)
        x = ops.lerp(dw, velocity, momentum) if group["nesterov"] else velocity
        rows, columns = map(int, x.shape)
        x = x / ops.maximum(ops.sqrt(ops.sum(ops.square(x))), epsilon)
        for _ in range(int(group["ns_steps"])):
            gram = x @ ops.transpose(x, axis=(1, 0)) if rows <= columns else ops.transpose(x, axis=(1, 0)) @ x
            mixed = b * gram + c * (gram @ gram)
            x = a * x + (mixed @ x if rows <= columns else x @ mixed)
        rate = ops.cast(rate, dtype=w.dtype)
        kept = w * (1.0 - rate * decay) if decay else w
        ratio = _ratio(kind, (rows, columns) if list(order) == [0, 1] else (columns, rows))
        return [kept - rate * ratio * x, velocity]

    return Optimizer(update, lambda type: [Slot("velocity")], as_schedule(rate), 0.0, {}, decays="by itself")


def _ratio(kind: str | None, shape: tuple[int, int]) -> float:
    if kind in (None, "original"):
        return math.sqrt(max(1.0, shape[0] / shape[1]))
    return 0.2 * math.sqrt(max(shape)) if kind == "match_rms_adamw" else 1.0


def _constant(name: str, rate: Any) -> float:
    if not isinstance(rate, float):
        raise CompileError(f"optimizer={name} takes its first rate alone, so a scheduler changes nothing; leave it out")
    return rate


FURTHER: Final = {"Rprop": rprop, "ASGD": asgd, "Adafactor": adafactor, "Muon": muon}
"""The function that converts each optimizer class of torch.optim."""
