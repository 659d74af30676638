"""Optimizers of torch.optim with their groups of parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from compiler.build.program import Program
from compiler.errors import CompileError
from compiler.frontends.torch.training.further_optimizers import FURTHER
from compiler.frontends.torch.training.rate_tables import Store
from compiler.frontends.torch.training.schedulers import schedule_of
from compiler.train import optimizers
from compiler.train.backward import reached_by_gradient
from compiler.train.optimizers import Optimizer
from compiler.train.schedules import Rate
from registry import Value, ops


def minimize_by(
    program: Program, loss: Value, optimizer: Any, names: Mapping[int, str], scheduler: Any, store: Store
) -> None:
    """Append the updates of an optimizer of torch.optim.

    Args:
        program: the imported program.
        loss: the number to minimize.
        optimizer: the rates, decays and further numbers of its groups are kept; its state is not imported.
        names: the states by the ids of the parameters.
        scheduler: a scheduler of the optimizer, which gives the rates of its groups, or None.
        store: puts an array into the program.

    Raises CompileError for an optimizer or a scheduler that prograd does not have, a scheduler of another optimizer, or
    a parameter that does not belong to the module.
    """
    if scheduler is not None and getattr(scheduler, "optimizer", optimizer) is not optimizer:
        raise CompileError("scheduler: it changes the rates of another optimizer than optimizer=")
    if scheduler is None and any("initial_lr" in group for group in optimizer.param_groups):
        raise CompileError(
            "optimizer: a scheduler changes its rates; give scheduler= too, or a new optimizer for constant rates"
        )
    rates = [
        float(group["lr"]) if scheduler is None else schedule_of(scheduler, i, store)
        for i, group in enumerate(optimizer.param_groups)
    ]
    members: list[tuple[list[Value], Optimizer]] = []
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        for parameter in group["params"]:
            if id(parameter) not in names:
                raise CompileError(f"optimizer: a parameter of shape {tuple(parameter.shape)} is none of the module's")
        states = dict.fromkeys(names[id(parameter)] for parameter in group["params"])
        trained = [program.state(name) for name in states if program.states[name].trainable]
        reached = reached_by_gradient(loss, trained)
        by_one = [[w] for w in reached] if type(optimizer).__name__ in FURTHER else [reached]
        for values in by_one:
            order = list(program.states[values[0].name].imported.axes) if values else []
            members.append((values, _optimizer(optimizer, group, rate, order)))
    members = [(values, own) for values, own in members if values]
    if not members:
        raise CompileError("optimizer: the loss depends on none of its parameters")
    everything = [value for values, _ in members for value in values]
    program.minimize(loss, members[0][1], everything, groups=members[1:])


def _optimizer(optimizer: Any, group: Mapping[str, Any], rate: Rate, order: Sequence[int]) -> Optimizer:
    name = type(optimizer).__name__
    if name in ELSEWHERE:
        raise CompileError(f"optimizer={name} {ELSEWHERE[name]}")
    if name not in (*OPTIMIZERS, *FURTHER):
        raise CompileError(f"optimizer={name} is none of {', '.join((*OPTIMIZERS, *FURTHER))}; use program.minimize")
    decay = float(group.get("weight_decay", 0.0))
    if name in FURTHER:
        made = FURTHER[name](group, rate=rate, decay=decay, order=order)
    else:
        made = OPTIMIZERS[name](group, rate=rate, decay=decay)
    return _maximizing(made) if group.get("maximize") else made


def _maximizing(optimizer: Optimizer) -> Optimizer:
    """Return an optimizer that follows the gradient upwards; decay still shrinks the parameters."""

    def update(w: Value, dw: Value, *more: Any, **attributes: Any) -> Any:
        return optimizer.update(w, -dw, *more, **attributes)

    return replace(optimizer, update=update)


def _sgd(group: Mapping[str, Any], **both: Any) -> Optimizer:
    if not group["momentum"]:
        return optimizers.sgd(both["rate"], decay=both["decay"])
    made = optimizers.momentum(
        both["rate"], momentum=group["momentum"], nesterov=group["nesterov"], decay=both["decay"]
    )
    return _dampened(made, float(group["dampening"])) if group["dampening"] else made


def _dampened(optimizer: Optimizer, dampening: float) -> Optimizer:
    """Return descent with a velocity that takes 1 - dampening of each gradient but the first, which it takes whole."""

    def update(
        w: Value, dw: Value, velocity: Value, rate: Value, step: Value, *, decay: float, **attributes: Any
    ) -> Any:
        share = 1.0 - dampening * ops.cast(step > 0, dtype=w.dtype)
        return ops.momentum(w, share * (dw + decay * w), velocity, rate, **attributes)

    return replace(optimizer, update=update, needs_step=True)


def _adam(function: Any, *flags: str) -> Callable[..., Optimizer]:
    """Return a variant of Adam; `flags` are attributes of the same name."""

    def made(group: Mapping[str, Any], **both: Any) -> Optimizer:
        beta1, beta2 = map(float, group["betas"])
        if function is optimizers.adam and group.get("decoupled_weight_decay"):
            return made_by(optimizers.adamw, beta1, beta2, group, both)
        return made_by(function, beta1, beta2, group, both)

    def made_by(function: Any, beta1: float, beta2: float, group: Mapping[str, Any], both: Any) -> Optimizer:
        more = {flag: group[flag] for flag in flags}
        return function(beta1=beta1, beta2=beta2, epsilon=group["eps"], **both, **more)

    return made


def _nadam(function: Any, *numbers: str) -> Callable[..., Optimizer]:
    def made(group: Mapping[str, Any], **both: Any) -> Optimizer:
        beta1, beta2 = map(float, group["betas"])
        more = {number: group[number] for number in numbers}
        decoupled = bool(group["decoupled_weight_decay"])
        return function(beta1=beta1, beta2=beta2, epsilon=group["eps"], decoupled=decoupled, **both, **more)

    return made


def _rmsprop(group: Mapping[str, Any], **both: Any) -> Optimizer:
    return optimizers.rmsprop(
        alpha=group["alpha"], epsilon=group["eps"], momentum=group["momentum"], centred=group["centered"], **both
    )


def _adagrad(group: Mapping[str, Any], **both: Any) -> Optimizer:
    initial = group["initial_accumulator_value"]
    return optimizers.adagrad(rate_decay=group["lr_decay"], initial=initial, epsilon=group["eps"], **both)


ELSEWHERE: Final = {
    "LBFGS": "computes the loss several times in a step, which no step of a program does; use AdamW",
    "SparseAdam": "updates rows of sparse gradients, and gradients of a program are dense; use Adam",
}
"""For each class of torch.optim without a counterpart, the reason and another optimizer."""

OPTIMIZERS: Final[dict[str, Callable[..., Optimizer]]] = {
    "SGD": _sgd,
    "Adam": _adam(optimizers.adam, "amsgrad"),
    "AdamW": _adam(optimizers.adamw, "amsgrad"),
    "Adamax": _adam(optimizers.adamax),
    "NAdam": _nadam(optimizers.nadam, "momentum_decay"),
    "RAdam": _nadam(optimizers.radam),
    "RMSprop": _rmsprop,
    "Adagrad": _adagrad,
    "Adadelta": lambda group, **both: optimizers.adadelta(rho=group["rho"], epsilon=group["eps"], **both),
}
"""By class of torch.optim, the function that makes ours from a group."""
