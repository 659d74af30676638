"""Memory of rows beside their arrays is counted: rounding, and the order by length."""

from pathlib import Path

import numpy as np
import pytest
from oracles.allocation import traced

import prograd
from prograd import Program, ops, sgd
from runtime.errors import ResourceLimit
from runtime.memory.limit import MemoryLimit
from runtime.rows.casts import cast_rows

COUNT = 20_000


def test_rounding_rows_takes_little_more_than_the_result():
    rows, out = np.ones((COUNT, 100)), np.empty((COUNT, 100), np.float32)
    with traced() as allocation:
        cast_rows("x", rows, out)
    assert allocation.peak_bytes < out.nbytes // 8
    assert (out == 1).all()


def test_a_number_that_does_not_fit_is_named_by_its_row_wherever_it_is():
    rows = np.ones((COUNT, 30))
    rows[COUNT - 2, 7] = 1e300
    with pytest.raises(prograd.DataError) as caught:
        cast_rows("x", rows, np.empty(rows.shape, np.float32))
    assert str(caught.value) == f"row {COUNT - 2} of 'x' has 1e+300, which float32 does not hold"


def test_a_thread_that_reads_rows_is_counted_where_the_process_is():
    class Owner:
        pass

    owner = Owner()
    of_process, of_run = MemoryLimit(1 << 40, of_process=True), MemoryLimit(1 << 40)
    before = of_process.most
    for limit in (of_process, of_run):
        limit.take_thread(owner)
    assert (of_process.most - before, of_run.most) == (4 << 20, 0)


def test_the_order_of_rows_by_length_is_counted(tmp_path: Path):
    lengths = np.random.default_rng(0).integers(1, 4, COUNT)
    ends = np.cumsum([0, *lengths])
    prograd.data.write(tmp_path / "r.safetensors", {"x": np.ones(int(ends[-1]), np.float32), "x.offsets": ends})
    program = Program("lengths", seed=1)
    x = program.input("x", "float32", ("n", "length"))
    program.minimize(ops.mean(ops.square(x * program.parameter("w", ()))), sgd(0.1))
    program.data("r.safetensors", shuffle=True, remainder="drop")
    program.compile(n=16, length=(2, 4)).save(tmp_path / "p.pb")

    def most(limit: int) -> int:
        run = prograd.load(tmp_path / "p.pb", max_memory=limit, engine="reference")
        with traced() as allocation:
            events = run.events(epochs=1)
            next(events)
        events.close()
        assert allocation.peak_bytes < run.memory.most
        return run.memory.most

    counted = most(1 << 30)
    with pytest.raises(ResourceLimit):
        most(counted - COUNT * 40)
