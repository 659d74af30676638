"""Schedules over a run of 40 steps and beyond, against the formulas in Python."""

from __future__ import annotations

from collections.abc import Callable
from math import cos, pi

import numpy as np
import pytest
from subjects.commands import told
from subjects.steps import Stepper

from compiler import OpError, Program, initialisers, schedules, sgd
from compiler.train.schedules import Schedule

STEPS = 40


def half_cosine(a: float, b: float, part: float) -> float:
    return b + (a - b) * (1 + cos(pi * part)) / 2


def restarts(growing: int) -> Callable[[int], float]:
    """One step at a time, with a counter that starts anew."""

    def rate(step: int) -> float:
        length, at = 4, 0
        for _ in range(step):
            at += 1
            if at == length:
                length, at = length * growing, 0
        return half_cosine(0.5, 0.1, at / length)

    return rate


def one_cycle(linear: bool) -> Callable[[int], float]:
    def rate(step: int) -> float:
        top = 0.25 * STEPS - 1
        part, a, b = (step / top, 0.02, 0.5) if step <= top else ((step - top) / (STEPS - 1 - top), 0.5, 0.0002)
        part = min(part, 1)
        return a + (b - a) * part if linear else half_cosine(a, b, part)

    return rate


SCHEDULES: dict[str, tuple[Schedule, Callable[[int], float]]] = {
    "constant": (schedules.constant(0.3), lambda t: 0.3),
    "step": (schedules.step(0.3, every=7, factor=0.5), lambda t: 0.3 * 0.5 ** (t // 7)),
    "multi_step": (
        schedules.multi_step(0.3, milestones=[5, 20, 20], factor=0.5),
        lambda t: 0.3 * 0.5 ** ((t >= 5) + 2 * (t >= 20)),
    ),
    "piecewise": (
        schedules.piecewise(milestones=[5, 20], rates=[0.1, schedules.exponential(0.4, factor=0.9), 0.2]),
        lambda t: 0.1 if t < 5 else 0.4 * 0.9**t if t < 20 else 0.2,
    ),
    "exponential": (schedules.exponential(0.3, factor=0.9, every=4), lambda t: 0.3 * 0.9 ** (t / 4)),
    "inverse_time": (schedules.inverse_time(0.3, factor=0.5, every=4), lambda t: 0.3 / (1 + 0.5 * t / 4)),
    "polynomial": (
        schedules.polynomial(0.3, power=2.0, final=0.1),
        lambda t: 0.1 + 0.2 * (1 - min(t, STEPS) / STEPS) ** 2,
    ),
    "polynomial of some steps": (schedules.polynomial(0.3, steps=9), lambda t: 0.3 * (1 - min(t, 9) / 9)),
    "cosine": (schedules.cosine(0.3, final=0.1), lambda t: half_cosine(0.3, 0.1, min(t / STEPS, 1))),
    "cosine of some steps": (schedules.cosine(0.3, steps=9), lambda t: half_cosine(0.3, 0, min(t / 9, 1))),
    "cosine_restarts": (schedules.cosine_restarts(0.5, period=4, final=0.1), restarts(1)),
    "cosine_restarts, longer": (schedules.cosine_restarts(0.5, period=4, growth=2, final=0.1), restarts(2)),
    "cosine_restarts, three times": (schedules.cosine_restarts(0.5, period=4, growth=3, final=0.1), restarts(3)),
    "one_cycle": (schedules.one_cycle(0.5, rise=0.25, final_divisor=100), one_cycle(False)),
    "one_cycle by lines": (schedules.one_cycle(0.5, rise=0.25, final_divisor=100, linear=True), one_cycle(True)),
    "noam": (
        schedules.noam(64, warmup=10, scale=2.0),
        lambda t: 2 * 64**-0.5 * min((t + 1) ** -0.5, (t + 1) * 10**-1.5),
    ),
    "linear_warmup": (
        schedules.linear_warmup(schedules.exponential(0.3, factor=0.9), steps=8, start=0.25),
        lambda t: 0.3 * 0.9**t * (0.25 + 0.75 * min(t / 8, 1)),
    ),
    "linear_warmup of a number": (schedules.linear_warmup(0.3, steps=8), lambda t: 0.3 * min(t / 8, 1)),
    "exponential_warmup": (
        schedules.exponential_warmup(schedules.cosine(0.3), steps=8, start=0.01),
        lambda t: half_cosine(0.3, 0, min(t / STEPS, 1)) * 0.01 ** (1 - min(t / 8, 1)),
    ),
}


def rates_of(schedule: Schedule, steps: int = STEPS + 6) -> list[float]:
    program = Program()
    w = program.parameter("w", (), initialisers.constant(1.0))
    program.minimize(w * w, sgd(schedule))
    stepper = Stepper(program.compile())
    stepper.states.arrays["total_steps"][...] = STEPS
    return [float(stepper.step()["rate"]) for _ in range(steps)]


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_is_its_formula(name: str):
    schedule, formula = SCHEDULES[name]
    np.testing.assert_allclose(rates_of(schedule), [formula(t) for t in range(STEPS + 6)], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: schedules.step(0.1, every=0), "step: every=0; it starts at 1"),
        (lambda: schedules.noam(0), "noam: width=0; it starts at 1"),
        (lambda: schedules.cosine_restarts(0.1, period=3, growth=0.5), "cosine_restarts: growth=0.5 is below 1"),
        (lambda: schedules.exponential_warmup(0.1, steps=3, start=0.0), "exponential_warmup: start=0.0 is not above 0"),
        (
            lambda: schedules.piecewise(milestones=[3, 2], rates=[0.1, 0.2, 0.3]),
            "piecewise: 3 rates and the milestones [3, 2]; milestones rise, and there is one rate more",
        ),
    ],
)
def test_a_schedule_that_makes_no_sense_is_an_error(call: Callable[[], object], sentence: str):
    assert told(OpError, call) == sentence
