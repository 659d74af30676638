"""Whole numbers that a user gives: every argument of the builder that counts refuses what a file cannot hold."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from compiler import OpError, Program, look_ahead, ops, schedules, sgd

NONE = [2**63, -(2**63) - 1, 10**30, 2.5, "3", None, True]


def network(**options: object) -> Program:
    program = Program()
    x, w = program.input("x", "float32", ("batch", 4)), program.parameter("w", (4, 2))
    program.minimize(ops.mean((x @ w) ** 2), sgd(0.1), **options)
    return program


CALLS: dict[str, Callable[[object], object]] = {
    "Program: seed": lambda v: Program(seed=v),
    "training: epochs": lambda v: Program().training(epochs=v),
    "training: every": lambda v: Program().training(1, evaluate="test", every=v),
    "training: stop_after": lambda v: Program().training(1, evaluate="test", keep_best="loss", stop_after=v),
    "minimize: accumulate": lambda v: network(accumulate=v),
    "average: every": lambda v: network().average(0.9, every=v),
    "look_ahead: every": lambda v: look_ahead(sgd(0.1), every=v),
    "step: every": lambda v: schedules.step(0.1, every=v),
    "multi_step: milestone": lambda v: schedules.multi_step(0.1, milestones=[v]),
    "piecewise: milestone": lambda v: schedules.piecewise(milestones=[v], rates=[0.1, 0.2]),
    "exponential: every": lambda v: schedules.exponential(0.1, factor=0.5, every=v),
    "inverse_time: every": lambda v: schedules.inverse_time(0.1, factor=0.5, every=v),
    "cosine_restarts: period": lambda v: schedules.cosine_restarts(0.1, period=v),
    "noam: width": lambda v: schedules.noam(v),
    "linear_warmup: steps": lambda v: schedules.linear_warmup(0.1, steps=v),
    "exponential_warmup: steps": lambda v: schedules.exponential_warmup(0.1, steps=v),
}


@pytest.mark.parametrize("value", NONE, ids=str)
@pytest.mark.parametrize("argument", CALLS)
def test_what_is_no_whole_number_of_64_bits_is_refused_in_a_sentence(argument: str, value: object):
    with pytest.raises(OpError) as error:
        CALLS[argument](value)
    assert str(error.value).endswith(f"{argument}={value!r} is not a whole number of at most 64 bits")


@pytest.mark.parametrize("value", [2**63, 2.5, True])
@pytest.mark.parametrize("part", ["start", "stop", "step"])
def test_the_rows_of_a_split_are_whole_numbers(part: str, value: object):
    rows = {"start": 0, "stop": 8, "step": 1} | {part: value}
    with pytest.raises(OpError) as error:
        network().data(
            "rows.npz",
            splits={"some": slice(rows["start"], rows["stop"], rows["step"])},
            shuffle=False,
            remainder="drop",
        )
    assert str(error.value).endswith(
        f"data: the split 'some': {part}={value!r} is not a whole number of at most 64 bits"
    )


@pytest.mark.parametrize("value", [2**63, 10**30, -1, 2.5, True])
def test_an_extent_is_a_size_that_a_file_can_hold(value: object):
    for declare in (lambda: Program().input("x", "float32", (value,)), lambda: Program().parameter("x", (value,))):
        with pytest.raises(OpError) as error:
            declare()
        assert str(error.value).endswith(f"'x': the extent {value!r} is neither a size nor the name of a symbol")


def test_the_largest_seeds_are_kept():
    for seed in (2**63 - 1, -(2**63)):
        program = network()
        program.seed = seed
        assert program.compile(batch=2).desc.seed == seed
