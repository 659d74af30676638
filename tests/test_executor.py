"""The executor: what a fetch sees, what an update does, which line an error names, what may run at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from steps import Oracle, Stepper, bound_block, same_bits
from values import here

from compiler import Program, constant, normal, ops
from prograd_proto import program_pb2 as pb
from runtime.errors import ExecutionError, NonFinite
from runtime.schedule import Task, Worklist, address_ranges, dependencies


def counter() -> Program:
    """A state that grows by what is fed, updated in place."""
    program = Program()
    x = program.input("x", "float64", (3,))
    total = program.buffer("total", (3,), constant(1.0), dtype="float64")
    with program.block.on_behalf_of(stage=pb.STAGE_UPDATE):
        program.update(total, total + x)
    return program


def in_place(compiled: pb.ProgramDesc) -> list[str]:
    block = bound_block(compiled)
    states = {p.tensor for p in block.parameters if p.WhichOneof("source") == "state"}
    return [op.type for op in block.ops for pair in op.in_place if op.inputs[pair.input] in states]


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
    apart = pb.ProgramDesc()
    apart.CopyFrom(compiled.desc)
    for block in apart.blocks:
        for op in block.ops:
            del op.in_place[:]
    one, other = Stepper(compiled), Stepper(apart)
    assert one.executor.arena_bytes < other.executor.arena_bytes
    for x in (0.1, -3.7, 1e-9):
        one.step(x=x), other.step(x=x)
        same_bits(one.snapshot(), other.snapshot())


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
    assert plain.executor.arena_bytes < pinned.executor.arena_bytes


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
    program.outputs(y=ops.sum(x * 2.0, axes=(0,)), z=x * 2.0)
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
    with pytest.raises(NonFinite) as error:
        stepper.step(x=[1, 0, -1, 2])
    assert str(error.value) == f"op 1 (log from {line}): %{y.name} has 2 of 4 elements that are NaN or Inf"
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
    seconds = other.executor.profile_step()
    same_bits(one.snapshot(), other.snapshot())
    assert [desc.type for desc, _ in seconds] == ["add", "add"]
    assert min(second for _, second in seconds) >= 0


# Schedules


def task(reads: Sequence[tuple[int, int]] = (), writes: Sequence[tuple[int, int]] = ()) -> Task:
    return Task(lambda: None, list(reads), list(writes))


@pytest.mark.parametrize(
    ("tasks", "before"),
    [
        ([task(writes=[(0, 8)]), task(reads=[(0, 8)])], [set(), {0}]),  # read after write
        ([task(reads=[(0, 8)]), task(writes=[(0, 8)])], [set(), {0}]),  # write after read
        ([task(writes=[(0, 8)]), task(writes=[(0, 8)])], [set(), {0}]),  # write after write
        ([task(reads=[(0, 8)]), task(reads=[(0, 8)])], [set(), set()]),  # reads do not wait for each other
        ([task(writes=[(0, 8)]), task(reads=[(8, 16)])], [set(), set()]),  # half-open ranges that touch
        ([task(writes=[(0, 16)]), task(writes=[(4, 8)]), task(reads=[(0, 16)])], [set(), {0}, {0, 1}]),
        ([task(writes=[(4, 8)]), task(reads=[(0, 16)]), task(writes=[(6, 20)])], [set(), {0}, {0, 1}]),
        ([task([(0, 8)], [(0, 8)]), task([(0, 8)], [(0, 8)])], [set(), {0}]),  # in place, twice
        ([task(reads=[(0, 4)]), task(reads=[(2, 8)]), task(writes=[(3, 5)])], [set(), set(), {0, 1}]),
        ([task(reads=[(0, 4)]), task(reads=[(6, 8)]), task(writes=[(3, 5)])], [set(), set(), {0}]),
    ],
)
def test_a_task_waits_for_the_hazards_on_its_bytes(tasks: list[Task], before: list[set[int]]):
    assert dependencies(tasks) == before


RANGES = st.lists(st.tuples(st.integers(0, 12), st.integers(1, 6)).map(lambda p: (p[0], p[0] + p[1])), max_size=3)


@given(st.lists(st.tuples(RANGES, RANGES), max_size=12))
@settings(max_examples=300)
def test_every_hazard_is_ordered_and_nothing_else_is(pairs: list[tuple[list, list]]):
    """Against every pair of tasks looked at one by one; waiting may be indirect."""
    found = dependencies([task(reads, writes) for reads, writes in pairs])
    reach: list[set[int]] = []
    for needed in found:
        reach.append(set(needed).union(*(reach[j] for j in needed)))

    def meet(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> bool:
        return any(max(a, c) < min(b, d) for a, b in one for c, d in other)

    for i, (reads, writes) in enumerate(pairs):
        for j, (earlier_reads, earlier_writes) in enumerate(pairs[:i]):
            hazard = meet(reads, earlier_writes) or meet(writes, earlier_reads) or meet(writes, earlier_writes)
            assert not hazard or j in reach[i]
            assert hazard or j not in found[i]


def test_addresses_are_those_of_the_bytes_and_empty_arrays_have_none():
    memory = np.zeros(10)
    [(start, stop)] = address_ranges([memory[2:5], memory[:0]])
    assert (start - memory.ctypes.data, stop - start) == (16, 24)


def recorded(count: int, fail: Callable[[int], None] = lambda i: None) -> tuple[list[Task], list[int]]:
    """A chain of two interleaved lanes that record the order in which they ran."""
    done: list[int] = []

    def call(i: int) -> Callable[[], None]:
        def run() -> None:
            fail(i)
            done.append(i)

        return run

    return [Task(call(i), [(i % 2 * 8, i % 2 * 8 + 8)], [(i % 2 * 8, i % 2 * 8 + 8)]) for i in range(count)], done


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_a_worklist_runs_every_task_once_and_in_an_order_that_dependencies_allow(threads: int):
    tasks, done = recorded(40)
    worklist = Worklist(tasks, dependencies(tasks), threads)
    for _ in range(20):
        done.clear()
        worklist.run()
        assert sorted(done) == list(range(40))
        assert [i for i in done if i % 2 == 0] == list(range(0, 40, 2))
        assert [i for i in done if i % 2 == 1] == list(range(1, 40, 2))
    worklist.close()


def test_a_failure_on_a_thread_is_kept_for_the_caller_and_the_next_run_is_whole():
    failing = threading.Event()
    failing.set()

    def fail(i: int) -> None:
        if i == 7 and failing.is_set():
            raise ExecutionError("seven")

    tasks, done = recorded(20, fail)
    worklist = Worklist(tasks, dependencies(tasks), 3)
    worklist.run()
    assert worklist.failure is not None
    assert (worklist.failure[0], str(worklist.failure[1])) == (7, "seven")
    assert 9 not in done, "what depends on the failed task does not run"
    failing.clear()
    done.clear()
    worklist.run()
    assert worklist.failure is None
    assert len(done) == 20
    worklist.close()


def test_threads_end_when_the_executor_closes():
    before = set(threading.enumerate())
    stepper = Stepper(counter().compile(), threads=3)
    own = set(threading.enumerate()) - before
    assert len(own) == 2
    stepper.executor.close()
    for thread in own:
        thread.join(timeout=10)
        assert not thread.is_alive()


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_wide_program_gives_the_oracles_bits_on_any_number_of_threads(threads: int):
    program = Program()
    x = program.input("x", "float32", (17, 5))
    w = program.buffer("w", (5, 5), constant(0.3))
    branches = [ops.tanh(x @ w + float(i)) for i in range(6)]
    total = branches[0]
    for branch in branches[1:]:
        total = total * 0.5 + branch
    program.update(w, w * 0.9 + ops.sum(ops.transpose(total) @ x) * 1e-3)
    program.fetch("total", total)
    compiled = program.compile()
    stepper = Stepper(compiled, threads=threads)
    oracle = Oracle(compiled.desc, stepper.snapshot())
    rng = np.random.default_rng(0)
    for _ in range(50):
        fed = rng.normal(size=(17, 5)).astype("float32")
        same_bits(stepper.step(x=fed), oracle.step(x=fed))
        same_bits(stepper.snapshot(), oracle.states)
    stepper.executor.close()
