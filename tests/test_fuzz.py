"""Random programs and single operators from fixed seeds; and that the judges catch faults that are planted."""

from __future__ import annotations

import pytest
from fuzz import judging
from fuzz.building import Building
from fuzz.generate import generated
from fuzz.makers import MAKERS, NOT_DRAWN
from fuzz.recipe import Recipe, code
from fuzz.verdict import Verdict

from registry import OPS
from registry.spelled import SPELLED


def faults(verdicts: list[Verdict]) -> list[str]:
    return [str(v) for v in verdicts if v.word in ("differs", "raised")]


def test_every_operator_is_drawn_or_has_a_reason_not_to_be():
    assert sorted([*MAKERS, *NOT_DRAWN]) == sorted([*OPS, *SPELLED])


@pytest.mark.parametrize("seed", [0, 2, 3, 5])
def test_a_random_program_has_the_gradients_and_the_bits_of_every_judge(seed: int):
    building = generated(seed).building
    assert faults(judging.judged(building, seed, judging.pick(seed, 3), ("differences",))) == []


def test_a_recipe_is_the_program_that_its_generator_has_built():
    built = generated(3).building
    again = Building.of(Recipe.from_json(built.recipe.to_json()))
    assert again.program._assembled() == built.program._assembled()
    names: dict[str, object] = {}
    exec(code(built.recipe), names)
    assert names["program"]._assembled().states == built.program._assembled().states  # type: ignore[attr-defined]
