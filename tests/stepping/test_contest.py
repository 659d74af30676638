"""Steps at once against steps in order: who runs, for how long, and what a machine that changes its mind costs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from runtime.engines.reference.threads.contest import TRIAL_STEPS_PER_WAY, VERDICT_STEPS, Contest


def steps(contest: Contest, count: int, seconds: Callable[[bool], float]) -> list[bool]:
    """Run steps that take so long, at once or not; which of them ran at once."""
    ran: list[bool] = []
    for _ in range(count):
        ran.append(contest.at_once)
        contest.note(seconds(contest.at_once))
    return ran


@pytest.mark.parametrize("at_once", [True, False])
def test_both_take_turns_then_the_faster_runs_for_ever_longer(at_once: bool):
    contest = Contest()
    for times in (1, 2, 4, 8):
        assert (
            steps(contest, 2 * TRIAL_STEPS_PER_WAY, lambda now: 1.0 if now == at_once else 1.1)
            == [True, False] * TRIAL_STEPS_PER_WAY
        )
        assert steps(contest, times * VERDICT_STEPS, lambda now: 1.0) == [at_once] * (times * VERDICT_STEPS)
    assert contest.at_once, "and turns again"


def test_of_two_that_are_equal_the_steps_in_order_win():
    contest = Contest()
    steps(contest, 2 * TRIAL_STEPS_PER_WAY, lambda now: 1.0)
    assert not contest.at_once


def test_another_verdict_holds_as_short_as_the_first():
    contest = Contest()
    for at_once, holds in (
        (False, VERDICT_STEPS),
        (False, 2 * VERDICT_STEPS),
        (True, VERDICT_STEPS),
        (True, 2 * VERDICT_STEPS),
        (False, VERDICT_STEPS),
    ):
        steps(contest, 2 * TRIAL_STEPS_PER_WAY, lambda now, won=at_once: 1.0 if now == won else 2.0)
        assert steps(contest, holds, lambda now: 1.0) == [at_once] * holds
        assert contest.at_once


def test_what_slows_all_steps_for_a_while_decides_nothing():
    """A disturbance that begins in the middle of the turns, and slows both by the same factor."""
    for begins in range(0, 2 * TRIAL_STEPS_PER_WAY, 2):
        contest, taken = Contest(), iter([1.0] * begins + [3.0] * 2 * TRIAL_STEPS_PER_WAY)
        steps(contest, 2 * TRIAL_STEPS_PER_WAY, lambda now, taken=taken: next(taken) * (0.9 if now else 1.0))
        assert contest.at_once


@pytest.mark.parametrize(("times", "most"), [(0.6, 0.7), (1.5, 1.05)])
def test_a_long_run_takes_about_as_long_as_the_better_way_though_every_step_is_noisy(times: float, most: float):
    """On a busy machine, where a step takes up to twice its time, by whatever way."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        contest, total, plain = Contest(), 0.0, 0.0
        for _ in range(1500):
            noise = rng.uniform(1, 2)
            total += noise * (times if contest.at_once else 1.0)
            plain += noise
            contest.note(noise * (times if contest.at_once else 1.0))
        assert total < most * plain
