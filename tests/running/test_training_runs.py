"""Whole training runs against loops written out in NumPy: 50 losses each, in float64, to ten digits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from subjects.models import MODELS, Arrays, Model, start_of
from subjects.steps import Stepper

from compiler import Program, adam, constant, global_norm, momentum, ops, sgd, warmup_cosine
from compiler.train.optimizers import Optimizer

STEPS = 50

Rule = Callable[[int, np.ndarray, np.ndarray, dict[str, np.ndarray], float], np.ndarray]


@dataclass(frozen=True)
class Training:
    """An optimizer in both forms; a rule gives the new parameter and changes its slots."""

    optimizer: Callable[[], Optimizer]
    rule: Rule
    rate: Callable[[int], float]
    limit: float = np.inf


# Optimizers


def sgd_rule(step: int, w: np.ndarray, g: np.ndarray, slots: Arrays, rate: float) -> np.ndarray:
    return w - rate * g


def velocity_rule(step: int, w: np.ndarray, g: np.ndarray, slots: Arrays, rate: float) -> np.ndarray:
    slots["velocity"] = 0.9 * slots.get("velocity", 0) + g
    return w - rate * slots["velocity"]


def nesterov_rule(step: int, w: np.ndarray, g: np.ndarray, slots: Arrays, rate: float) -> np.ndarray:
    slots["velocity"] = 0.8 * slots.get("velocity", 0) + g
    return w - rate * (g + 0.8 * slots["velocity"])


def adam_rule(step: int, w: np.ndarray, g: np.ndarray, slots: Arrays, rate: float) -> np.ndarray:
    slots["m"] = 0.9 * slots.get("m", 0) + 0.1 * g
    slots["v"] = 0.999 * slots.get("v", 0) + 0.001 * g * g
    mean, square = slots["m"] / (1 - 0.9 ** (step + 1)), slots["v"] / (1 - 0.999 ** (step + 1))
    return w - rate * mean / (np.sqrt(square) + 1e-8)


def always(rate: float) -> Callable[[int], float]:
    return lambda step: rate


def cosine(step: int) -> float:
    """Ten steps up to 0.2, forty down to 0.01."""
    if step < 10:
        return 0.2 * (step + 1) / 10
    return 0.01 + 0.19 * (1 + np.cos(np.pi * (step - 10) / 40)) / 2


TRAININGS = {
    "sgd": Training(lambda: sgd(0.1), sgd_rule, always(0.1)),
    "momentum": Training(lambda: momentum(0.02), velocity_rule, always(0.02)),
    "nesterov": Training(lambda: momentum(0.02, momentum=0.8, nesterov=True), nesterov_rule, always(0.02)),
    "adam": Training(lambda: adam(0.05), adam_rule, always(0.05)),
    "cosine": Training(lambda: sgd(warmup_cosine(0.2, warmup=0.2, final=0.01)), sgd_rule, cosine),
    "cosine by steps": Training(lambda: adam(warmup_cosine(0.2, warmup=10, final=0.01)), adam_rule, cosine),
    "clipped": Training(lambda: sgd(0.1, clip=global_norm(0.3)), sgd_rule, always(0.1), limit=0.3),
    "clipped momentum": Training(
        lambda: momentum(warmup_cosine(0.2, warmup=0.2, final=0.01), clip=global_norm(0.05)),
        velocity_rule,
        cosine,
        limit=0.05,
    ),
}

CASES = [("linear", training) for training in TRAININGS] + [
    ("layers", "sgd"),
    ("layers", "adam"),
    ("layers", "clipped momentum"),
    ("images", "nesterov"),
    ("images", "cosine by steps"),
    ("images", "clipped"),
]


@dataclass(frozen=True)
class Scales:
    """Options of one parameter."""

    rate: float = 1.0
    decay: float = 1.0
    trainable: bool = True


def losses_of_the_program(
    model: Model, optimizer: Optimizer, start: Arrays, feeds: Arrays, scales: dict[str, Scales]
) -> list[float]:
    program = Program()
    w = {
        name: program.parameter(
            name,
            shape,
            constant(0.0),
            dtype="float64",
            trainable=scales.get(name, Scales()).trainable,
            rate_scale=scales.get(name, Scales()).rate,
            decay_scale=scales.get(name, Scales()).decay,
        )
        for name, shape in model.parameters.items()
    }
    program.minimize(model.build(program, w), optimizer)
    stepper = Stepper(program.compile(rows=len(feeds["x"])))
    stepper.states.arrays["total_steps"][...] = STEPS
    for name, array in start.items():
        stepper.states.arrays[name][...] = array
    return [float(stepper.step(**feeds)["loss"]) for _ in range(STEPS)]


def losses_by_hand(
    model: Model, training: Training, decay: float, start: Arrays, feeds: Arrays, scales: dict[str, Scales]
) -> list[float]:
    w = {name: array.copy() for name, array in start.items()}
    slots: dict[str, Arrays] = {name: {} for name in w}
    losses: list[float] = []
    for step in range(STEPS):
        loss, grads = model.by_hand(w, feeds)
        losses.append(loss)
        grads = {name: grad for name, grad in grads.items() if scales.get(name, Scales()).trainable}
        norm = np.sqrt(sum(np.sum(g * g) for g in grads.values()))
        factor = min(training.limit / (norm + 1e-6), 1.0)
        for name, grad in grads.items():
            own = scales.get(name, Scales())
            g = grad * factor + decay * own.decay * w[name]
            w[name] = training.rule(step, w[name], g, slots[name], training.rate(step) * own.rate)
    return losses


@pytest.mark.parametrize(("model", "training"), CASES)
def test_a_run_has_the_losses_of_the_loop_by_hand(model: str, training: str):
    start, feeds = start_of(MODELS[model])
    found = losses_of_the_program(MODELS[model], TRAININGS[training].optimizer(), start, feeds, {})
    wanted = losses_by_hand(MODELS[model], TRAININGS[training], 0.0, start, feeds, {})
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-15)  # a tiny loss is the logarithm of nearly 1
    assert wanted[-1] < wanted[0], "it learns"


@pytest.mark.parametrize(
    ("make", "training"),
    [
        (lambda: sgd(0.1, decay=0.03), "sgd"),
        (lambda: momentum(0.02, momentum=0.8, nesterov=True, decay=0.03), "nesterov"),
        (lambda: adam(0.05, decay=0.03), "adam"),
        (lambda: sgd(0.1, decay=0.03, clip=global_norm(0.3)), "clipped"),
    ],
)
def test_decay_is_added_to_the_gradient_after_clipping_and_parameters_may_have_their_own_scales(
    make: Callable[[], Optimizer], training: str
):
    scales = {"b1": Scales(decay=0.0), "w2": Scales(rate=0.25, decay=2.0), "b2": Scales(trainable=False)}
    start, feeds = start_of(MODELS["layers"])
    found = losses_of_the_program(MODELS["layers"], make(), start, feeds, scales)
    wanted = losses_by_hand(MODELS["layers"], TRAININGS[training], 0.03, start, feeds, scales)
    np.testing.assert_allclose(found, wanted, rtol=1e-10)


def test_the_rate_is_reported_and_after_the_last_step_it_is_the_final_one():
    program = Program()
    w = program.parameter("w", (), constant(1.0), dtype="float64")
    program.minimize(w * w, sgd(warmup_cosine(0.2, warmup=0.2, final=0.01)))
    stepper = Stepper(program.compile())
    stepper.states.arrays["total_steps"][...] = STEPS
    rates = [float(stepper.step()["rate"]) for _ in range(STEPS + 5)]
    np.testing.assert_allclose(rates[:STEPS], [cosine(step) for step in range(STEPS)], rtol=1e-12)
    np.testing.assert_allclose(rates[STEPS:], 0.01, rtol=1e-12)
    assert stepper.states.arrays["step"] == STEPS + 5


def test_a_global_norm_scales_float32_and_float64_gradients_together():
    program = Program()
    v = program.parameter("v", (2,), constant(3.0), dtype="float32")
    w = program.parameter("w", (2,), constant(4.0), dtype="float64")
    loss = ops.cast(ops.sum(ops.square(v)), dtype="float64") * 0.5 + ops.sum(ops.square(w)) * 0.5
    program.minimize(loss, sgd(1.0, clip=global_norm(1.0)))
    stepper = Stepper(program.compile())
    stepper.step()
    norm = np.sqrt(2 * 9 + 2 * 16)
    np.testing.assert_allclose(stepper.states.arrays["v"], 3 - 3 / norm, rtol=1e-6)
    np.testing.assert_allclose(stepper.states.arrays["w"], 4 - 4 / norm, rtol=1e-6)


def test_small_gradients_are_not_clipped():
    program = Program()
    w = program.parameter("w", (2,), constant(0.25), dtype="float64")
    program.minimize(ops.sum(ops.square(w)), sgd(0.5, clip=global_norm(1.0)))
    stepper = Stepper(program.compile())
    stepper.step()
    assert stepper.states.arrays["w"].tolist() == [0, 0]
