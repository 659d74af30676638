"""Learning rates as ops on the states `step` and `total_steps`; a rate may be a setting.

`step` counts from 0, so the first rate is that of step 0. A schedule with the name of one of PyTorch is its closed
form, stepped once per training step.

To add a schedule, write a function in `compiler/train/schedules.py` that returns a `Schedule`; its tests in
`tests/building/test_schedules.py`, and its line in docs/training.md, which a test checks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite, pi
from numbers import Real
from typing import Literal

from compiler.build.whole_numbers import require_whole
from compiler.train.plateaus import plateau_desc, plateau_scale
from compiler.train.settings import with_settings
from prograd_proto.argument_kinds import with_kinds
from prograd_proto.settings import Interval
from prograd_proto.spelling import module_getattr
from registry import Block, OpError, Value, ops
from registry.settings import Number, require_within

Schedule = Callable[[Block], Value]
"""A function that appends the ops of a rate to a block and returns a rank-0 float64 tensor."""

Rate = Number | Schedule
"""A number, a setting, or a schedule."""


@with_kinds(OpError, strictly=True)
def constant(rate: Number) -> Schedule:
    """Return the schedule that is always `rate`."""
    _ask("constant: rate", rate)
    return lambda block: _float64(block, rate)


@with_kinds(OpError, strictly=True)
def step(rate: Number, *, every: int, factor: float = 0.1) -> Schedule:
    """Return the schedule that multiplies `rate` by `factor` every `every` steps."""
    require_whole("step", every=every)
    _ask("step: rate", rate)
    return lambda block: rate * factor ** ops.cast(block.state("step") // every, dtype="float64")


@with_kinds(OpError, strictly=True)
def multi_step(rate: Number, *, milestones: Sequence[int], factor: float = 0.1) -> Schedule:
    """Return the schedule that multiplies `rate` by `factor` at each milestone, a number of steps."""
    for milestone in milestones:
        require_whole("multi_step", least=None, milestone=milestone)
    _ask("multi_step: rate", rate)
    rates = [rate * factor**i for i in range(len(milestones) + 1)]
    return piecewise(milestones=sorted(milestones), rates=rates)


@with_kinds(OpError, strictly=True)
def piecewise(*, milestones: Sequence[int], rates: Sequence[Rate]) -> Schedule:
    """Return the schedule with one rate before the first milestone, the next rate from there on, and so on."""
    for milestone in milestones:
        require_whole("piecewise", least=None, milestone=milestone)
    if len(rates) != len(milestones) + 1 or list(milestones) != sorted(milestones):
        raise OpError(
            f"piecewise: {len(rates)} rates and the milestones {list(milestones)}; "
            "milestones rise, and there is one rate more"
        )

    def rate(block: Block) -> Value:
        pieces = [as_schedule(piece)(block) for piece in rates]
        chosen = pieces[-1]
        for milestone, piece in reversed(list(zip(milestones, pieces[:-1], strict=True))):
            chosen = ops.where(block.state("step") < milestone, piece, chosen)
        return chosen

    return rate


@with_kinds(OpError, strictly=True)
def exponential(rate: Number, *, factor: float, every: int = 1) -> Schedule:
    """Return the schedule rate * factor ** (step / every), a smooth decay by `factor` in `every` steps."""
    require_whole("exponential", every=every)
    _ask("exponential: rate", rate)
    return lambda block: rate * factor ** (_step(block) / every)


@with_kinds(OpError, strictly=True)
def inverse_time(rate: Number, *, factor: float, every: int = 1) -> Schedule:
    """Return the schedule rate / (1 + factor * step / every)."""
    require_whole("inverse_time", every=every)
    _ask("inverse_time: rate", rate)
    return lambda block: rate / (1.0 + factor * _step(block) / every)


@with_kinds(OpError, strictly=True)
def polynomial(rate: Number, *, steps: int | None = None, power: float = 1.0, final: float = 0.0) -> Schedule:
    """Return the schedule from `rate` down to `final` by (1 - step / steps) ** power; linear for power 1.

    Args:
        rate: the first rate.
        steps: steps of the decay; by default all steps.
        power: exponent of the decay.
        final: the rate from then on.
    """
    if steps is not None:
        require_whole("polynomial", steps=steps)
    _ask("polynomial: rate", rate)

    def schedule(block: Block) -> Value:
        left = 1.0 - ops.minimum(_step(block) / _steps(block, steps), 1.0)
        return final + (rate - final) * left**power

    return schedule


@with_kinds(OpError, strictly=True)
def cosine(rate: Number, *, steps: int | None = None, final: float = 0.0) -> Schedule:
    """Return half a cosine from `rate` down to `final`, which stays: Loshchilov and Hutter, 2017.

    `steps` are those of the decay, by default all steps.
    """
    if steps is not None:
        require_whole("cosine", steps=steps)
    _ask("cosine: rate", rate)

    def schedule(block: Block) -> Value:
        return _falling(rate, final, ops.minimum(_step(block) / _steps(block, steps), 1.0))

    return schedule


@with_kinds(OpError, strictly=True)
def cosine_restarts(rate: Number, *, period: int, growth: float = 1.0, final: float = 0.0) -> Schedule:
    """Return half cosines from `rate` down to `final`, one after the other: Loshchilov and Hutter, 2017.

    Args:
        rate: the rate at every restart.
        period: steps of the first half cosine.
        growth: ratio of each period to the one before.
        final: rate that each half cosine approaches.
    """
    require_whole("cosine_restarts", period=period)
    _ask("cosine_restarts: rate", rate)
    if growth < 1:
        raise OpError(f"cosine_restarts: growth={growth} is below 1")

    def schedule(block: Block) -> Value:
        at = _step(block)
        if growth == 1:
            return _falling(rate, final, ops.remainder(at, float(period)) / period)
        # Cycle n begins at period * (growth^n - 1) / (growth - 1). A rounded logarithm may be one too low or high.
        n = ops.floor(ops.log1p(at * (growth - 1.0) / period) / ops.log(block.constant("float64", growth)))
        n = ops.where(at < _begin(n, period, growth), n - 1.0, n)
        n = ops.where(at >= _begin(n + 1.0, period, growth), n + 1.0, n)
        return _falling(rate, final, (at - _begin(n, period, growth)) / (period * growth**n))

    return schedule


@with_kinds(OpError, strictly=True)
def one_cycle(
    peak: Number,
    *,
    steps: int | None = None,
    rise: float = 0.3,
    start_divisor: float = 25.0,
    final_divisor: float = 1e4,
    linear: bool = False,
) -> Schedule:
    """Return a rise from peak / start_divisor to `peak` and a decay to the final rate: Smith and Topin, 2017.

    Args:
        peak: the highest rate.
        steps: steps of the whole cycle, the last of which has the final rate; by default all steps.
        rise: fraction of the steps that rises.
        start_divisor: divisor of `peak` for the first rate.
        final_divisor: divisor of the first rate for the last one.
        linear: True for lines instead of half cosines.
    """
    if steps is not None:
        require_whole("one_cycle", steps=steps)
    _ask("one_cycle: peak", peak)
    start = peak / start_divisor

    def between(a: Number, b: Number, part: Value) -> Value:
        return a + (b - a) * part if linear else _falling(a, b, part)

    def schedule(block: Block) -> Value:
        at, total = _step(block), _steps(block, steps)
        top, last = rise * total - 1.0, total - 1.0
        up = between(start, peak, at / ops.where(ops.equal(top, 0.0), 1.0, top))
        down = between(peak, start / final_divisor, ops.minimum((at - top) / ops.maximum(last - top, 1e-9), 1.0))
        return ops.where(at <= top, up, down)

    return schedule


@with_kinds(OpError, strictly=True)
def noam(width: int, *, warmup: int = 4000, scale: float = 1.0) -> Schedule:
    """Return scale / sqrt(width) * min(1 / sqrt(t), t / warmup**1.5): Vaswani et al., 2017.

    `width` is that of the model, `warmup` a number of steps, and t = step + 1.
    """
    require_whole("noam", width=width, warmup=warmup)

    def schedule(block: Block) -> Value:
        t = _step(block) + 1.0
        return scale * width**-0.5 * ops.minimum(ops.rsqrt(t), t * warmup**-1.5)

    return schedule


@with_kinds(OpError, strictly=True)
def linear_warmup(schedule: Rate, *, steps: int, start: float = 0.0) -> Schedule:
    """Return a rate or schedule times a line from `start` at the first step to 1 after `steps`."""
    require_whole("linear_warmup", steps=steps)
    return lambda block: as_schedule(schedule)(block) * (start + (1.0 - start) * _part(block, steps))


@with_kinds(OpError, strictly=True)
def exponential_warmup(schedule: Rate, *, steps: int, start: float = 0.01) -> Schedule:
    """Return a rate or schedule times an exponential from `start` at the first step to 1 after `steps`."""
    require_whole("exponential_warmup", steps=steps)
    if start <= 0:
        raise OpError(f"exponential_warmup: start={start} is not above 0")
    return lambda block: as_schedule(schedule)(block) * start ** (1.0 - _part(block, steps))


@with_kinds(OpError, strictly=True)
def warmup_cosine(peak: Number, *, warmup: float = 0.1, final: float = 0.0) -> Schedule:
    """Return a linear rise to `peak`, then half a cosine down to `final`: Loshchilov and Hutter, 2017.

    Args:
        peak: the highest rate.
        warmup: the steps of the rise, as a fraction of all steps if below 1, else as their number.
        final: the rate after the last step.
    """
    if warmup < 0:
        raise OpError(f"warmup_cosine: warmup={warmup} is negative")
    _ask("warmup_cosine: peak", peak)

    def rate(block: Block) -> Value:
        step = ops.cast(block.state("step"), dtype="float64")
        total = ops.cast(block.state("total_steps"), dtype="float64")
        rise = total * warmup if warmup < 1 else block.constant("float64", warmup)
        rising = peak * (step + 1.0) / ops.maximum(rise, 1.0)
        part = ops.minimum((step - rise) / ops.maximum(total - rise, 1.0), 1.0)
        falling = final + (peak - final) * 0.5 * (1.0 + ops.cos(part * pi))
        return ops.where(step < rise, ops.minimum(rising, peak), falling)

    return rate


@with_settings
def reduce_on_plateau(
    rate: Rate,
    *,
    factor: Number = 0.1,
    patience: Number = 10,
    monitor: str | None = None,
    mode: Literal["min", "max"] | None = None,
    min_delta: Number = 1e-4,
    cooldown: Number = 0,
    min_rate: Number = 0.0,
) -> Schedule:
    """Return a rate or schedule that the run multiplies by `factor` each time a metric stops improving.

    The run judges after each evaluation, or at the end of each epoch if it does not evaluate. The product of the
    factors is a state, so a run that resumes goes on with it. Each number but `rate` may be a setting, too.

    Args:
        rate: the rate before the first reduction, or a schedule.
        factor: factor of each reduction, between 0 and 1.
        patience: number of judged values without improvement before a reduction.
        monitor: the metric, of the evaluation or else of training; "train.loss" and "evaluate.loss" say which. By
            default that of `keep_best`, else "loss".
        mode: "min" if lower values are better, "max" if higher ones are; by default as for `keep_best`.
        min_delta: the improvement that a value must exceed.
        cooldown: number of judged values after a reduction that do not count.
        min_rate: the rate is not reduced below this number.
    """
    plateau = plateau_desc(monitor, mode, factor=factor, patience=patience, min_delta=min_delta, cooldown=cooldown)
    require_within("reduce_on_plateau: min_rate", min_rate, Interval(least=0.0))
    full = as_schedule(rate)

    def schedule(block: Block) -> Value:
        whole = full(block)
        reduced = whole * plateau_scale(block, plateau)
        if not isinstance(min_rate, Value) and min_rate == 0:
            return reduced
        return ops.maximum(reduced, ops.minimum(whole, _float64(block, min_rate)))

    return schedule


def as_schedule(rate: Rate) -> Schedule:
    """Return a schedule; a number or a setting becomes a constant schedule."""
    if isinstance(rate, Value):
        if rate.name not in rate.block.weak or rate.rank != 0:
            raise OpError(f"the rate {rate!r} is neither a number, a setting nor a schedule")
        return constant(rate)
    if isinstance(rate, Real):
        if not (isfinite(rate) and float(rate) >= 0):
            raise OpError(f"the rate {rate} is no finite number from 0 on; to climb, minimize -loss")
        return constant(float(rate))
    if not callable(rate):  # pyright: ignore[reportUnnecessaryIsInstance]: users may not check types
        raise OpError(f"the rate {rate!r} is neither a number, a setting nor a schedule")
    return rate


def _ask(what: str, rate: Number) -> None:
    """Narrow a setting to rates from 0 on; plain numbers are not changed."""
    if isinstance(rate, Value):
        require_within(what, rate, Interval(least=0.0))


def _float64(block: Block, rate: Number) -> Value:
    if not isinstance(rate, Value):
        return block.constant("float64", rate)
    return rate if rate.dtype == "float64" else ops.cast(rate, dtype="float64")


def _step(block: Block) -> Value:
    return ops.cast(block.state("step"), dtype="float64")


def _steps(block: Block, steps: int | None) -> Value:
    """Return that number of steps, or all of the run."""
    if steps is not None:
        return block.constant("float64", steps)
    return ops.maximum(ops.cast(block.state("total_steps"), dtype="float64"), 1.0)


def _part(block: Block, steps: int) -> Value:
    return ops.minimum(_step(block) / steps, 1.0)


def _falling(a: Number, b: Number, part: Value) -> Value:
    """Return half a cosine from a, where `part` is 0, to b, where it is 1."""
    return b + (a - b) * 0.5 * (1.0 + ops.cos(part * pi))


def _begin(n: Value, period: int, growth: float) -> Value:
    return (growth**n - 1.0) * (period / (growth - 1.0))


def __dir__() -> list[str]:
    """Return the names that a notebook completes."""
    own = globals().items()
    return sorted(name for name, thing in own if name[0] != "_" and getattr(thing, "__module__", "") == __name__)


__getattr__ = module_getattr("prograd.schedules", __dir__())
