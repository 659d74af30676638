"""Hostile programs with conditions and loops: changed at random, with stacks of any size, with trips of any number."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import mutations
import pytest
from guards import campaign, trials
from mutations import good_programs, loops, mutated, outcome

from compiler import CompileError, Program, constant, ops, sgd
from prograd_proto import ProgramError
from prograd_proto import program_pb2 as pb
from runtime.check import check_program
from runtime.target import TARGET


@pytest.fixture
def with_loops(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(mutations, "MORE_NETWORKS", [loops])
    good_programs.cache_clear()
    yield
    good_programs.cache_clear()


@pytest.mark.thorough
@pytest.mark.usefixtures("with_loops")
def test_a_program_with_loops_changed_at_random_runs_or_is_refused(tmp_path: Path):
    """`python tests/mutations.py SECONDS --loops` tries more of them."""
    words = [outcome(mutated(seed), tmp_path) for seed in range(40)]
    assert words.count("ran") >= 4
    assert words.count("ProgramError") >= 12


@pytest.mark.thorough
@pytest.mark.usefixtures("with_loops")
def test_a_program_with_loops_changed_at_random_stays_in_its_buffers(capsys: pytest.CaptureFixture[str]):
    """`python tests/mutations.py --guard --loops --count 10000 --jobs 2` tries more of them."""
    pytest.importorskip("llvmlite", reason="the native engine is an extra")
    good_programs()
    counts = campaign.run(lambda seed, folder: trials.mutation(mutated(seed), folder, seed), 0, 12, 1)
    assert campaign.FAULT not in counts, capsys.readouterr().out
    assert counts["ran"] >= 1


def test_stacks_larger_than_a_tensor_are_refused_before_anything_is_allocated():
    program = Program()
    w = program.parameter("w", (3,), constant(0.5))
    last, _ = ops.while_loop(lambda c: ops.sum(c) < 9.0, lambda c: ops.sin(c) + w, w, max_trips=1 << 40)
    program.minimize(ops.sum(last), sgd(0.1))
    with pytest.raises((CompileError, ProgramError), match="tebibyte"):
        program.compile()


@pytest.mark.parametrize(("trips", "sentence"), [(-1, "max_trips=-1 is not 0"), ((1 << 40) + 1, "is not 0, for none")])
def test_a_bound_of_trips_is_itself_bounded(trips: int, sentence: str):
    program = Program()
    x = program.input("x", "float32", (3,))
    program.outputs(y=ops.while_loop(lambda c: ops.sum(c) < 9.0, lambda c: c + 1.0, x)[0])
    desc: pb.ProgramDesc = program.compile().desc
    for block in desc.blocks:
        for attribute in (a for op in block.ops for a in op.attributes if a.name == "max_trips"):
            attribute.int_value = trips
    with pytest.raises(ProgramError, match=sentence):
        check_program(desc, TARGET)


def test_a_loop_that_stores_as_many_rows_as_it_may_make_trips_needs_that_memory_in_its_plan():
    def arena(trips: int) -> int:
        program = Program()
        w = program.parameter("w", (100,), constant(0.5))
        last, _ = ops.while_loop(lambda c: ops.sum(c) < 9.0, lambda c: ops.sin(c) + w, w, max_trips=trips)
        program.minimize(ops.sum(last), sgd(0.1))
        [binding] = program.compile().desc.entries[0].bindings
        return binding.plan.arena_bytes

    assert arena(1 << 20) - arena(1 << 10) >= 400 * ((1 << 20) - (1 << 10))
