"""Memory of a step: lifetimes on the clock of phases, placements no two of which collide, the arena in use."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.memory import Placed, is_safe, most_alive

from prograd_proto import ProgramError, TensorType
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalysis
from prograd_proto.tensor_types import tensor_desc
from runtime.engines.reference.target import REFERENCE
from runtime.placement import Buffer, check_placement, place
from runtime.step import Target, aliases_of, buffers_of

INSIDE = "an arena of 128 bytes; it must lie inside, at a multiple of 64"
SIZES = st.sampled_from([0, 1, 63, 64, 65, 128, 1000, 4096]) | st.integers(0, 10_000)


@st.composite
def buffers(draw: st.DrawFn, most: int = 40) -> list[Buffer]:
    result: list[Buffer] = []
    for i in range(draw(st.integers(0, most))):
        start = draw(st.integers(0, 30))
        result.append(Buffer(f"b{i}", draw(SIZES), start, start + draw(st.integers(1, 12))))
    return result


def placed(buffers: Sequence[Buffer], offsets: Sequence[int]) -> list[Placed]:
    return [Placed(b.nbytes, b.start, b.stop, offset) for b, offset in zip(buffers, offsets, strict=True)]


def accepts(buffers: Sequence[Buffer], offsets: Sequence[int], arena_bytes: int) -> bool:
    try:
        check_placement(buffers, offsets, arena_bytes)
    except ProgramError:
        return False
    return True


# Placing


@pytest.mark.thorough
@given(buffers())
@settings(max_examples=200)
def test_the_oracle_accepts_every_placement_and_its_arena_is_large_enough(buffers: list[Buffer]):
    placement = place(buffers)
    offsets, arena_bytes = placement.offsets, placement.arena_bytes
    assert is_safe(placed(buffers, offsets), arena_bytes)
    assert arena_bytes >= most_alive(placed(buffers, offsets))
    assert arena_bytes <= sum(-(-b.nbytes // 64) * 64 for b in buffers)
    assert accepts(buffers, offsets, arena_bytes)


@given(buffers())
@settings(max_examples=50)
def test_placing_is_a_pure_function(buffers: list[Buffer]):
    assert place(buffers) == place(list(buffers))


@pytest.mark.thorough
@given(buffers(most=12), st.data())
@settings(max_examples=400)
def test_the_check_and_the_oracle_agree_on_any_placement(buffers: list[Buffer], data: st.DataObject):
    """Offsets are moved from a good placement, so that both verdicts are common."""
    placement = place(buffers)
    offsets, arena_bytes = placement.offsets, placement.arena_bytes
    arena_bytes += data.draw(st.sampled_from([0, 0, 64, -1]))
    for _ in range(data.draw(st.integers(0, 3))):
        if buffers:
            i = data.draw(st.integers(0, len(buffers) - 1))
            offsets[i] += data.draw(st.sampled_from([-64, 64, 1, -128, 640]))
    assert accepts(buffers, offsets, arena_bytes) == is_safe(placed(buffers, offsets), arena_bytes)


def test_buffers_that_never_meet_share_their_bytes():
    chain = [Buffer(f"b{i}", 640, 2 * i + 1, 2 * i + 4) for i in range(10)]
    assert place(chain).arena_bytes == 2 * 640


def test_nothing_needs_no_arena():
    assert (place([]).offsets, place([]).arena_bytes) == ([], 0)


@pytest.mark.parametrize(
    ("offsets", "arena_bytes", "sentence"),
    [
        ([0, 0], 128, "a placement puts %a and %b in the same bytes while both are needed"),
        ([0, 1], 128, f"a placement puts %b (64 bytes) at offset 1 of {INSIDE}"),
        ([0, 128], 128, f"a placement puts %b (64 bytes) at offset 128 of {INSIDE}"),
        ([-64, 0], 128, f"a placement puts %a (64 bytes) at offset -64 of {INSIDE}"),
    ],
)
def test_a_bad_placement_is_refused_with_what_collides(offsets: list[int], arena_bytes: int, sentence: str):
    with pytest.raises(ProgramError) as error:
        check_placement([Buffer("a", 64, 0, 4), Buffer("b", 64, 3, 5)], offsets, arena_bytes)
    assert str(error.value) == sentence


# Lifetimes

APART = REFERENCE._replace(in_place=lambda op_type: ())
"""An engine whose kernels write over no operand."""
IN_PLACE = REFERENCE._replace(in_place=lambda op_type: ((0, 0),) if op_type == "exp" else ())


def block(ops: Sequence[tuple[str, Sequence[str], Sequence[str]]], *feeds: str) -> pb.BlockDesc:
    """Ops (type, inputs, outputs) on vectors of eight doubles, and the feeds they read."""
    result = pb.BlockDesc(parameters=[pb.ParameterDesc(tensor=name, feed=name) for name in feeds])
    names = [*feeds, *(name for _, _, outputs in ops for name in outputs)]
    result.tensors.extend(tensor_desc(name, TensorType("float64", (8,))) for name in names)
    for i, (type, inputs, outputs) in enumerate(ops):
        result.ops.add(id=i + 1, type=type, inputs=inputs, outputs=outputs, stage=pb.STAGE_FORWARD)
    return result


def lives(
    desc: pb.BlockDesc, scratch: dict[int, int] | None = None, pinned: tuple[str, ...] = (), target: Target = APART
) -> dict[str, tuple[int, int]]:
    written = BlockAnalysis(desc)
    rows = [[(f"scratch {i}", (scratch or {})[i])] if i in (scratch or {}) else [] for i in range(len(desc.ops))]
    return {b.name: (b.start, b.stop) for b in buffers_of(written, aliases_of(written, target, pinned), rows)}


CHAIN = [("exp", ["x"], ["a"]), ("exp", ["a"], ["b"]), ("add", ["a", "b"], ["c"]), ("exp", ["c"], ["d"])]


def test_a_tensor_lives_from_the_phase_of_its_op_to_that_of_its_last_reader():
    assert lives(block(CHAIN, "x")) == {"x": (-1, 1), "a": (0, 3), "b": (1, 3), "c": (2, 4), "d": (3, 4)}


def test_an_op_never_writes_over_what_it_reads():
    found = lives(block(CHAIN, "x"))
    for i, (_, inputs, outputs) in enumerate(CHAIN):
        for name in (*inputs, *outputs):
            start, stop = found[name]
            assert start <= i < stop


def test_scratch_lives_while_its_op_runs():
    assert lives(block(CHAIN, "x"), scratch={2: 64})["scratch 2"] == (2, 3)


def test_what_the_end_of_the_step_reads_lives_until_then():
    desc = block(CHAIN, "x")
    desc.fetches.add(name="a", tensor="a")
    desc.updates.add(state="s", tensor="b")
    found = lives(desc, pinned=("c",))
    assert found == {"x": (-1, 1), "a": (0, 5), "b": (1, 5), "c": (2, 5), "d": (3, 4)}


def test_an_output_that_nobody_reads_lives_through_its_write():
    desc = block([("split", ["x"], ["a", "b"]), ("exp", ["b"], ["c"])], "x")
    assert lives(desc)["a"] == (0, 1)


def test_a_feed_that_nobody_reads_lives_before_the_first_op():
    assert lives(block([("exp", ["x"], ["a"])], "x", "unused"))["unused"] == (-1, 0)


def test_states_and_constants_lie_outside_the_arena():
    desc = block([("constant", [], ["k"]), ("add", ["w", "k"], ["y"])], "w")
    desc.parameters[0].state = "w"
    assert lives(desc) == {"y": (1, 2)}


def test_tensors_in_place_are_one_buffer_from_the_first_write_to_the_last_read():
    desc = block(CHAIN, "x")
    assert lives(desc, target=IN_PLACE) == {"x": (-1, 3), "b": (1, 3), "c": (2, 4)}, "a is read again"
    assert aliases_of(BlockAnalysis(desc), IN_PLACE).root == {"x": "x", "a": "x", "b": "b", "c": "c", "d": "c"}


def test_nothing_is_written_over_a_pinned_tensor():
    desc = block(CHAIN, "x")
    apart = {"x": (-1, 5), "a": (0, 3), "b": (1, 3), "c": (2, 5), "d": (3, 4)}
    assert lives(desc, pinned=("c", "x"), target=IN_PLACE) == apart


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.booleans()), min_size=1, max_size=25))
@settings(max_examples=150)
def test_a_run_that_is_simulated_op_by_op_reads_only_what_was_written_last(picks: list[tuple[int, int, bool]]):
    """Random programs of two-operand ops, some with scratch, placed; a byte map says who wrote each cache line last."""
    names = ["x"]
    ops: list[tuple[str, list[str], list[str]]] = []
    for i, (a, b, _) in enumerate(picks):
        ops.append(("add", [names[a % len(names)], names[b % len(names)]], [f"t{i}"]))
        names.append(f"t{i}")
    desc = block(ops, "x")
    desc.fetches.add(name="last", tensor=names[-1])
    scratch = [[(f"s{i}", 128)] if wants else [] for i, (_, _, wants) in enumerate(picks)]
    found = buffers_of(BlockAnalysis(desc), aliases_of(BlockAnalysis(desc), APART), scratch)
    placement = place(found)
    offsets = placement.offsets
    lines = {b.name: range(o // 64, (o + b.nbytes) // 64) for b, o in zip(found, offsets, strict=True)}
    owner = np.full(placement.arena_bytes // 64, "", dtype=object)
    owner[list(lines["x"])] = "x"
    for i, (_, inputs, outputs) in enumerate(ops):
        for name in (s for s, _ in scratch[i]):  # scratch is written while inputs are read
            owner[list(lines[name])] = name
        for name in outputs:
            owner[list(lines[name])] = name
        for name in (*inputs, *outputs, *(s for s, _ in scratch[i])):  # all are whole when the op ends
            assert set(owner[list(lines[name])]) == {name}
    assert set(owner[list(lines[names[-1]])]) == {names[-1]}
