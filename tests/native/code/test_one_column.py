"""Products of one column: rows that are lanes, from operands along rows or columns, with what follows in the group."""

import numpy as np
import pytest
from native.bound import lowered
from native.building import every_target
from native.made import Made, check

from registry import OPS
from runtime.codegen.groups.nodes import Additions
from runtime.engines.native.cpu import this_machine


def numbers(shape, dtype="float32", seed=0):
    return np.random.default_rng(seed).normal(0.3, 1, shape).astype(dtype)


@every_target
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("rows", "depth"), [(1, 5), (2, 1), (7, 3), (16, 64), (33, 300), (64, 17), (150, 70)])
def test_rows_and_columns_of_any_length(target, dtype, rows, depth):
    def write(x, y, z, bias):
        yield OPS["tanh"](OPS["add"](OPS["matmul"](x, y), bias))
        yield OPS["mul"](OPS["outer_sum"](z, OPS["reshape"](y, shape=(depth, 1))), 2.0)

    operands = [numbers((rows, depth), dtype), numbers((depth, 1), dtype, 1), numbers((depth, rows), dtype, 2)]
    check(write, [*operands, numbers((1,), dtype, 3)], target, near=1e-4 if dtype == "float32" else 1e-12, threads=2)


@pytest.mark.parametrize("end", [True, False])
def test_nothing_beside_the_operands_is_touched(end):
    operands = [numbers((3, 37, 21)), numbers((3, 21, 1), seed=1)]
    check(lambda x, y: OPS["matmul"](x, y), operands, this_machine(), near=1e-4, end=end)


@every_target
def test_a_depth_of_one_takes_one_number_out_of_many(target):
    """No rows of the right operand are a distance apart, which is then 0."""

    def write(x, y):
        one = OPS["reshape"](OPS["slice"](y, axis=(0,), starts=(1,), stops=(2,), strides=(1,)), shape=(1, 1))
        return OPS["matmul"](x, one)

    check(write, [numbers((20, 1)), numbers((3,), seed=1)], target, near=1e-6)


def test_what_is_not_finite_stays_in_its_row():
    x = numbers((40, 33))
    x[3, 32], x[20, 0] = np.nan, np.inf
    [found] = check(lambda x, y: OPS["matmul"](x, y), [x, np.abs(numbers((33, 1)))], this_machine(), near=1e-4)
    assert np.isnan(found[3, 0])
    assert np.isposinf(found[20, 0])
    assert np.isfinite(np.delete(found, [3, 20])).all()


def test_any_number_of_threads_gives_the_same_bits():
    operands = [numbers((500, 300)), numbers((300, 1), seed=1)]
    made = Made(lambda x, y: OPS["matmul"](x, y), operands)
    task = lowered(made.desc, (), this_machine()).kernels[0]
    assert task is not None
    assert task.additions is Additions.LANES
    [first], *others = (made.native(this_machine(), threads) for threads in (1, 2, 3))
    assert all(first.tobytes() == other.tobytes() for [other] in others)
