"""Plans for threads: within their limit, worth what is said, and with the bits of the plan for the least memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.memory import Placed, is_safe, most_alive
from oracles.poison import Poisoned
from subjects.budgets import deep
from subjects.commands import run_compiler as run
from subjects.random_training import training_programs
from subjects.spilling import spilled
from subjects.steps import Oracle, Stepper, bound_block, bound_blocks, same_bits

from compiler import Program, constant, ops, sgd
from compiler.build.compiled import Compiled
from compiler.commands.plan import room_in_words
from compiler.errors import CompileError
from compiler.passes.plan_memory import plan_of
from compiler.planning.give_room import MAX_ARENA_RATIO, Room, room_of
from compiler.planning.touched_bytes import touched_bytes
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalysis
from prograd_proto.files import load
from runtime.__main__ import main as runtime_main
from runtime.engines.reference.bind import bind
from runtime.engines.reference.target import REFERENCE
from runtime.memory.aligned import aligned_bytes
from runtime.step import dependencies, places_of, places_within
from runtime.step.arithmetic import operations_of
from runtime.step.phases import phases_of, shared_phases


def towers(layers: int = 3, width: int = 32) -> Program:
    """Two stacks of layers that are independent until their outputs are added."""
    program = Program("towers", seed=1)
    outputs = []
    for tower in "ab":
        x = program.input(tower, "float32", ("n", width))
        for layer in range(layers):
            x = ops.relu(x @ program.parameter(f"{tower}{layer}", (width, width), constant(0.01 * (layer + 1))))
        outputs.append(x)
    program.minimize(ops.mean(ops.square(outputs[0] + outputs[1])), sgd(0.01))
    return program


def plans(compiled: Compiled) -> list[pb.MemoryPlan]:
    return [binding.plan for entry in compiled.desc.entries for binding in entry.bindings]


# The bytes that ops touch


@pytest.mark.thorough
@given(training_programs(), st.integers(0, 2), st.randoms(use_true_random=False))
@settings(max_examples=15)
def test_the_compiler_sees_the_hazards_that_the_runtime_finds(program: Program, pairs: int, random: Random):
    stepper = Stepper(spilled(program.compile(rows=16).desc, random.randrange, pairs))
    block = stepper.block
    places = places_of(BlockAnalysis(block), REFERENCE)
    bound = bind(block, stepper.states.arrays, file=aligned_bytes)
    of_runtime = dependencies(bound.touched())
    position = {op.desc.id: i for i, op in enumerate(bound.ops)}
    seen = 0
    for op, needed in zip(block.ops, dependencies(touched_bytes(BlockAnalysis(block), places)), strict=True):
        if op.id not in position:  # a view or a constant: nothing to compute
            assert not needed
            continue
        assert {position[block.ops[j].id] for j in needed} == of_runtime[position[op.id]]
        seen += 1
    assert seen == len(bound.ops)


# Room


def test_two_towers_get_room_and_then_do_twice_as_much_at_once():
    compiled = towers().compile(n=16)
    before = plans(compiled)[0].arena_bytes
    room = compiled.plan(threads=2).bindings[0].room
    assert room is not None
    assert room.tight.arena_bytes == before < plans(compiled)[0].arena_bytes <= MAX_ARENA_RATIO * before
    assert room.tight_gain < 1.5
    assert room.gain > 1.95


def test_a_chain_keeps_the_plan_that_it_had():
    program = Program()
    y = program.input("x", "float32", (8, 8))
    for _ in range(10):
        y = ops.tanh(y @ y)
    program.outputs(y=y)
    compiled = program.compile()
    compiled.plan()
    before = compiled.desc.SerializeToString(deterministic=True)
    room = compiled.plan(threads=4).bindings[0].room
    assert room is not None
    assert (room.gain, room.tight_gain, room.free_gain) == (1, 1, 1)
    assert compiled.desc.SerializeToString(deterministic=True) == before


def test_a_budget_that_has_nothing_left_gives_no_room():
    compiled = towers().compile(n=16)
    compiled.plan()
    before = pb.BlockDesc.FromString(bound_block(compiled.desc).SerializeToString())
    [train, *_] = compiled.plan(plans(compiled)[0].arena_bytes, threads=2).bindings
    assert train.room is not None
    assert train.plan == train.room.tight
    assert train.room.gain == train.room.tight_gain < train.room.free_gain
    assert bound_block(compiled.desc) == before


def test_a_budget_takes_the_place_of_the_limit():
    block = bound_block(towers(layers=2).compile(n=2).desc)
    tight = plan_of(BlockAnalysis(block))
    gains = []
    for times in (1, 1.1, 1.5, 4):
        room = room_of(BlockAnalysis(block), tight, 3, int(times * tight.arena_bytes))
        assert room.plan.arena_bytes <= times * tight.arena_bytes
        gains.append(room.gain)
    assert gains[0] < gains[-1]
    assert room.plan.arena_bytes > MAX_ARENA_RATIO * tight.arena_bytes


def test_what_runs_again_stays_in_its_order_and_within_the_budget():
    compiled = deep(depth=4).compile(n=256)
    budget = plans(compiled)[0].arena_bytes * 3 // 4
    compiled.plan(budget)
    order = [op.id for op in bound_block(compiled.desc).ops]
    [train, *_] = compiled.plan(budget, threads=2).bindings
    assert train.repeated
    assert train.plan.arena_bytes <= budget
    assert [op.id for op in bound_block(compiled.desc).ops] == order


def test_a_plan_does_not_depend_on_earlier_ones():
    fresh, again = towers().compile(n=16), towers().compile(n=16)
    fresh.plan(threads=2)
    for threads in (3, 2, 2):
        again.plan(threads=threads)
    assert again.desc == fresh.desc
    again.plan(10**6)
    assert again.desc == planned_within(10**6).desc


def planned_within(budget: int) -> Compiled:
    compiled = towers().compile(n=16)
    compiled.plan(budget)
    return compiled


def faster(block: pb.BlockDesc, plan: pb.MemoryPlan, threads: int) -> float:
    """All operations by those of the phases that the runtime shares, each as long as its longest share."""
    analysis = BlockAnalysis(block)
    places = places_within(analysis, REFERENCE, plan, ways=phases_of(analysis, threads, large=0))
    before, costs = dependencies(touched_bytes(analysis, places)), operations_of(analysis)
    costs = [costs[i] for i in places.order]
    phases = shared_phases(before, costs, threads, large=0)
    ways = [max(sum(costs[i] for i in share) for share in shares) for shares in phases or ()]
    return sum(costs) / max(sum(ways), 1) if phases else 1.0


@pytest.mark.thorough
@given(training_programs(), st.integers(2, 3))
@settings(max_examples=8)
def test_any_program_keeps_its_limit_and_its_bits_and_gains_no_less(program: Program, threads: int):
    plain, roomy = program.compile(rows=16), program.compile(rows=16)
    plain.plan()
    rooms = [binding.room for binding in roomy.plan(threads=threads).bindings]
    blocks = bound_blocks(roomy.desc)
    for room, tight, plan, block in zip(rooms, plans(plain), plans(roomy), blocks, strict=True):
        assert room is not None
        assert room.tight == tight
        assert plan.arena_bytes <= max(MAX_ARENA_RATIO * tight.arena_bytes, tight.arena_bytes)
        assert 1 <= room.tight_gain <= room.gain <= min(threads, room.free_gain)
        assert faster(block, plan, threads) == room.gain, "what is said is true of the block as it is written"
        analysis = BlockAnalysis(block)
        places = places_within(analysis, REFERENCE, plan, ways=phases_of(analysis, threads, large=0))
        placed = [Placed(b.nbytes, b.start, b.stop, offset) for b, offset in places.in_arena if b.nbytes]
        assert is_safe(placed, plan.arena_bytes)
        assert plan.lower_bound == tight.lower_bound
        assert most_alive(placed) <= places.arena_bytes <= plan.arena_bytes
        assert not plan.optimal or plan == tight
    steppers = [Poisoned(roomy), *(Stepper(roomy, threads=n, large=0, plan=plans(roomy)[0]) for n in (1, 2, 3))]
    oracle = Oracle(plain.desc, steppers[0].snapshot())
    for seed in range(5):
        x = np.random.default_rng(seed).normal(size=(16, 4))
        wanted = oracle.step(x=x)
        for stepper in steppers:
            same_bits(stepper.step(x=x), wanted)
            same_bits(stepper.snapshot(), oracle.states)
    for stepper in steppers:
        stepper.executor.close()


def test_what_moves_spilled_values_stays_in_its_place():
    program = spilled(towers().compile(n=16).desc, Random(1).randrange)
    block = bound_block(program)
    order, tight = [op.id for op in block.ops], plan_of(BlockAnalysis(block))
    room = room_of(BlockAnalysis(block), tight, 2)
    assert [op.id for op in block.ops] == order
    assert room.plan.file_bytes == tight.file_bytes > 0


# The command


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two towers, compiled for 16 rows."""
    monkeypatch.chdir(tmp_path)
    towers().compile(n=16).save("towers.pb", force=True)
    return Path("towers.pb")


