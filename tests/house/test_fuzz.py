"""Random programs and single operators from fixed seeds, past faults, and whether the judges catch planted ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from fuzz import judging, operators, variants
from fuzz.building import Building
from fuzz.generate import generated
from fuzz.makers import MAKERS, NOT_DRAWN
from fuzz.recipe import Recipe, Step, code
from fuzz.shrink import shrunk
from fuzz.variants import VARIANTS, Subject, Variant
from fuzz.verdict import Verdict
from subjects.steps import bound_blocks

from compiler import ops
from compiler.passes.pass_table import Pass
from compiler.passes.pipeline import PASSES
from prograd_proto.blocks import BlockAnalyses
from registry import OPS
from registry.table import SPELLED
from runtime.engines.reference.kernels import KERNELS

CORPUS = sorted((Path(__file__).parents[1] / "fuzz/corpus").glob("*.json"))
PROGRAMS, CALLS = 80, 250
"""Seeds that every run of the tests tries."""


def faults(verdicts: list[Verdict]) -> list[str]:
    return [str(v) for v in verdicts if v.word in ("differs", "raised")]


def test_every_operator_is_drawn_or_has_a_reason_not_to_be():
    assert sorted([*MAKERS, *NOT_DRAWN]) == sorted([*OPS, *SPELLED])


def test_every_operator_is_compared_with_pytorch_or_has_a_reason_not_to_be():
    pytest.importorskip("torch", reason='needs PyTorch: pip install -e ".[test,frameworks]"')
    from fuzz.pytorch import DRAWN, MASKED
    from fuzz.torch_ops import NOT_COMPARED, TORCH

    assert sorted({*TORCH, *NOT_COMPARED, *DRAWN, *MASKED}) == sorted(MAKERS)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("start", range(0, PROGRAMS, 10))
def test_random_programs_have_the_gradients_and_the_bits_of_every_judge(start: int):
    found: dict[int, list[str]] = {}
    for seed in range(start, start + 10):
        building = generated(seed).building
        chosen = judging.pick(seed, 1)
        found[seed] = faults(judging.judged(building, seed, chosen, ("differences",), symbol=seed % 3 == 0))
    assert {seed: said for seed, said in found.items() if said} == {}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("start", range(0, CALLS, 50))
def test_random_calls_have_the_gradients_and_the_bits_of_every_judge(start: int):
    found: dict[int, list[str]] = {}
    for seed in range(start, start + 50):
        draw, _ = operators.drawn(seed, orders=2)
        found[seed] = faults(judging.judged(draw.building, seed, [], ("differences",)))
    assert {seed: said for seed, said in found.items() if said} == {}


@pytest.mark.thorough
@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_what_once_failed_does_no_more(path: Path):
    building = Building.of(Recipe.from_json(path.read_text(encoding="utf-8")))
    assert faults(judging.judged(building, 0, VARIANTS, ("differences",))) == []


def test_a_recipe_is_the_program_that_its_generator_has_built():
    built = generated(3).building
    again = Building.of(Recipe.from_json(built.recipe.to_json()))
    assert again.program._assembled() == built.program._assembled()
    names: dict[str, object] = {}
    exec(code(built.recipe), names)
    mine, theirs = names["program"]._assembled(), built.program._assembled()  # type: ignore[attr-defined]
    assert [op.type for op in mine.blocks[0].ops] == [op.type for op in theirs.blocks[0].ops]


# Planted faults: a wrong judge is worse than none


def recipe_of(*lines: tuple[str, tuple[str, ...]]) -> Recipe:
    """Calls of operators, one after the other, on x [2, 3] and y [2, 3]; the last result is v."""
    building = Building(1)
    for seed, name in enumerate("xy"):
        feed = np.random.default_rng(seed).normal(size=(2, 3))
        building.add(Step("input", (), {"dtype": "float64", "shape": (2, 3)}, (name,)), feed)
    for call, (*operands, result) in lines:
        building.add(Step(call, tuple(operands), {}, (result,)))
    building.add(Step("gradients", (("v",), ("x", "y"), (None,)), {}, ("gx", "gy"), listed=True))
    building.add(Step("gradients", (("gx",), ("x", "y"), (None,)), {}, ("hx", "hy"), listed=True))
    building.add(Step("outputs", named={"v": "v", "gx": "gx", "hx": "hx"}))
    return building.recipe


PRODUCT = (("mul", ("x", "y", "a")), ("tanh", ("a", "b")), ("mul", ("b", "b", "c")), ("add", ("c", "x", "v")))


def said(recipe: Recipe, *chosen: Variant) -> list[Verdict]:
    return [v for v in judging.judged(Building.of(recipe), 0, chosen, ("differences",)) if v.word != "agreed"]


def test_without_a_planted_fault_all_agree():
    assert said(recipe_of(*PRODUCT), *VARIANTS[:3]) == []


def test_differences_find_a_gradient_rule_that_is_a_little_wrong(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(OPS["tanh"], "gradient_rule", lambda y, dy: dy * (1.0 - y * y) * 1.0001)
    assert {(v.word, v.judge) for v in said(recipe_of(*PRODUCT))} == {("differs", "differences")}


def test_differences_find_a_second_order_that_is_wrong_only_there(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(OPS["tanh"], "gradient_rule", lambda y, dy: dy * (1.0 - ops.stop_gradient(y * y)))
    building = Building.of(recipe_of(*PRODUCT))
    building.stopped.clear()  # the rule may not say that its own cut is meant
    verdicts = judging.judged(building, 0, [], ("differences",))
    assert [v.word for v in verdicts] == ["agreed", "differs"]


def test_bits_find_a_pass_that_reads_another_tensor():
    def confused(program: BlockAnalyses) -> None:
        for block in bound_blocks(program.desc):
            [first, *_] = [op for op in block.ops if op.type == "tanh"]
            last = next(op for op in reversed(block.ops) if op.type == "mul" and first.outputs[0] in op.inputs)
            last.inputs[1] = first.inputs[0]
        program.forget()

    planted = Variant("planted", lambda s: s.with_passes(PASSES.with_pass(Pass(confused), before="plan_memory")))
    building = Building.of(recipe_of(*PRODUCT))
    subject = Subject.of(building.program, building.recipe.feeds, {}, np.random.default_rng(0))
    assert variants.judge(subject, planted).word == "differs"


def test_bits_find_a_kernel_that_may_not_write_over_its_operand(monkeypatch: pytest.MonkeyPatch):
    def doubled(x: np.ndarray, out: np.ndarray) -> None:
        out.fill(0.0)
        np.add(out, x, out)
        np.tanh(out, out)

    assert (0, 0) in KERNELS["tanh"].in_place
    monkeypatch.setitem(KERNELS, "tanh", KERNELS["tanh"]._replace(function=doubled))
    [verdict] = said(recipe_of(*PRODUCT), VARIANTS[0])
    assert (verdict.word, verdict.judge) == ("differs", "all passes")


def test_poison_finds_a_kernel_that_reads_what_it_has_not_written(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(KERNELS, "tanh", KERNELS["tanh"]._replace(function=lambda x, out: np.add(x, out, out)))
    [poisoned] = [v for v in VARIANTS if v.name == "poisoned"]
    assert [v.word for v in said(recipe_of(*PRODUCT), poisoned) if v.judge == "poisoned"] == ["differs"]


def test_a_failing_program_shrinks_to_the_steps_that_matter(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(OPS["tanh"], "gradient_rule", lambda y, dy: dy * (1.0 + y * y))
    small = shrunk(recipe_of(*PRODUCT), _fails)
    assert [step.call for step in small.steps] == ["input", "tanh", "gradients"]


def _fails(recipe: Recipe) -> bool:
    return judging.fails_again(recipe, Verdict("differs", "differences", ""))
