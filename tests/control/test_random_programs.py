"""Random programs with conditions and loops from fixed seeds; `python -m fuzz.control_flow` tries many."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fuzz.control_flow.draw import drawn
from fuzz.control_flow.judge import judged, known_digits
from fuzz.control_flow.tree import Body, printed

from registry.control import gradients


def faults(seed: int, *judges: str) -> list[str]:
    return [text for text in judged(seed, judges) if not text.startswith("skipped")]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", [1, 4, 9, 14, 16, 19])
def test_random_programs_have_the_gradients_of_differences(seed: int):
    assert faults(seed, "differences") == []


@pytest.mark.parametrize("seed", [1, 6, 9])
def test_random_programs_have_the_bits_of_other_ways_to_run(seed: int):
    assert faults(seed, "bits") == []


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [4, 19])
def test_random_programs_have_the_results_of_the_native_engine(seed: int):
    assert faults(seed, "native") == []


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(100, 112))
def test_more_random_programs_have_the_results_of_every_judge(seed: int):
    assert faults(seed, "differences", "native", "bits") == []


def test_the_programs_have_each_kind_of_control_flow_two_deep():
    found = set[tuple[str, ...]]()

    def walk(body: Body, around: tuple[str, ...]) -> None:
        for node in body.nodes:
            if node.bodies:
                found.add((*around, node.call))
                for inner in node.bodies:
                    walk(inner, (*around, node.call))

    for seed in range(60):
        walk(drawn(seed).body, ())
    calls = "cond", "scan", "loop"
    assert {(one, other) for one in calls for other in calls} <= found
    assert any(array.shape[:1] == (0,) for seed in range(60) for array in drawn(seed).feeds)


def test_a_gradient_that_is_not_added_up_is_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gradients._Loop, "_added", lambda self, joint, sum, argument: sum)
    assert any(faults(seed, "differences") for seed in range(10))


def test_programs_are_printed():
    tree = drawn(4)
    text = printed(tree.body, len(tree.feeds))
    assert text.count("->") > 1
    assert "bodies" not in text


def test_a_fault_is_skipped_only_if_last_bits_of_the_feeds_change_as_much():
    tree = drawn(0)
    feeds = tuple(np.full(3, 0.3) if x.dtype.kind == "f" else x for x in tree.feeds)

    def oracle(factor: float):
        return lambda tree, directions: (
            [np.sin(sum(x.sum() for x in tree.feeds if x.dtype.kind == "f") * factor)],
            [],
            [],
        )

    listed = [("y0", 1e-6, "torch: y0: is off")]
    tree = replace(tree, feeds=feeds)
    assert list(known_digits(iter(listed), oracle(1.0), 0, tree, ())) == ["torch: y0: is off"]
    assert list(known_digits(iter(listed), oracle(1e12), 0, tree, ())) == [
        "skipped: ill-conditioned: torch: y0: is off"
    ]
