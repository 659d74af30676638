"""Threads: every task once, in an order that is allowed, and no thread left behind by an error or an interrupt."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from subjects.hazards import apart, before_of, pairs_that_share_scratch, random_choices, updated_after_use
from subjects.random_training import training_programs
from subjects.steps import Oracle, Stepper, same_bits

from compiler import Program, constant, ops
from runtime.engines.reference.threads.at_once import TRIAL_STEPS, AtOnce
from runtime.engines.reference.threads.contest import TRIAL_STEPS_PER_WAY, VERDICT_STEPS
from runtime.engines.reference.threads.in_order import Failure, InOrder
from runtime.engines.reference.threads.tasks import Tasks
from runtime.engines.reference.threads.worklist import Worklist
from runtime.errors import ExecutionError
from runtime.runs.run import Run


def lanes(count: int, lane_count: int = 2) -> Tasks:
    """Op i waits for op i - lane_count; one task an op."""
    ops = [[i] for i in range(count)]
    waits = [int(i >= lane_count) for i in range(count)]
    return Tasks(ops, waits, [[i] * (i < count) for i in range(lane_count, count + lane_count)])


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_every_task_runs_once_and_in_an_order_that_dependencies_allow(threads: int):
    done: list[int] = []
    worklist = Worklist(lanes(40), threads)
    for _ in range(50):
        done.clear()
        assert worklist.run([lambda i=i: done.append(i) for i in range(40)]) is None
        assert sorted(done) == list(range(40))
        assert [i for i in done if i % 2 == 0] == list(range(0, 40, 2))
        assert [i for i in done if i % 2 == 1] == list(range(1, 40, 2))
    worklist.close()


def test_two_threads_are_in_two_tasks_at_the_same_time():
    """Neither call returns before the other has begun."""
    both = threading.Barrier(2, timeout=60)
    worklist = Worklist(lanes(2), 2)
    assert worklist.run([both.wait, both.wait]) is None
    worklist.close()


def test_along_a_chain_no_other_thread_wakes():
    idents: set[int] = set()
    worklist = Worklist(lanes(30, lane_count=1), 3)
    for _ in range(20):
        worklist.run([lambda: idents.add(threading.get_ident())] * 30)
    assert idents == {threading.get_ident()}
    worklist.close()


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_of_several_failures_the_one_that_the_list_meets_first_is_named(threads: int):
    worklist = Worklist(lanes(20, lane_count=4), threads)
    done: list[int] = []

    def call(i: int, failing: set[int]) -> Callable[[], None]:
        def run() -> None:
            if i in failing:
                raise ExecutionError(str(i))
            done.append(i)

        return run

    for _ in range(30):
        done.clear()
        failure = worklist.run([call(i, {6, 7, 9}) for i in range(20)])
        assert failure is not None
        assert (failure.position, str(failure.error)) == (6, "6")
        assert set(range(6)) <= set(done), "all before it ran"
        assert 10 not in done, "what waits for it did not"
    done.clear()
    assert worklist.run([call(i, set()) for i in range(20)]) is None
    assert len(done) == 20
    worklist.close()


def test_whatever_a_call_raises_the_thread_serves_on():
    worklist = Worklist(lanes(2), 2)
    both = threading.Barrier(2, timeout=60)

    def leave() -> None:
        both.wait()
        raise SystemExit

    for _ in range(3):
        failure = worklist.run([leave, leave])
        assert isinstance(failure, Failure)
        assert isinstance(failure.error, SystemExit)
    worklist.close()


def test_an_interrupt_while_the_caller_waits_is_raised_when_the_other_threads_rest(monkeypatch):
    worklist = Worklist(lanes(6), 2)
    begun, go_on = threading.Event(), threading.Event()
    done: list[int] = []
    caller = threading.get_ident()

    def call(i: int) -> Callable[[], None]:
        def run() -> None:
            if threading.get_ident() != caller:
                begun.set()
                assert go_on.wait(60)
            else:
                assert begun.wait(60)
            done.append(i)

        return run

    wait = Worklist._wait

    def interrupted(self: Worklist) -> None:
        if threading.get_ident() == caller and self is worklist:
            go_on.set()
            raise KeyboardInterrupt
        wait(self)

    monkeypatch.setattr(Worklist, "_wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        worklist.run([call(i) for i in range(6)])
    count = len(done)
    assert count == 4, "three of the caller's, and the one that the other thread was in"
    monkeypatch.undo()
    done.clear()
    assert worklist.run([call(i) for i in range(6)]) is None
    assert sorted(done) == list(range(6)), "the next run is whole"
    worklist.close()


def test_an_interrupt_in_a_task_of_the_caller_is_a_failure_like_others():
    def interrupt() -> None:
        raise KeyboardInterrupt

    worklist = Worklist(lanes(2, lane_count=1), 2)
    failure = worklist.run([interrupt, lambda: None])
    assert failure is not None
    assert isinstance(failure.error, KeyboardInterrupt)
    worklist.close()


# Executors


def tasks_in(stepper: Stepper) -> int:
    way = stepper.executor._way
    return len(way._worklist._tasks.ops) if isinstance(way, AtOnce) and way._worklist is not None else 0


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
    stepper = Stepper(compiled, threads=threads, tiny=0.0)
    oracle = Oracle(compiled.desc, stepper.snapshot())
    rng = np.random.default_rng(0)
    for _ in range(50):
        fed = rng.normal(size=(17, 5)).astype("float32")
        same_bits(stepper.step(x=fed), oracle.step(x=fed))
        same_bits(stepper.snapshot(), oracle.states)
    assert (tasks_in(stepper) > 1) == (threads > 1)
    stepper.executor.close()


@pytest.mark.thorough
@given(training_programs(), st.integers(0, 2**32 - 1))
@settings(max_examples=15)
def test_a_training_program_has_the_same_bits_on_one_two_and_three_threads(program: Program, seed: int):
    compiled = program.compile(rows=3)
    rng = np.random.default_rng(seed)
    fifo = Stepper(compiled)
    plans = None, apart(compiled)
    others = [Stepper(compiled, threads=threads, tiny=0.0, plan=plan) for threads in (2, 3) for plan in plans]
    for _ in range(TRIAL_STEPS + 3):
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
    plan = apart(compiled) if build is random_choices else None
    fifo, other = Stepper(compiled), Stepper(compiled, threads=threads, tiny=0.0, plan=plan)
    for number in range(40):
        same_bits(other.step(x=number), fifo.step(x=number))
        same_bits(other.snapshot(), fifo.snapshot())
    assert tasks_in(other) > 1
    other.executor.close()


def test_fifo_is_one_thread_whatever_their_number():
    before = set(threading.enumerate())
    compiled = wide().compile()
    run = Run(compiled.desc, threads=4, schedule="fifo")
    for _ in range(TRIAL_STEPS + 1):
        run.step({"x": np.ones((17, 5), "float32")})
    assert isinstance(run.session.workspaces.executor(run.session.bindings("train")[0])._way, InOrder)
    assert set(threading.enumerate()) <= before  # those of earlier tests may end


def test_a_program_of_small_ops_needs_no_threads():
    before = set(threading.enumerate())
    stepper = Stepper(wide().compile(), threads=2, tiny=1.0)
    for _ in range(TRIAL_STEPS + 1):
        stepper.step(x=1)
    assert (tasks_in(stepper), set(threading.enumerate()) - before) == (0, set())


def test_threads_that_make_steps_slower_are_not_used(monkeypatch):
    program = Program()
    x = program.input("x", "float64", (1000,))
    for i in range(8):
        program.update(program.buffer(f"s{i}", (1000,), dtype="float64"), ops.exp(ops.sin(x + float(i))))
    compiled = program.compile()
    run = Worklist.run
    slow_steps: list[int] = []

    def slow(self: Worklist, calls: list[Callable[[], object]]) -> Failure | None:
        slow_steps[-1] += 1
        threading.Event().wait(0.2)
        return run(self, calls)

    monkeypatch.setattr(Worklist, "run", slow)
    fifo = Stepper(compiled)
    stepper = Stepper(compiled, threads=2, tiny=1e-12, plan=apart(compiled))
    for _ in range(TRIAL_STEPS + 2 * TRIAL_STEPS_PER_WAY + VERDICT_STEPS + 1):
        fifo.step(x=2)
        slow_steps.append(0)
        stepper.step(x=2)
        same_bits(stepper.snapshot(), fifo.snapshot())
    assert slow_steps == [0] * TRIAL_STEPS + [1, 0] * TRIAL_STEPS_PER_WAY + [0] * VERDICT_STEPS + [1]
    stepper.executor.close()


def test_threads_end_when_the_executor_closes():
    before = set(threading.enumerate())
    stepper = Stepper(wide().compile(), threads=3, tiny=0.0)
    for _ in range(TRIAL_STEPS):
        stepper.step(x=1)
    own = set(threading.enumerate()) - before
    assert len(own) == 2
    stepper.executor.close()
    for thread in own:
        thread.join(timeout=60)
        assert not thread.is_alive()


def test_an_error_on_threads_is_the_sentence_of_the_first_op_that_has_one():
    program = Program()
    x = program.input("x", "float64", (4,))
    i, j = (program.input(name, "int64", (2,)) for name in "ij")
    program.outputs(y=ops.gather(ops.sin(x), i), z=ops.gather(ops.cos(x), j))
    fifo, other = (Stepper(program.compile(), "predict", threads=n, tiny=0.0) for n in (1, 2))
    for _ in range(TRIAL_STEPS + 1):
        other.step(x=0, i=0, j=0)
    assert tasks_in(other) > 1
    for _ in range(20):
        with pytest.raises(ExecutionError) as wanted:
            fifo.step(x=0, i=7, j=9)
        with pytest.raises(ExecutionError) as found:
            other.step(x=0, i=7, j=9)
        assert str(found.value) == str(wanted.value)
    assert other.step(x=0, i=1, j=1)["z"].tolist() == [1, 1], "the next step is as good as any"
    other.executor.close()


def test_profiled_steps_on_threads_know_where_each_op_ran():
    fifo, other = (Stepper(wide().compile(), threads=n, tiny=0.0) for n in (1, 2))
    for number in range(TRIAL_STEPS + 20):
        fed = np.full((17, 5), number * 0.01, "float32")
        fifo.step(x=fed)
        other.executor.feeds["x"][...] = fed
        spells = other.executor.profile_step()
        same_bits(other.snapshot(), fifo.snapshot())
        assert all(spells[j].stop <= spells[i].start for i, needed in enumerate(before_of(other)) for j in needed)
        assert {spell.thread for spell in spells} <= {0, 1}
    other.executor.close()
