"""Steps that move tensors to a file and back, on a thread of its own: the same bits, and every wait in its place."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.poison import Poisoned
from subjects.hazards import buffers_apart, nothing_in_place
from subjects.random_training import training_programs
from subjects.spilling import insert_reload, spilled
from subjects.steps import Stepper, bound_blocks, same_bits

from compiler import Program, constant, ops
from compiler.passes.list_operators import list_operators
from compiler.passes.plan_memory import plan_memory
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalyses
from runtime.engines.parts import TRANSFER_THREAD
from runtime.engines.reference.threads.lanes import Lanes, Stretch, stretches
from runtime.engines.spill_file import spill_file
from runtime.errors import ExecutionError, NonFinite
from runtime.step import dependencies

Call = Callable[[], object]

STEPS = 4


def tower() -> pb.ProgramDesc:
    """Three values of a chain, the first two of which are away from memory between their two uses."""
    program = Program()
    x = program.input("x", "float64", (2000,))
    w = program.buffer("w", (2000,), constant(0.5), dtype="float64")
    a = ops.sin(x * w)
    b = ops.cos(a)
    c = ops.tanh(b)
    program.update(w, w * 0.9 + c * b * a)
    desc = program.compile().desc
    [block] = bound_blocks(desc)
    for type in ("sin", "cos"):
        at = position(block, type)
        [name] = block.ops[at].outputs
        last = max(k for k, op in enumerate(block.ops) if name in op.inputs)
        insert_reload(block, name, at + 1, last, last)
    list_operators(BlockAnalyses(desc))
    plan_memory(BlockAnalyses(desc))
    return desc


def position(block: pb.BlockDesc, type: str) -> int:
    return next(i for i, op in enumerate(block.ops) if op.type == type)


def plan_of_training(desc: pb.ProgramDesc) -> pb.MemoryPlan:
    return desc.entries[0].bindings[0].plan


def steps_of(stepper: Stepper, count: int = STEPS) -> list[dict[str, np.ndarray]]:
    """The states after each of some steps on numbers of its own."""
    seen = []
    for number in range(count):
        stepper.step(x=np.linspace(-1, 1, 2000) * (number + 1))
        seen.append(stepper.snapshot())
    return seen


def in_order(desc: pb.ProgramDesc) -> list[dict[str, np.ndarray]]:
    stepper = Stepper(desc, plan=plan_of_training(desc))
    stepper.executor.close()
    return steps_of(stepper)


def wrap(stepper: Stepper, around: Callable[[int, str, Call], Call]) -> None:
    """Let the steps from now on make other calls, made from the position, the type and the call of each op."""
    executor = stepper.executor
    executor._calls = [around(i, op.desc.type, op.call) for i, op in enumerate(executor._bound.ops)]


def in_folder(folder: Path) -> Callable[[int], np.ndarray]:
    return lambda nbytes: spill_file(folder, nbytes)


def is_transfer(type: str) -> bool:
    return type in ("spill", "reload")


# Lanes


def test_a_lane_waits_for_the_latest_of_the_other_that_it_needs_and_only_once():
    before = [set(), {0}, {1}, {0, 1}, {2}, {3}, {4, 3}, {5, 1}]
    transfers = [False, True, False, False, True, False, True, False]
    compute, transfer = stretches(before, transfers)
    assert compute == [
        Stretch(-1, [0], True),
        Stretch(1, [2], True),
        Stretch(-1, [3], True),
        Stretch(-1, [5, 7], False),
    ]
    assert transfer == [Stretch(0, [1], True), Stretch(2, [4], False), Stretch(3, [6], False)]


LINKS = st.lists(st.tuples(st.booleans(), st.sets(st.integers(1, 12), max_size=3)), min_size=1, max_size=40)


@given(LINKS)
@settings(max_examples=50)
def test_lanes_call_everything_once_and_after_what_it_needs(links: list[tuple[bool, set[int]]]):
    before = [{i - back for back in backs if back <= i} for i, (_, backs) in enumerate(links)]
    lanes = Lanes(before, [transfer for transfer, _ in links])
    done: list[int] = []

    def call(i: int) -> Call:
        def run() -> None:
            assert before[i] <= set(done)
            done.append(i)

        return run

    for _ in range(5):
        done.clear()
        assert lanes.run([call(i) for i in range(len(links))]) is None
        assert sorted(done) == list(range(len(links)))
    lanes.close()


@pytest.mark.parametrize("failing", [{3}, {4}, {3, 4}, {4, 9}, {5, 6}, {0}, {9}])
def test_of_failures_in_both_lanes_the_one_that_the_list_meets_first_is_given(failing: set[int]):
    lanes = Lanes([{i - 3} if i > 2 else set() for i in range(10)], [i % 2 == 0 for i in range(10)])
    done: list[int] = []

    def call(i: int) -> Call:
        def run() -> None:
            if i in failing:
                raise ExecutionError(str(i))
            done.append(i)

        return run

    for _ in range(20):
        done.clear()
        failure = lanes.run([call(i) for i in range(10)])
        assert failure is not None
        first = min(failing)
        assert (failure.position, str(failure.error)) == (first, str(first))
        assert set(range(first)) <= set(done), "all before it ran"
        assert first + 3 not in done, "what waits for it did not"
    failing.clear()
    assert lanes.run([call(i) for i in range(10)]) is None, "the next run is whole"
    lanes.close()


def test_an_interrupt_while_the_caller_waits_is_raised_when_the_other_thread_rests(monkeypatch):
    lanes = Lanes([set(), {0}, {1}, {2}, {3}], [False, True, False, True, False])
    begun, go_on = threading.Event(), threading.Event()
    done: list[int] = []
    caller = threading.get_ident()

    def call(i: int) -> Call:
        def run() -> None:
            if i == 1:
                begun.set()
                assert go_on.wait(60)
            done.append(i)

        return run

    wait = Lanes._wait

    def interrupted(self: Lanes, other: int, stretch: Stretch) -> None:
        if threading.get_ident() == caller:
            assert begun.wait(60)
            go_on.set()
            raise KeyboardInterrupt
        wait(self, other, stretch)

    monkeypatch.setattr(Lanes, "_wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        lanes.run([call(i) for i in range(5)])
    assert done == [0, 1], "the transfer that had begun was made to its end"
    monkeypatch.undo()
    done.clear()
    assert lanes.run([call(i) for i in range(5)]) is None
    assert done == list(range(5)), "the next run is whole"
    lanes.close()


def test_an_interrupt_in_an_op_of_the_caller_is_raised_as_it_is():
    stepper = Stepper(tower())

    def interrupt() -> None:
        raise KeyboardInterrupt

    calls = stepper.executor._calls
    wrap(stepper, lambda i, type, call: interrupt if type == "tanh" else call)
    with pytest.raises(KeyboardInterrupt):
        stepper.step(x=1)
    stepper.executor._calls = calls
    stepper.step(x=1)
    stepper.executor.close()


# Steps


def test_a_program_that_spills_has_the_bits_of_one_that_does_not():
    program = Program()
    x = program.input("x", "float64", (2000,))
    w = program.buffer("w", (2000,), constant(0.5), dtype="float64")
    a = ops.sin(x * w)
    b = ops.cos(a)
    program.update(w, w * 0.9 + ops.tanh(b) * b * a)
    plain = steps_of(Stepper(program.compile()))
    for wanted, found in zip(plain, in_order(tower()), strict=True):
        same_bits(found, wanted)


@pytest.mark.parametrize("how", ["in order", "alone", "slow transfers", "slow ops", "slow now and then"])
def test_whichever_lane_is_slower_the_bits_are_the_same(how: str, tmp_path: Path):
    desc = tower()
    stepper = Stepper(desc, plan=plan_of_training(desc), file=in_folder(tmp_path))

    def slow(i: int, type: str, call: Call) -> Call:
        late = {"slow transfers": is_transfer(type), "slow ops": not is_transfer(type), "slow now and then": i % 3 == 0}

        def run() -> None:
            threading.Event().wait(0.004 * late.get(how, False))
            call()
            threading.Event().wait(0.004 * late.get(how, False))

        return run

    wrap(stepper, slow)
    if how == "in order":
        stepper.executor.close()
    for wanted, found in zip(in_order(desc), steps_of(stepper), strict=True):
        same_bits(found, wanted)
    stepper.executor.close()


@pytest.mark.parametrize("late", ["spill", "reload"])
def test_a_wait_that_is_missing_would_be_seen(late: str):
    desc = tower()
    stepper = Stepper(desc, plan=plan_of_training(desc))
    executor = stepper.executor
    executor.close()
    executor._way = Lanes([set()] * len(stepper.ops), [is_transfer(op.type) for op in stepper.ops])
    last = max(i for i, op in enumerate(stepper.ops) if not is_transfer(op.type))
    computed = threading.Event()

    def slow(i: int, type: str, call: Call) -> Call:
        def run() -> None:
            if type == late:
                assert computed.wait(60)
            call()
            if i == last:
                computed.set()

        return run

    wrap(stepper, slow)
    [found] = steps_of(stepper, 1)
    executor.close()
    assert in_order(desc)[0]["w"].tobytes() != found["w"].tobytes()


def test_a_tensor_comes_back_while_ops_before_its_reload_still_run():
    """An op before the reload in the list does not return before the reload has begun."""
    program = Program()
    x = program.input("x", "float64", (1000,))
    a = ops.sin(x)
    b = ops.exp(a)
    c = ops.tanh(b)
    program.outputs(y=c + a)
    desc = program.compile().desc
    [block] = bound_blocks(desc)
    [name] = block.ops[position(block, "sin")].outputs
    last = position(block, "add")
    insert_reload(block, name, position(block, "sin") + 1, last, last)
    list_operators(BlockAnalyses(desc))
    with nothing_in_place(), buffers_apart():
        stepper = Stepper(desc, "predict")
    begun = threading.Event()

    def waits(i: int, type: str, call: Call) -> Call:
        def run() -> None:
            if type == "reload":
                begun.set()
            if type == "tanh":
                assert begun.wait(60)
            call()

        return run

    assert position(block, "tanh") < position(block, "reload")
    wrap(stepper, waits)
    wanted = np.tanh(np.exp(np.sin(np.linspace(0, 1, 1000)))) + np.sin(np.linspace(0, 1, 1000))
    assert stepper.step(x=np.linspace(0, 1, 1000))["y"].tobytes() == wanted.tobytes()
    stepper.executor.close()


@pytest.mark.thorough
@given(training_programs(), st.data())
@settings(max_examples=15)
def test_training_programs_that_spill_at_random_have_the_same_bits_on_any_schedule(
    program: Program, data: st.DataObject
):
    compiled = program.compile(rows=3)
    random = data.draw(st.randoms(use_true_random=False))
    desc = spilled(compiled.desc, random.randrange, data.draw(st.integers(1, 6)))
    plan = plan_of_training(desc)
    plain = Stepper(compiled)
    others = [
        Stepper(desc, plan=plan),
        *(Stepper(desc, threads=threads, large=0, plan=plan) for threads in (2, 3)),
        Stepper(desc),
        Poisoned(desc),
    ]
    rng = np.random.default_rng(0)
    for _ in range(STEPS):
        fed = rng.normal(size=(3, 4))
        wanted = plain.step(x=fed)
        for other in others:
            same_bits(other.step(x=fed), wanted)
            same_bits(other.snapshot(), plain.snapshot())
    for other in others:
        other.executor.close()


def test_halves_empty_tensors_and_scalars_go_to_the_file_and_back(tmp_path: Path):
    program = Program()
    inputs = [
        program.input(f"{dtype} {shape}", dtype, shape)
        for dtype in ("bfloat16", "float16", "bool", "int64", "uint8")
        for shape in ((), (0, 3), (5, 3), (300, 3000))
    ]
    program.outputs(**{f"plain {i}": x for i, x in enumerate(inputs)})
    program.entry("away", **{f"plain {i}": ops.reload(ops.spill(x)) for i, x in enumerate(inputs)})
    plain, away = (Stepper(program.compile(), entry, file=in_folder(tmp_path)) for entry in ("predict", "away"))
    rng = np.random.default_rng(0)
    for name, array in plain.executor.feeds.items():
        array[...] = rng.integers(0, 2, array.shape).astype(array.dtype)
        away.executor.feeds[name][...] = array
    same_bits(away.step(), plain.step())
    away.executor.close()


# What a step tells


def failing(type: str) -> Callable[[int, str, Call], Call]:
    def around(i: int, found: str, call: Call) -> Call:
        def fail() -> None:
            raise ExecutionError("it fails")

        return fail if found == type else call

    return around


@pytest.mark.parametrize("type", ["cos", "spill", "reload", "tanh"])
def test_an_error_is_the_sentence_of_the_first_op_that_has_one_and_the_next_step_is_whole(type: str):
    desc = tower()
    stepper = Stepper(desc, plan=plan_of_training(desc))
    calls = stepper.executor._calls
    wrap(stepper, failing(type))
    op = next(op for op in stepper.ops if op.type == type)
    line = f" from {desc.locations[op.location - 1]}" if op.location else ""
    for _ in range(5):
        with pytest.raises(ExecutionError) as caught:
            stepper.step(x=1)
        assert str(caught.value) == f"op {op.id} ({type}{line}): it fails"
    stepper.executor._calls = calls
    stepper.states.initialise()
    for wanted, found in zip(in_order(desc), steps_of(stepper), strict=True):
        same_bits(found, wanted)
    stepper.executor.close()


def test_check_nan_names_the_first_op_that_makes_one_and_looks_at_what_is_spilled():
    desc = tower()
    stepper = Stepper(desc, plan=plan_of_training(desc), check_nan=True)
    stepper.step(x=1)
    with pytest.raises(
        NonFinite,
        match=r"^op 1 \(mul from .*\): %mul_\d+ has 2000 of 2000 elements that are NaN or Inf; it reads %x of only NaN",
    ):
        stepper.step(x=np.nan)
    stepper.executor.close()


def test_profiled_steps_know_which_ops_were_transfers_on_their_own_thread():
    desc = tower()
    stepper = Stepper(desc, plan=plan_of_training(desc))
    before = dependencies(stepper.executor._bound.touched())
    for wanted in in_order(desc):
        stepper.executor.feeds["x"][...] = np.linspace(-1, 1, 2000) * (int(wanted["step"]))
        spells = stepper.executor.profile_step()
        same_bits(stepper.snapshot(), wanted)
        numbers = [spell.thread for spell in spells]
        assert numbers == [TRANSFER_THREAD if is_transfer(op.type) else 0 for op in stepper.ops]
        assert all(spells[j].stop <= spells[i].start for i, needed in enumerate(before) for j in needed)
    stepper.executor.close()


def test_threads_are_numbered_as_without_transfers():
    desc = tower()
    stepper = Stepper(desc, threads=2, large=0, plan=plan_of_training(desc))
    seen = {spell.thread for _ in range(STEPS + 20) for spell in stepper.executor.profile_step()}
    assert seen == {TRANSFER_THREAD, 0}
    stepper.executor.close()


def test_the_thread_ends_when_the_executor_closes_and_steps_go_on_without_it():
    before = set(threading.enumerate())
    desc = tower()
    stepper = Stepper(desc, plan=plan_of_training(desc))
    [own] = set(threading.enumerate()) - before
    assert own.name == "prograd-transfers"
    wanted = in_order(desc)
    stepper.step(x=np.linspace(-1, 1, 2000))
    stepper.executor.close()
    own.join(timeout=60)
    assert not own.is_alive()
    stepper.step(x=np.linspace(-1, 1, 2000) * 2)
    same_bits(stepper.snapshot(), wanted[1])


def test_the_thread_ends_when_nobody_keeps_the_executor():
    before = set(threading.enumerate())
    stepper = Stepper(tower(), check_nan=True)
    stepper.step(x=1)
    [own] = set(threading.enumerate()) - before
    memory = weakref.ref(stepper.executor)
    del stepper
    gc.collect()
    assert memory() is None
    own.join(timeout=60)
    assert not own.is_alive()


def test_without_transfers_there_is_no_thread_for_them():
    program = Program()
    program.outputs(y=ops.sin(program.input("x", "float32", (3,))))
    before = set(threading.enumerate())
    assert Stepper(program.compile(), "predict").step(x=0)["y"].tolist() == [0, 0, 0]
    assert set(threading.enumerate()) <= before  # those of earlier tests may end
