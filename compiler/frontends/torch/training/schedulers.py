"""Schedulers of torch.optim.lr_scheduler as rates: a scheduler that is stepped once after each training step.

A scheduler becomes the closed form of its recursion. A form is a function of the number of steps since the scheduler
began, a rank-0 float64 tensor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from compiler.errors import CompileError
from compiler.frontends.torch.training.rate_tables import Store, factors, rate_at
from compiler.train.schedules import Schedule, reduce_on_plateau
from registry import Block, Value, ops

Form = Callable[[Value], Value]
"""The rate of a group after a number of steps."""


def schedule_of(scheduler: Any, number: int, store: Store) -> Schedule:
    """Return the rate of a scheduler for the group of its optimizer with this number.

    `store` puts tables of rates into the program. Raises CompileError for a scheduler that changes the momentum, or
    that is not known.
    """
    _require_known(scheduler)
    group = scheduler.optimizer.param_groups[number]
    if type(scheduler).__name__ == "ReduceLROnPlateau":
        return _plateau(scheduler, float(group["lr"]), number)
    form, begun = _form(scheduler, group, number, store), _steps_made(scheduler)

    def schedule(block: Block) -> Value:
        step = ops.cast(block.state("step"), dtype="float64")
        return form(step + begun if begun else step)

    return schedule


def _steps_made(scheduler: Any) -> float:
    """Return the steps that a scheduler has made; a chain counts them in its parts."""
    is_chain = type(scheduler).__name__ == "ChainedScheduler"
    return float((scheduler._schedulers[0] if is_chain else scheduler).last_epoch)


def _require_known(scheduler: Any) -> None:
    name = type(scheduler).__name__
    known = [*FORMS, *PARTS, *TABLES, "ReduceLROnPlateau"]
    if name not in known:
        raise CompileError(f"scheduler={name} is none of {', '.join(known)}; use prograd.schedules")


def _form(scheduler: Any, group: Mapping[str, Any], number: int, store: Store) -> Form:
    _require_known(scheduler)
    name = type(scheduler).__name__
    if getattr(scheduler, "cycle_momentum", False):
        raise CompileError(f"scheduler={name} changes the momentum, which no rate can; give it cycle_momentum=False")
    if getattr(scheduler, "_scale_fn_custom", None) is not None:
        raise CompileError(f"scheduler={name} has a scale_fn, which is Python; give it a mode, or use schedules")
    if name in PARTS:
        return PARTS[name](scheduler, group, number, store)
    if name in TABLES:
        return _table(scheduler, group, number, store)
    return partial(FORMS[name], scheduler, group, number)


def _base(group: Mapping[str, Any]) -> float:
    return float(group["initial_lr"])


def _table(scheduler: Any, group: Mapping[str, Any], number: int, store: Store) -> Form:
    """Return the rates that a function of Python gives, evaluated now."""
    table = store(_base(group) * factors(scheduler, number))
    return lambda t: rate_at(table, t)


def _milestones(scheduler: Any, group: Mapping[str, Any], number: int, t: Value) -> Value:
    passed: Any = 0.0
    for milestone, times in scheduler.milestones.items():
        passed = ops.where(t >= float(milestone), float(times), t * 0.0) + passed
    return _base(group) * scheduler.gamma**passed


def _linear(scheduler: Any, group: Mapping[str, Any], number: int, t: Value) -> Value:
    first, last = scheduler.start_factor, scheduler.end_factor
    return _base(group) * (first + (last - first) * ops.minimum(t / scheduler.total_iters, 1.0))


def _half_cosine(first: float, last: float, part: Value) -> Value:
    return last + (first - last) * 0.5 * (1.0 + ops.cos(part * math.pi))


def _restarts(scheduler: Any, group: Mapping[str, Any], number: int, t: Value) -> Value:
    """Return half cosines of T_0, T_0 * T_mult ... steps, whose beginnings are found by comparison."""
    period, growth = scheduler.T_0, scheduler.T_mult
    if growth == 1:
        return _half_cosine(_base(group), scheduler.eta_min, ops.remainder(t, float(period)) / period)
    begin, length = t * 0.0, t * 0.0 + period
    for n in range(1, MAX_RESTARTS):
        at = float(period * (growth**n - 1) // (growth - 1))
        begin, length = (ops.where(t >= at, x, y) for x, y in ((at, begin), (float(period * growth**n), length)))
    return _half_cosine(_base(group), scheduler.eta_min, (t - begin) / length)


MAX_RESTARTS: Final = 32
"""Growing half cosines that a rate counts; with doubled lengths the last ends after four billion steps."""


def _one_cycle(scheduler: Any, group: Mapping[str, Any], number: int, t: Value) -> Value:
    """Return the phases of a cycle, each between two rates of the group."""
    is_line = scheduler._anneal_func_type == "linear"

    def phase(t: Value, begin: float, part: Mapping[str, Any]) -> Value:
        first, last = float(group[part["start_lr"]]), float(group[part["end_lr"]])
        along = (t - begin) / ((float(part["end_step"]) - begin) or 1.0)
        return first + (last - first) * along if is_line else _half_cosine(first, last, along)

    phases = scheduler._schedule_phases
    begins = [0.0, *(float(part["end_step"]) for part in phases[:-1])]
    made = phase(ops.minimum(t, float(scheduler.total_steps) - 1.0), begins[-1], phases[-1])
    for begin, part in zip(begins[-2::-1], phases[-2::-1], strict=True):
        made = ops.where(t <= float(part["end_step"]), phase(t, begin, part), made)
    return made


def _cyclic(scheduler: Any, group: Mapping[str, Any], number: int, t: Value) -> Value:
    """Return lines up and down between two rates, whose height may shrink by cycle or by step."""
    low, high, ratio = float(scheduler.base_lrs[number]), float(scheduler.max_lrs[number]), scheduler.step_ratio
    cycle = ops.floor(t / scheduler.total_size)
    x = t / scheduler.total_size - cycle
    height = ops.where(x <= ratio, x / ratio, (x - 1.0) / (ratio - 1.0))
    if scheduler.mode == "triangular2":
        height = height * 0.5**cycle
    if scheduler.mode == "exp_range":
        height = height * scheduler.gamma**t
    return low + (high - low) * height


def _sequence(scheduler: Any, group: Mapping[str, Any], number: int, store: Store) -> Form:
    """Return schedulers that follow each other; each counts steps from its own beginning."""
    forms = [_form(each, group, number, store) for each in scheduler._schedulers]

    def form(t: Value) -> Value:
        made = forms[0](t)
        for begin, own in zip(scheduler._milestones, forms[1:], strict=True):
            made = ops.where(t >= float(begin), own(ops.maximum(t - float(begin), 0.0)), made)
        return made

    return form


def _chain(scheduler: Any, group: Mapping[str, Any], number: int, store: Store) -> Form:
    """Return the product of the factors of schedulers that multiply the rate."""
    for each in scheduler._schedulers:
        if type(each).__name__ not in FACTORS:
            raise CompileError(f"scheduler=ChainedScheduler has {type(each).__name__}, which is no factor of the rate")
    forms = [_form(each, group, number, store) for each in scheduler._schedulers]

    def form(t: Value) -> Value:
        made = forms[0](t)
        for own in forms[1:]:
            made = made * own(t) / _base(group)
        return made

    return form


def _plateau(scheduler: Any, rate: float, number: int) -> Schedule:
    if scheduler.threshold_mode != "abs":
        raise CompileError(
            "scheduler=ReduceLROnPlateau compares relative improvements; give it threshold_mode='abs' and a threshold"
        )
    return reduce_on_plateau(
        rate,
        factor=scheduler.factor,
        patience=scheduler.patience,
        mode=scheduler.mode,
        min_delta=scheduler.threshold,
        cooldown=scheduler.cooldown,
        min_rate=scheduler.min_lrs[number],
    )


FACTORS: Final = {
    "LambdaLR",
    "MultiplicativeLR",
    "StepLR",
    "MultiStepLR",
    "ExponentialLR",
    "ConstantLR",
    "LinearLR",
    "PolynomialLR",
}
"""Schedulers that multiply the rate, so that several of them can be chained."""

FORMS: Final[dict[str, Callable[[Any, Mapping[str, Any], int, Value], Value]]] = {
    "StepLR": lambda by, group, _, t: _base(group) * by.gamma ** ops.floor(t / by.step_size),
    "MultiStepLR": _milestones,
    "ExponentialLR": lambda by, group, _, t: _base(group) * by.gamma**t,
    "ConstantLR": lambda by, group, _, t: ops.where(
        t < float(by.total_iters), t * 0.0 + _base(group) * by.factor, _base(group)
    ),
    "LinearLR": _linear,
    "PolynomialLR": lambda by, group, _, t: _base(group) * (1.0 - ops.minimum(t / by.total_iters, 1.0)) ** by.power,
    "CosineAnnealingLR": lambda by, group, _, t: _half_cosine(_base(group), by.eta_min, t / by.T_max),
    "CosineAnnealingWarmRestarts": _restarts,
    "OneCycleLR": _one_cycle,
    "CyclicLR": _cyclic,
}
"""The rate of a parameter group, by its number, after a number of steps of each class of torch.optim.lr_scheduler."""

PARTS: Final = {"SequentialLR": _sequence, "ChainedScheduler": _chain}
"""The functions that convert schedulers made of others."""

TABLES: Final = ("LambdaLR", "MultiplicativeLR")
"""Schedulers that call a function of Python at each step, which is evaluated."""