def test_what_room_gains_and_takes_is_said(program: Path, capsys):
    code, out, err = run(capsys, "plan", program, "--threads", 2)
    assert (code, err) == (0, "")
    assert [line for line in out.splitlines()[:-1] if "peak" not in line and "in a run" not in line] == [
        "train with {n=16}: arena 30.1 KiB (lower bound 23.6 KiB), persistent 24.0 KiB",
        "  updates: 6 immediate",
        "  2 threads: at most 2.00 times faster, 1.23 in 23.6 KiB",
        "evaluate with {n=16}: arena 8.00 KiB (lower bound 6.00 KiB), persistent 24.0 KiB",
        "  2 threads: at most 1.98 times faster, 1.01 in 6.00 KiB",
        "evaluate with {n=1}: arena 512 bytes (lower bound 384 bytes), persistent 24.0 KiB",
        "  2 threads: at most 1.98 times faster, 1.01 in 384 bytes",
    ]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "2 threads: at most 1.50 times faster, 1.00 in 512 bytes"),
        (
            {"free_gain": 1.9},
            "2 threads: at most 1.50 times faster, 1.00 in 512 bytes, 1.90 if no buffers shared memory",
        ),
        ({"tight": pb.MemoryPlan(arena_bytes=640)}, "2 threads: at most 1.50 times faster"),
        ({"gain": 1.0, "free_gain": 1.0}, "2 threads: no faster, in whatever memory"),
    ],
)
def test_room_has_words_for_all_that_it_is(changes: dict[str, Any], words: str):
    plan, tight = pb.MemoryPlan(arena_bytes=640), pb.MemoryPlan(arena_bytes=512)
    room = Room(plan, 2, gain=1.5, tight=tight, tight_gain=1.0, free_gain=1.5)
    assert room_in_words(replace(room, **changes)) == words


