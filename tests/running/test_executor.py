"""The executor: what a fetch sees, what an update does, which line an error names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from subjects.commands import told
from subjects.hazards import nothing_in_place
from subjects.steps import Stepper, bound_block, same_bits
from subjects.values import here

from compiler import Program, constant, normal, ops
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalysis
from runtime.engines.reference.target import REFERENCE
from runtime.errors import ExecutionError, NonFinite
from runtime.step import Aliases, aliases_of


def counter() -> Program:
    """A state that grows by what is fed, updated in place."""
    program = Program()
    x = program.input("x", "float64", (3,))
    total = program.buffer("total", (3,), constant(1.0), dtype="float64")
    with program.block.on_behalf_of(stage=pb.STAGE_UPDATE):
        program.update(total, total + x)
    return program


def in_place(compiled: pb.ProgramDesc) -> list[str]:
    """The ops that write over a state."""
    block = BlockAnalysis(bound_block(compiled))
    pairs = zip(block.op_types, block.inputs, aliases_of(block, REFERENCE).in_place, strict=True)
    return [op for op, inputs, found in pairs for _, position in found if inputs[position] in block.state_of]


# Fetches and updates


def test_a_fetched_state_is_its_value_at_the_start_of_the_step():
    program = counter()
    program.fetch("total", program.state("total"))
    stepper = Stepper(program.compile())
    assert stepper.step(x=1)["total"].tolist() == [1, 1, 1]
    assert stepper.step(x=1)["total"].tolist() == [2, 2, 2]
    assert stepper.states.arrays["total"].tolist() == [3, 3, 3]


def test_a_state_updated_in_place_that_the_caller_asks_to_fetch_is_its_old_value_too():
    compiled = counter().compile()
    assert in_place(compiled.desc) == ["add", "add"]
    stepper = Stepper(compiled, fetch=["total"])
    assert stepper.step(x=1)["total"].tolist() == [1, 1, 1]
    assert stepper.states.arrays["total"].tolist() == [2, 2, 2]


def test_two_states_swap_their_values():
    program = Program()
    a = program.buffer("a", (2,), constant(1.0))
    b = program.buffer("b", (2,), constant(2.0))
    program.update(a, b)
    program.update(b, a)
    stepper = Stepper(program.compile())
    stepper.step()
    assert [stepper.states.arrays[name].tolist() for name in "ab"] == [[2, 2], [1, 1]]


def test_a_state_that_takes_the_old_value_of_one_updated_in_place_gets_the_old_value():
    program = counter()
    before = program.buffer("before", (3,), dtype="float64")
    program.update(before, program.state("total"))
    compiled = program.compile()
    assert in_place(compiled.desc) == ["add"], "only the step counter"
    stepper = Stepper(compiled)
    stepper.step(x=5)
    assert [stepper.states.arrays[name][0] for name in ("before", "total")] == [1, 6]


def test_two_states_may_take_the_value_of_one_tensor_that_is_written_in_place():
    program = counter()
    copy = program.buffer("copy", (3,), dtype="float64")
    total = program.state("total")
    with program.block.on_behalf_of(stage=pb.STAGE_UPDATE):
        new = total + 1.0
    program.update(copy, new)
    program.update(total, new)
    stepper = Stepper(program.compile())
    stepper.step()
    assert [stepper.states.arrays[name][0] for name in ("copy", "total")] == [2, 2]


def test_in_place_and_not_in_place_give_equal_bits():
    compiled = counter().compile()
    one = Stepper(compiled)
    with nothing_in_place():
        other = Stepper(compiled)
    assert one.executor.footprint.arena < other.executor.footprint.arena
    for x in (0.1, -3.7, 1e-9):
        one.step(x=x), other.step(x=x)
        same_bits(one.snapshot(), other.snapshot())


@pytest.mark.parametrize("types", [("exp", "sin"), ("exp",), ("sin",)], ids=" and ".join)
def test_what_lies_over_one_state_and_becomes_another_is_read_before_it_is_copied_over(
    types: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
):
    """a and b each become what is made of the other; the law has no such pairs, and the end of a step could do them."""
    program = Program()
    a = program.buffer("a", (3,), constant(1.0), dtype="float64")
    b = program.buffer("b", (3,), constant(2.0), dtype="float64")
    program.update(a, ops.exp(b))
    program.update(b, ops.sin(a))
    compiled = program.compile()

    def by_hand(block: BlockAnalysis, *given: Any) -> Aliases:
        found = aliases_of(block, *given)
        ends = zip(block.op_types, block.inputs, block.outputs, strict=True)
        return found._replace(root=found.root | {y[0]: x[0] for op_type, x, y in ends if op_type in types})

    one = Stepper(compiled)
    monkeypatch.setattr("runtime.step.places.aliases_of", by_hand)
    other = Stepper(compiled)
    assert other.executor.footprint.arena < one.executor.footprint.arena
    for _ in range(3):
        one.step(), other.step()
        same_bits(one.snapshot(), other.snapshot())


def test_what_lies_over_a_state_and_is_fetched_is_read_before_the_state_gets_its_value():
    program = Program()
    x = program.input("x", "float64", (3,))
    a = program.buffer("a", (3,), constant(1.0), dtype="float64")
    made = ops.exp(a)
    program.fetch("y", ops.sum(ops.square(made)))
    program.update(a, ops.sin(x))
    compiled = program.compile()
    assert sorted(in_place(compiled.desc)) == ["add", "exp"]
    plain, stepper = Stepper(compiled), Stepper(compiled, fetch=[made.name, "a"])
    for x in (0.5, 0.25):
        before = stepper.snapshot()["a"]
        plain.step(x=x)
        fetched = stepper.step(x=x)
        assert fetched["a"].tolist() == before.tolist()
        assert fetched[made.name].tolist() == np.exp(before).tolist()
        same_bits(plain.snapshot(), stepper.snapshot())


def test_feeds_are_views_that_a_step_reads_and_fetches_are_the_callers_to_keep_until_the_next():
    program = counter()
    program.fetch("double", program.block.value("x") * 2.0)
    stepper = Stepper(program.compile())
    stepper.executor.feeds["x"][...] = [1, 2, 3]
    stepper.executor.step()
    double = stepper.executor.fetches["double"]
    assert double.tolist() == [2, 4, 6]
    stepper.executor.feeds["x"][...] = 0
    assert double.tolist() == [2, 4, 6], "filling a feed does not touch a fetch"


def test_any_tensor_can_be_fetched_and_keeps_its_value_to_the_end():
    program = Program()
    x = program.input("x", "float64", (64,))
    h = x
    for _ in range(6):
        h = ops.exp(h) * 0.5
    program.outputs(y=h)
    compiled = program.compile()
    names = [name for op in compiled.desc.blocks[0].ops for name in op.outputs]
    plain, pinned = Stepper(compiled, "predict"), Stepper(compiled, "predict", fetch=names)
    fed = np.linspace(0, 1, 64)
    y = plain.step(x=fed)["y"]
    found = pinned.step(x=fed)
    assert found["y"].tobytes() == y.tobytes()
    np.testing.assert_array_equal(found[names[0]], np.exp(fed))
    assert plain.executor.footprint.arena < pinned.executor.footprint.arena


def test_constants_cannot_be_written():
    program = counter()
    program.fetch("three", program.constant(3.0))
    stepper = Stepper(program.compile())
    [array] = [
        a for op in stepper.executor._bound.ops for a in op.inputs if a.dtype == "int64" and not a.flags.writeable
    ]
    with pytest.raises(ValueError, match="read-only"):
        array[...] = 2
    assert stepper.step(x=0)["three"] == 3


def test_an_empty_tensor_is_no_special_case():
    program = Program()
    x = program.input("x", "float64", (0, 3))
    program.outputs(y=ops.sum(x * 2.0, axis=(0,)), z=x * 2.0)
    found = Stepper(program.compile(), "predict").step(x=np.zeros((0, 3)))
    assert found["y"].tolist() == [0, 0, 0]
    assert found["z"].shape == (0, 3)


def test_the_arena_is_allocated_once():
    stepper = Stepper(counter().compile())
    before = {name: array.ctypes.data for name, array in stepper.executor.feeds.items()}
    for _ in range(3):
        stepper.step(x=1)
    assert before == {name: array.ctypes.data for name, array in stepper.executor.feeds.items()}


# States


def test_initial_values_are_the_same_whatever_the_states_were_and_again_at_each_epoch():
    program = counter()
    noise = program.buffer("noise", (5,), normal(), dtype="float64", lifespan="epoch")
    program.parameter("w", (4, 3))
    program.update(noise, noise * 2.0)
    program.update(program.state("w"), program.state("w") * 1.0)
    stepper = Stepper(program.compile())
    start = stepper.snapshot()
    stepper.step(x=1)
    assert not np.array_equal(stepper.states.arrays["noise"], start["noise"])
    stepper.states.reset_epoch()
    assert stepper.states.arrays["noise"].tobytes() == start["noise"].tobytes()
    assert stepper.states.arrays["total"].tolist() == [2, 2, 2], "it lives on"
    stepper.states.initialise()
    same_bits(stepper.snapshot(), start)
    stepper.states.initialise(seed=1)
    assert not np.array_equal(stepper.states.arrays["noise"], start["noise"])


# Errors


def gathering(threads: int) -> tuple[Stepper, str]:
    program = Program()
    x = program.input("x", "float64", (4,))
    i = program.input("i", "int64", (2,))
    line = here(1)
    program.outputs(y=ops.gather(x, i))
    return Stepper(program.compile(), "predict", threads=threads), line


@pytest.mark.parametrize("threads", [1, 2])
def test_an_index_out_of_range_names_the_op_and_the_line(threads: int):
    stepper, line = gathering(threads)
    with pytest.raises(ExecutionError) as error:
        stepper.step(x=0, i=[1, 7])
    assert str(error.value) == f"op 1 (gather from {line}): index 7 is out of range: there are 4 places, from 0"
    assert stepper.step(x=[0, 1, 2, 3], i=[1, 3])["y"].tolist() == [1, 3], "the next step is as good as any"
    stepper.executor.close()


@pytest.mark.parametrize("threads", [1, 2])
def test_check_nan_names_the_tensor_the_op_and_how_many(threads: int):
    program = Program()
    x = program.input("x", "float64", (4,))
    line = here(1)
    y = ops.log(x)
    program.outputs(y=y * 2.0)
    stepper = Stepper(program.compile(), "predict", threads=threads, check_nan=True)
    assert (
        told(NonFinite, lambda: stepper.step(x=[1, 0, -1, 2]))
        == f"op 1 (log from {line}): %{y.name} has 2 of 4 elements that are NaN or Inf; it reads %x in [-1, 2]"
    )
    assert np.isfinite(stepper.step(x=1)["y"]).all()
    stepper.executor.close()


def test_nan_flows_without_a_warning_unless_it_is_asked_for():
    program = Program()
    x = program.input("x", "float64", ())
    program.outputs(y=ops.log(x) / (x - x))
    assert np.isnan(Stepper(program.compile(), "predict").step(x=-1)["y"])


def test_a_profiled_step_does_what_a_step_does():
    one, other = Stepper(counter().compile()), Stepper(counter().compile())
    one.step(x=2)
    other.executor.feeds["x"][...] = 2
    spells = other.executor.profile_step()
    same_bits(one.snapshot(), other.snapshot())
    assert [op.type for op in other.ops] == ["add", "add"]
    [first, second] = spells
    assert first.start <= first.stop <= second.start <= second.stop
    assert [spell.thread for spell in spells] == [0, 0]
