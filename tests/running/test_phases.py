"""Threads of the reference engine: every op once, in phases, and no thread left behind by an error or an interrupt."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from subjects.hazards import before_of, pairs_that_share_scratch, random_choices, updated_after_use
from subjects.random_training import training_programs
from subjects.steps import Oracle, Stepper, same_bits

from compiler import Program, constant, ops
from prograd_proto import program_pb2 as pb
from runtime.engines.reference.threads.in_phases import InPhases
from runtime.errors import ExecutionError, OutOfTime
from runtime.step.phases import LARGE, shared_phases

ROOMY = pb.MemoryPlan(arena_bytes=1 << 40)
"""A plan with bytes for any phases."""


def in_phases(shares: int = 2, count: int = 3) -> InPhases:
    """Phases whose shares have an op each."""
    return InPhases([[[shares * phase + share] for share in range(shares)] for phase in range(count)])


# Phases


def test_two_towers_are_shared_storey_by_storey():
    before = [set[int](), set[int](), {0}, {1}, {2}, {3}, {4, 5}]
    assert shared_phases(before, [LARGE] * 7, 2) == [[[0], [1]], [[2], [3]], [[4], [5]], [[6]]]


def test_a_chain_is_for_one_thread():
    assert shared_phases([{i - 1} if i else set() for i in range(9)], [LARGE] * 9, 4, large=0) is None


def test_towers_of_small_ops_are_for_one_thread():
    before = [set[int](), set[int](), {0}, {1}]
    assert shared_phases(before, [LARGE - 1] * 4, 2) is None
    assert shared_phases(before, [LARGE - 1] * 4, 2, large=0) == [[[0], [1]], [[2], [3]]]


def test_small_ops_stay_with_the_caller_and_phases_that_it_makes_alone_are_one_list():
    before = [set[int](), set[int](), set[int](), {0}, {3}, {1}, {4}]
    assert shared_phases(before, [LARGE, LARGE, 5, 5, 5, 5, 5], 3) == [[[1, 2], [0]], [[3, 5, 4, 6]]]


def test_one_large_op_beside_small_ones_is_not_worth_a_thread():
    assert shared_phases([set(), set(), set()], [9 * LARGE, 5, LARGE - 1], 2) is None


def test_what_helps_a_tenth_of_a_step_is_not_worth_a_thread():
    before = [set[int](), set[int](), {0, 1}]
    assert shared_phases(before, [LARGE, LARGE, 20 * LARGE], 2) is None
    assert shared_phases(before, [LARGE, LARGE, LARGE], 2) == [[[0], [1]], [[2]]]


def test_the_largest_ops_are_dealt_first():
    found = shared_phases([set() for _ in range(5)], [n * LARGE for n in (1, 2, 5, 2, 2)], 2)
    assert found == [[[0, 2], [1, 3, 4]]]


@given(
    st.lists(st.sets(st.integers(0, 60), max_size=4), max_size=60),
    st.integers(0, 2**32 - 1),
    st.integers(2, 5),
    st.sampled_from([0, 10, LARGE]),
)
def test_phases_have_every_op_once_and_after_what_it_waits_for(
    drawn: list[set[int]], seed: int, threads: int, large: int
):
    before = [{j for j in needed if j < i} for i, needed in enumerate(drawn)]
    operations = np.random.default_rng(seed).integers(0, 4 * LARGE, len(before)).tolist()
    phases = shared_phases(before, operations, threads, large=large) or []
    done: set[int] = set()
    for shares in phases:
        assert 1 <= len(shares) <= threads
        for number, share in enumerate(shares):
            own = set(done)
            for i in share:
                assert before[i] <= own, "nothing waits for another thread of its phase"
                own.add(i)
            assert len(shares) == 1 or number == 0 or all(operations[i] >= large for i in share)
        assert len(done) + sum(map(len, shares)) == len(done.union(*shares))
        done.update(*shares)
    assert not phases or done == set(range(len(before)))


# The way


@pytest.mark.parametrize("shares", [2, 4])
def test_every_op_runs_once_and_no_phase_begins_before_the_last_ends(shares: int):
    done: list[int] = []
    way = in_phases(shares, 10)
    for _ in range(50):
        done.clear()
        assert way.run([lambda i=i: done.append(i) for i in range(10 * shares)]) is None
        assert [sorted(done[at : at + shares]) for at in range(0, len(done), shares)] == [
            [*range(at, at + shares)] for at in range(0, 10 * shares, shares)
        ]
    way.close()


def test_two_threads_are_in_two_ops_at_the_same_time():
    """Neither call returns before the other has begun."""
    both = threading.Barrier(2, timeout=60)
    way = in_phases()
    assert way.run([both.wait] * 6) is None
    way.close()


@pytest.mark.parametrize("shares", [2, 3])
def test_of_several_failures_the_one_that_the_list_meets_first_is_named(shares: int):
    way = in_phases(shares, 6)
    done: list[int] = []

    def call(i: int, failing: set[int]) -> Callable[[], None]:
        def run() -> None:
            if i in failing:
                raise ExecutionError(str(i))
            done.append(i)

        return run

    for _ in range(30):
        done.clear()
        failure = way.run([call(i, {6, 7, 9}) for i in range(6 * shares)])
        assert failure is not None
        assert (failure.position, str(failure.error)) == (6, "6")
        assert done[:6] != done or set(done) == set(range(6)), "all before it ran"
        assert not {*done} & {*range(10, 6 * shares)}, "what comes later did not"
    done.clear()
    assert way.run([call(i, set()) for i in range(6 * shares)]) is None
    assert len(done) == 6 * shares
    way.close()


def test_an_op_that_stands_before_a_failed_one_in_the_list_is_tried_too():
    way = InPhases([[[3], [1]], [[0, 2]]])
    done: list[int] = []

    def fails(i: int) -> Callable[[], None]:
        def run() -> None:
            raise ExecutionError(str(i))

        return run

    failure = way.run([lambda: done.append(0), lambda: done.append(1), fails(2), fails(3)])
    assert failure is not None
    assert (failure.position, str(failure.error), sorted(done)) == (2, "2", [0, 1])
    way.close()


@pytest.mark.parametrize("thread", [0, 1])
def test_the_end_of_the_time_is_no_fault_of_an_op_and_no_other_begins(thread: int):
    way = in_phases()
    done: list[int] = []

    def ends() -> None:
        raise OutOfTime("the time is over")

    calls = [lambda i=i: done.append(i) for i in range(6)]
    calls[2 + thread] = ends
    failure = way.run(calls)
    assert failure is not None
    assert isinstance(failure.error, OutOfTime)
    assert not {4, 5} & {*done}
    assert way.run([lambda: None] * 6) is None
    way.close()


def test_an_interrupt_of_the_caller_is_raised_when_the_other_thread_rests():
    way = in_phases()
    begun, go_on = threading.Event(), threading.Event()
    done: list[int] = []

    def waits() -> None:
        begun.set()
        assert go_on.wait(60)
        done.append(1)

    def interrupt() -> None:
        assert begun.wait(60)
        threading.Timer(0.05, go_on.set).start()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        way.run([interrupt, waits, *[lambda: done.append(9)] * 4])
    assert done == [1], "the op that the other thread was in has ended, and no other began"
    assert way.run([lambda i=i: done.append(i) for i in range(6)]) is None
    assert sorted(done) == [0, 1, 1, 2, 3, 4, 5], "the next run is whole"
    way.close()


def test_what_is_no_error_leaves_a_thread_as_it_leaves_the_caller():
    way = in_phases()

    def leave() -> None:
        raise SystemExit

    for _ in range(3):
        with pytest.raises(SystemExit):
            way.run([lambda: None, leave, *[lambda: None] * 4])
    assert way.run([lambda: None] * 6) is None
    way.close()


def test_a_closed_way_goes_on_with_the_caller_alone():
    way = InPhases([[[1], [0]], [[2]]])
    way.close()
    idents: list[tuple[int, int]] = []
    assert way.run([lambda i=i: idents.append((i, threading.get_ident())) for i in range(3)]) is None
    assert idents == [(i, threading.get_ident()) for i in range(3)]


# Executors


def threads_of(stepper: Stepper) -> int:
    way = stepper.executor._way
    return max(map(len, way.phases)) if isinstance(way, InPhases) else 1


def wide() -> Program:
    """Branches that do not need each other."""
    program = Program()
    x = program.input("x", "float32", (17, 5))
    w = program.buffer("w", (5, 5), constant(0.3))
    branches = [ops.tanh(x @ w + float(i)) for i in range(6)]
    total = branches[0]
    for branch in branches[1:]:
        total = total * 0.5 + branch
    program.update(w, w * 0.9 + ops.sum(ops.transpose(total) @ x) * 1e-3)
    program.fetch("total", total)
    return program


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_wide_program_gives_the_oracles_bits_on_any_number_of_threads(threads: int):
    compiled = wide().compile()
    stepper = Stepper(compiled, threads=threads, large=0)
    oracle = Oracle(compiled.desc, stepper.snapshot())
    rng = np.random.default_rng(0)
    for _ in range(50):
        fed = rng.normal(size=(17, 5)).astype("float32")
        same_bits(stepper.step(x=fed), oracle.step(x=fed))
        same_bits(stepper.snapshot(), oracle.states)
    assert threads_of(stepper) == threads
    stepper.executor.close()


@pytest.mark.thorough
@given(training_programs(), st.integers(0, 2**32 - 1))
@settings(max_examples=15)
def test_a_training_program_has_the_same_bits_on_one_two_and_three_threads(program: Program, seed: int):
    compiled = program.compile(rows=3)
    rng = np.random.default_rng(seed)
    fifo = Stepper(compiled)
    plans = ROOMY, compiled.desc.entries[0].bindings[0].plan
    others = [Stepper(compiled, threads=threads, large=0, plan=plan) for threads in (2, 3) for plan in plans]
    for _ in range(4):
        fed = rng.normal(size=(3, 4))
        wanted = fifo.step(x=fed)
        for other in others:
            same_bits(other.step(x=fed), wanted)
            same_bits(other.snapshot(), fifo.snapshot())
    for other in others:
        other.executor.close()


@pytest.mark.parametrize("build", [updated_after_use, pairs_that_share_scratch, random_choices])
@pytest.mark.parametrize("threads", [2, 3])
def test_hazards_on_states_scratch_and_random_numbers_hold_on_threads(build, threads: int):
    compiled = build().compile()
    plan = ROOMY if build is random_choices else None
    fifo, other = Stepper(compiled), Stepper(compiled, threads=threads, large=0, plan=plan)
    for number in range(40):
        same_bits(other.step(x=number), fifo.step(x=number))
        same_bits(other.snapshot(), fifo.snapshot())
    assert threads_of(other) > 1
    other.executor.close()


def test_a_program_of_small_ops_needs_no_threads():
    before = set(threading.enumerate())
    stepper = Stepper(wide().compile(), threads=2)
    for _ in range(2):
        stepper.step(x=1)
    assert (threads_of(stepper), set(threading.enumerate()) - before) == (1, set())


def test_threads_end_when_the_executor_closes():
    before = set(threading.enumerate())
    stepper = Stepper(wide().compile(), threads=3, large=0)
    for _ in range(2):
        stepper.step(x=1)
    own = set(threading.enumerate()) - before
    assert 1 <= len(own) <= 2, "a pool starts threads when they are needed"
    stepper.executor.close()
    for thread in own:
        thread.join(timeout=60)
        assert not thread.is_alive()


def test_an_error_on_threads_is_the_sentence_of_the_first_op_that_has_one():
    program = Program()
    x = program.input("x", "float64", (4,))
    i, j = (program.input(name, "int64", (2,)) for name in "ij")
    program.outputs(y=ops.gather(ops.sin(x), i), z=ops.gather(ops.cos(x), j))
    fifo, other = (Stepper(program.compile(), "predict", threads=n, large=0) for n in (1, 2))
    for _ in range(2):
        other.step(x=0, i=0, j=0)
    assert threads_of(other) > 1
    for _ in range(20):
        with pytest.raises(ExecutionError) as wanted:
            fifo.step(x=0, i=7, j=9)
        with pytest.raises(ExecutionError) as found:
            other.step(x=0, i=7, j=9)
        assert str(found.value) == str(wanted.value)
    assert other.step(x=0, i=1, j=1)["z"].tolist() == [1, 1], "the next step is as good as any"
    other.executor.close()


def test_profiled_steps_on_threads_know_where_each_op_ran():
    fifo, other = (Stepper(wide().compile(), threads=n, large=0) for n in (1, 2))
    for number in range(20):
        fed = np.full((17, 5), number * 0.01, "float32")
        fifo.step(x=fed)
        other.executor.feeds["x"][...] = fed
        spells = other.executor.profile_step()
        same_bits(other.snapshot(), fifo.snapshot())
        assert all(spells[j].stop <= spells[i].start for i, needed in enumerate(before_of(other)) for j in needed)
        assert {spell.thread for spell in spells} <= {0, 1}
    other.executor.close()