def test_a_run_with_room_ends_with_the_same_states(program: Path, capsys):
    run(capsys, "plan", program, "--threads", "2", "-o", "roomy.pb")
    assert run(capsys, "check", "roomy.pb")[0] == 0
    for name in "ab":
        np.save(f"{name}.npy", np.random.default_rng(ord(name)).normal(size=(128, 32)).astype(np.float32))
    ends = set[str]()
    options = ["--entry", "train", "--feed", "a=@a.npy", "--feed", "b=@b.npy", "--steps", "10"]
    for path, threads in [("towers.pb", 1), *(("roomy.pb", threads) for threads in (1, 2, 3))]:
        assert runtime_main(["execute", path, *options, "--threads", str(threads)]) == 0
        ends.add(capsys.readouterr().out.split("state_sha256=")[1])
    assert len(ends) == 1


def test_the_file_has_the_plan_and_diff_says_what_changed(program: Path, capsys):
    assert run(capsys, "plan", program, "--threads", "2", "-o", "roomy.pb")[0] == 0
    compiled = towers().compile(n=16)
    compiled.plan(threads=2)
    assert load("roomy.pb").entries == compiled.desc.entries
    assert load("roomy.pb").blocks == compiled.desc.blocks
    code, out, _ = run(capsys, "diff", program, "roomy.pb")
    assert code == 1
    tight, roomy = (load(path).entries[0].bindings[0].plan.arena_bytes for path in (program, "roomy.pb"))
    assert f"  plan: arena bytes: {tight} -> {roomy}" in out.splitlines()


@pytest.mark.parametrize("number", ["0", "-1", "two", "1.5", ""])
def test_other_numbers_of_threads_are_refused(number: str, program: Path, capsys):
    assert run(capsys, "plan", program, f"--threads={number}") == (
        2,
        "",
        f"compiler: argument --threads: {number!r} is not a whole number from 1 on, of at most 18 digits; "
        "see compiler plan --help\n",
    )


@pytest.mark.parametrize("number", [0, -2, 1.5, "2"])
def test_in_python_they_are_refused_in_a_sentence_too(number):
    compiled = towers().compile(n=16)
    before = compiled.desc.SerializeToString(deterministic=True)
    with pytest.raises(CompileError) as caught:
        compiled.plan(threads=number)
    assert str(caught.value) == f"threads={number}: a plan is for a whole number of threads, 1 or more"
    assert compiled.desc.SerializeToString(deterministic=True) == before
