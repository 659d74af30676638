"""Memory plans that lie: a plan changed at random is refused, or changes no bit of a step."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from subjects.steps import Oracle, Stepper, bound_block, same_bits

from prograd_proto import ProgramError, type_of
from prograd_proto import program_pb2 as pb
from prograd_proto.files import load
from runtime.engines.reference.target import REFERENCE
from runtime.step import check_plans

CORPUS = sorted((Path(__file__).parents[1] / "golden" / "compiled").glob("*.pb"))


@cache
def whole(path: Path) -> tuple[pb.ProgramDesc, dict[str, np.ndarray], dict[str, np.ndarray], dict[str, np.ndarray]]:
    """A program, rows for it, and what a step without any plan fetches and leaves in the states."""
    program = load(path)
    oracle = Oracle(program, Stepper(program).snapshot())
    block = bound_block(program)
    types = {tensor.name: type_of(tensor) for tensor in block.tensors}
    rng = np.random.default_rng(0)
    rows = {
        p.feed: (3 * rng.random(types[p.tensor].static_shape)).astype(types[p.tensor].dtype)
        for p in block.parameters
        if p.WhichOneof("source") == "feed"
    }
    return program, rows, oracle.step(**rows), oracle.states


@pytest.mark.sampled(12)
@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
@settings(max_examples=25)
@given(data=st.data())
def test_a_plan_that_was_changed_is_refused_or_changes_no_bit(path: Path, data: st.DataObject):
    program, rows, fetched, states = whole(path)
    attacked = pb.ProgramDesc()
    attacked.CopyFrom(program)
    plan = attacked.entries[0].bindings[0].plan
    assume(plan.placements)
    for _ in range(data.draw(st.integers(1, 4))):
        attack(data, plan)
    try:
        check_plans(attacked, REFERENCE)
    except ProgramError:
        with pytest.raises(ProgramError):  # the runtime asks for itself, whoever checked before
            Stepper(attacked, plan=plan)
        return
    stepper = Stepper(attacked, plan=plan)
    same_bits(stepper.step(**rows), fetched)
    same_bits(stepper.snapshot(), states)


def attack(data: st.DataObject, plan: pb.MemoryPlan) -> None:
    """Move a tensor onto another, a little, or anywhere; name one twice; another size of the arena or the file."""
    places = plan.spilled if plan.spilled and data.draw(st.booleans()) else plan.placements
    one, other = (data.draw(st.sampled_from(range(len(places)))) for _ in range(2))
    match data.draw(st.integers(0, 6)):
        case 0:
            places[one].offset = places[other].offset
        case 1:
            places[one].offset += data.draw(st.sampled_from([-64, -4, 1, 4, 64, 128, 1 << 40]))
        case 2:
            places[one].offset = data.draw(st.integers(-64, plan.arena_bytes + 64))
        case 3:
            places[one].tensor = places[other].tensor
        case 4:
            places.add().CopyFrom(places[other])
        case 5:
            plan.arena_bytes = max(0, plan.arena_bytes - data.draw(st.sampled_from([1, 64, 1 << 30])))
        case _:
            plan.file_bytes = data.draw(st.sampled_from([0, 64, 1 << 20]))
