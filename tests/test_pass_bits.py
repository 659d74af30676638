"""Merging, simplifying and folding change no bit: of the examples' states, and of whatever random programs compute."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from interpret import interpret
from odd_networks import odd_feeds, odd_network
from steps import Stepper, bound_block, same_bits

import runtime
from compiler.bind_dimensions import bind_dimensions
from compiler.dead_ops import eliminate_dead_ops
from compiler.fold_constants import fold_constants
from compiler.inference_forms import use_inference_forms
from compiler.merge_identical import merge_identical
from compiler.pipeline import PASSES, Pass, run_passes
from compiler.simplify import simplify
from prograd_proto import program_pb2 as pb
from prograd_proto.files import load, save

SHORTER = (fold_constants, simplify, merge_identical)
WITHOUT = tuple(change for change in PASSES if change not in SHORTER)
EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.pb"))

each_pass = pytest.mark.parametrize(
    "passes", [*((p,) for p in SHORTER), SHORTER], ids=["fold", "simplify", "merge", "all"]
)


def plain(seed: int) -> pb.ProgramDesc:
    """A random program, bound, and nothing else done."""
    program = odd_network(seed)._assembled()
    program.entries[0].bindings.add()
    run_passes(program, (use_inference_forms, eliminate_dead_ops, bind_dimensions))
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


def test_a_random_program_that_is_compiled_again_stays_as_it_is():
    for seed in range(60):
        program = plain(seed)
        run_passes(program)
        again = copied(program)
        run_passes(again)
        assert again.SerializeToString(deterministic=True) == program.SerializeToString(deterministic=True)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_trains_to_the_same_states_with_and_without_each_pass(example: Path, tmp_path: Path):
    for file in load(example).files:
        shutil.copy(example.parent / file.path, tmp_path)
    hashes, counts = set[str](), Counter[str]()
    for name, left_out in [("none", SHORTER), *((p.__name__, {*SHORTER} - {p}) for p in SHORTER), ("all", ())]:
        program = load(example)
        run_passes(program, tuple(change for change in PASSES if change not in left_out))
        save(program, tmp_path / f"{name}.pb")
        counts[name] = len(bound_block(program).ops)
        run = runtime.load(tmp_path / f"{name}.pb")
        metrics = [event.metrics for event in run.train(steps=2) if isinstance(event, runtime.StepEnd)]
        hashes.add(run.states.sha256() + str(metrics[0]))
    assert len(hashes) == 1
    assert counts["all"] == min(counts.values()) < counts["none"]
