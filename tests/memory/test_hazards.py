"""Concurrency: every hazard on memory is waited for, and all orders that do so compute the same bits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from subjects.hazards import before_of, buffers_apart, pairs_that_share_scratch, random_choices, updated_after_use
from subjects.random_training import training_programs
from subjects.steps import Stepper, same_bits

from compiler import Program
from runtime.memory.aligned import address_ranges
from runtime.step import Touched, dependencies
from runtime.step.hazards import Range


def touch(reads: list[Range] | None = None, writes: list[Range] | None = None) -> Touched:
    return Touched(reads or [], writes or [])


@pytest.mark.parametrize(
    ("touched", "before"),
    [
        ([touch(writes=[(0, 8)]), touch(reads=[(0, 8)])], [set(), {0}]),  # read after write
        ([touch(reads=[(0, 8)]), touch(writes=[(0, 8)])], [set(), {0}]),  # write after read, the first write
        ([touch(writes=[(0, 8)]), touch(writes=[(0, 8)])], [set(), {0}]),  # write after write
        ([touch(reads=[(0, 8)]), touch(reads=[(0, 8)])], [set(), set()]),  # reads do not wait for each other
        ([touch(writes=[(0, 8)]), touch(reads=[(8, 16)])], [set(), set()]),  # half-open ranges that touch
        ([touch(writes=[(0, 16)]), touch(writes=[(4, 8)]), touch(reads=[(0, 16)])], [set(), {0}, {0, 1}]),
        ([touch(writes=[(4, 8)]), touch(reads=[(0, 16)]), touch(writes=[(6, 20)])], [set(), {0}, {0, 1}]),
        ([touch([(0, 8)], [(0, 8)]), touch([(0, 8)], [(0, 8)])], [set(), {0}]),  # in place, twice
        ([touch(reads=[(0, 4)]), touch(reads=[(2, 8)]), touch(writes=[(3, 5)])], [set(), set(), {0, 1}]),
        ([touch(reads=[(0, 4)]), touch(reads=[(6, 8)]), touch(writes=[(3, 5)])], [set(), set(), {0}]),
    ],
)
def test_an_op_waits_for_the_hazards_on_its_bytes(touched: list[Touched], before: list[set[int]]):
    assert dependencies(touched) == before


RANGES = st.lists(st.tuples(st.integers(0, 12), st.integers(1, 6)).map(lambda p: (p[0], p[0] + p[1])), max_size=3)


@pytest.mark.thorough
@given(st.lists(st.tuples(RANGES, RANGES), max_size=12))
@settings(max_examples=300)
def test_every_hazard_is_ordered_and_nothing_else_is(pairs: list[tuple[list, list]]):
    """Against every pair of ops looked at one by one; waiting may be indirect."""
    found = dependencies([Touched(reads, writes) for reads, writes in pairs])
    reach: list[set[int]] = []
    for needed in found:
        reach.append(set(needed).union(*(reach[j] for j in needed)))

    def meet(one: list[Range], other: list[Range]) -> bool:
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


# Legal orders


def legal_orders(before: list[set[int]], done: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    """Every one of them."""
    if len(done) == len(before):
        yield done
    for i, needed in enumerate(before):
        if i not in done and needed <= set(done):
            yield from legal_orders(before, (*done, i))


def random_order(before: list[set[int]], rng: np.random.Generator) -> list[int]:
    done: list[int] = []
    while len(done) < len(before):
        ready = [i for i, needed in enumerate(before) if i not in done and needed <= set(done)]
        done.append(int(rng.choice(ready)))
    return done


def reorder(stepper: Stepper, order: list[int] | tuple[int, ...]) -> None:
    """Let the steps from now on make the calls in another order of the op list."""
    stepper.executor._calls = [stepper.executor._bound.ops[i].call for i in order]


def test_a_state_is_used_before_it_is_updated_in_every_legal_order():
    compiled = updated_after_use().compile()
    fifo = Stepper(compiled)
    wanted = fifo.step(x=[1, 2, 3])["used"]
    same = fifo.snapshot()
    orders = list(legal_orders(before_of(fifo)))
    assert len(orders) > 3
    for order in orders:
        stepper = Stepper(compiled)
        reorder(stepper, order)
        assert stepper.step(x=[1, 2, 3])["used"].tobytes() == wanted.tobytes()
        same_bits(stepper.snapshot(), same)


def test_an_order_that_updates_first_would_be_seen():
    stepper = Stepper(updated_after_use().compile())
    types = [op.type for op in stepper.ops]
    order = [i for i, kind in enumerate(types) if kind != "exp"] + [types.index("exp")]
    assert any(needed - set(order[:at]) for at, needed in enumerate(before_of(stepper)[i] for i in order))
    reorder(stepper, order)
    assert stepper.step(x=[1, 2, 3])["used"].tolist() != np.exp([2.0, 2.0, 2.0]).tolist()


@pytest.mark.parametrize("build", [pairs_that_share_scratch, random_choices])
def test_scratch_and_random_numbers_are_the_same_in_any_legal_order(build):
    compiled = build().compile()
    fifo = Stepper(compiled)
    if build is pairs_that_share_scratch:
        places = [r for op in fifo.executor._bound.ops for r in address_ranges(op.scratch)]
        assert any(a < d and c < b for i, (a, b) in enumerate(places) for c, d in places[:i])
    shape = fifo.executor.feeds["x"].shape
    fed = np.random.default_rng(0).normal(size=shape).astype("float32")
    wanted = fifo.step(x=fed)
    rng = np.random.default_rng(1)
    seen: set[tuple[int, ...]] = set()
    for _ in range(30):
        with buffers_apart() if build is random_choices else nullcontext():
            stepper = Stepper(compiled)
        order = random_order(before_of(stepper), rng)
        seen.add(tuple(order))
        reorder(stepper, order)
        same_bits(stepper.step(x=fed), wanted)
        same_bits(stepper.snapshot(), fifo.snapshot())
    assert len(seen) > 10


@pytest.mark.thorough
@given(training_programs(), st.integers(0, 2**32 - 1), st.booleans())
@settings(max_examples=25)
def test_a_training_program_computes_the_same_bits_in_any_legal_order(program: Program, seed: int, shares: bool):
    compiled = program.compile(rows=3)
    rng = np.random.default_rng(seed)
    fifo = Stepper(compiled)
    with nullcontext() if shares else buffers_apart():
        other = Stepper(compiled)
    before = before_of(other)
    for _ in range(3):
        fed = rng.normal(size=(3, 4))
        reorder(other, random_order(before, rng))
        same_bits(other.step(x=fed), fifo.step(x=fed))
        same_bits(other.snapshot(), fifo.snapshot())
