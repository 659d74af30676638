"""Merging, simplifying and folding change no bit: of the examples' states, and of whatever random programs compute."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from oracles.interpret import interpret
from subjects.odd_networks import odd_feeds, odd_network
from subjects.steps import Stepper, bound_block, same_bits

import runtime
from compiler import Program, ops
from compiler.passes.pass_table import Pass
from compiler.passes.pipeline import PASSES
from compiler.passes.run_passes import run_passes
from prograd_proto import program_pb2 as pb
from prograd_proto.files import load, save

SHORTER = ("fold_constants", "simplify", "merge_identical")
EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.pb"))

each_pass = pytest.mark.parametrize(
    "passes", [*(PASSES.only(p) for p in SHORTER), PASSES.only(*SHORTER)], ids=["fold", "simplify", "merge", "all"]
)


def plain(seed: int) -> pb.ProgramDesc:
    """A random program, bound, and nothing else done."""
    program = odd_network(seed)._assembled()
    program.entries[0].bindings.add()
    run_passes(program, PASSES.only("use_inference_forms", "eliminate_dead_ops", "bind_dimensions"))
    return program


def copied(program: pb.ProgramDesc) -> pb.ProgramDesc:
    copy = pb.ProgramDesc()
    copy.CopyFrom(program)
    return copy


def outputs(program: pb.ProgramDesc, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    block = bound_block(program, "predict")
    read = {parameter.tensor for parameter in block.parameters}
    arrays = interpret(block, {name: array for name, array in feeds.items() if name in read})
    return {fetch.name: arrays[fetch.tensor] for fetch in block.fetches}


@pytest.mark.thorough
@each_pass
def test_a_random_program_gives_the_same_bits(passes: tuple[Pass, ...]):
    shorter = 0
    for seed in range(60):
        before = plain(seed)
        after = copied(before)
        run_passes(after, passes)
        feeds = odd_feeds(bound_block(before, "predict"), seed)
        same_bits(outputs(after, feeds), outputs(before, feeds))
        shorter += len(bound_block(after, "predict").ops) < len(bound_block(before, "predict").ops)
    assert shorter > 40


def test_a_random_program_gives_the_same_bits_when_it_runs():
    for seed in range(20):
        before = plain(seed)
        after = copied(before)
        run_passes(after)
        feeds = odd_feeds(bound_block(before, "predict"), seed)
        names = {p.tensor: p.feed for p in bound_block(after, "predict").parameters}
        run = Stepper(after, "predict")
        same_bits(run.step(**{names[t]: array for t, array in feeds.items() if t in names}), outputs(before, feeds))


PAYLOADS = {
    np.dtype("float32"): (0x7FC00001, 0xFFC00002, 0x7FC0FFFF),
    np.dtype("float64"): (0x7FF8 << 48 | 1, 2**64 - 2),
}


@pytest.mark.thorough
def test_where_different_nans_meet_every_bit_is_the_same_but_which_of_them_goes_on():
    for seed in range(40):
        before = plain(seed)
        after = copied(before)
        run_passes(after)
        feeds = odd_feeds(bound_block(before, "predict"), seed)
        rng = np.random.default_rng(seed)
        for array in feeds.values():
            if array.dtype in PAYLOADS:
                payloads = np.array(PAYLOADS[array.dtype], f"u{array.itemsize}").view(array.dtype)
                array[...] = np.where(rng.random(array.shape) < 0.3, rng.choice(payloads, array.shape), array)
        names = {p.tensor: p.feed for p in bound_block(after, "predict").parameters}
        found = Stepper(after, "predict").step(**{names[t]: array for t, array in feeds.items()})
        same_bits(with_one_nan(found), with_one_nan(outputs(before, feeds)))


def with_one_nan(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {
        n: np.where(np.isnan(a), np.nan, a).astype(a.dtype) if a.dtype.kind == "f" else a for n, a in arrays.items()
    }


def test_one_nan_keeps_its_bits_whatever_it_meets():
    def payload(left_out: tuple[str, ...]) -> int:
        program = Program()
        x, y = program.input("x", "float32", (3,)), program.input("y", "float32", (3,))
        program.outputs(z=ops.square((x + y) * 2.0 - y))
        desc = program._assembled()
        desc.entries[0].bindings.add()
        run_passes(desc, PASSES.without(*left_out))
        nan = np.full(3, 0x7FC00123, np.uint32).view(np.float32)
        return int(Stepper(desc, "predict").step(x=nan, y=np.float32(2))["z"].view(np.uint32)[0])

    assert {payload(()), payload(SHORTER)} == {0x7FC00123}


@pytest.mark.thorough
def test_a_random_program_that_is_compiled_again_stays_as_it_is():
    for seed in range(60):
        program = plain(seed)
        run_passes(program)
        again = copied(program)
        run_passes(again)
        assert again.SerializeToString(deterministic=True) == program.SerializeToString(deterministic=True)


@pytest.mark.thorough
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_trains_to_the_same_states_with_and_without_each_pass(example: Path, tmp_path: Path):
    for file in load(example).files:
        shutil.copy(example.parent / file.path, tmp_path)
    hashes, counts = set[str](), Counter[str]()
    for name, left_out in [("none", SHORTER), *((p, {*SHORTER} - {p}) for p in SHORTER), ("all", ())]:
        program = load(example)
        run_passes(program, PASSES.without(*left_out))
        save(program, tmp_path / f"{name}.pb")
        counts[name] = len(bound_block(program).ops)
        run = runtime.load(tmp_path / f"{name}.pb")
        metrics = [event.metrics for event in run.events(steps=2) if isinstance(event, runtime.StepEnd)]
        hashes.add(run.states.sha256() + str(metrics[0]))
    assert len(hashes) == 1
    assert counts["all"] == min(counts.values()) < counts["none"]
