"""Reductions along any axes as the engine makes them: in units and parts, of every dtype, with NaN, by any threads."""

import numpy as np
import pytest
from native.bound import lowered
from native.building import every_target
from native.made import Made, check

from prograd_proto import TensorType
from registry import OPS, Block
from runtime.engines.native.cpu import this_machine

FULL, ROWS, COLUMNS, IMAGES, CHANNELS, MIDDLE = (), (1,), (0,), (0, 1, 2), (0, 2, 3), (1,)
SHAPES = [
    ((), FULL),
    ((1,), FULL),
    ((5, 1), ROWS),
    ((37,), FULL),
    ((70001,), FULL),
    ((3, 1003), ROWS),
    ((301, 37), ROWS),
    ((5000, 10), COLUMNS),
    ((9001, 3), COLUMNS),
    ((40, 1000), COLUMNS),
    ((5, 70), COLUMNS),
    ((9, 13, 17, 33), IMAGES),
    ((9, 5, 13, 17), CHANNELS),
    ((6, 1, 7), MIDDLE),
    ((7, 40, 70), MIDDLE),
    ((3, 4, 5, 6), (0, 2)),
    ((3, 4, 5, 6), (1, 3)),
    ((2, 3, 4, 5, 6), (0, 2, 4)),
]


def of(name, axes, **more):
    return lambda x: OPS[name](x, axis=axes, **more)


def numbers(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.random(shape) < (0.999 if seed else 0.001)
    return (rng.normal(0.3, 1, shape) * (1 if dtype[0] == "f" else 50)).astype(dtype)


@pytest.mark.parametrize("end", [True, False])
def test_sums_and_extremes_of_any_axes_are_those_of_the_reference(end):
    def write(*operands):
        for x, (_, axes) in zip(operands, SHAPES, strict=True):
            yield OPS["sum"](x, axis=axes)
            yield OPS["max"](x, axis=axes, keepdims=True)

    check(write, [numbers(shape, "float32") for shape, _ in SHAPES], this_machine(), end=end)


@every_target
@pytest.mark.parametrize("dtype", ["float64", "int32", "uint8", "bool"])
def test_every_reduction_of_every_dtype(target, dtype):
    names = ["sum", "prod", "max", "min", *(("all", "any") if dtype == "bool" else ())]

    def write(*operands):
        return [OPS[name](x, axis=axes) for name in names for x, axes in zip(operands, ((1,), (1,), ()), strict=True)]

    operands = [numbers(shape, dtype) / (50 if dtype[0] == "f" else 1) for shape in ((2, 40, 7), (5, 37), (20011,))]
    check(write, [x.astype(dtype) for x in operands], target)


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_goes_where_it_goes_in_the_reference(odd):
    operands = [numbers(shape, "float32") for shape in ((400, 33), (33, 400), (17000,))]
    for x in operands:
        x.flat[[7, x.size // 2, x.size - 1]] = odd

    def write(*operands):
        for x in operands:
            for axes in [(), (0,), (len(x.shape) - 1,)]:
                yield from (OPS[name](x, axis=axes) for name in ("sum", "mean", "max", "min"))

    check(write, operands, this_machine())


def test_what_feeds_a_reduction_is_computed_with_it_and_kept_where_it_is_needed():
    def write(x, y, z):
        product = OPS["mul"](OPS["sub"](x, z), y)
        return product, OPS["sum"](product, axis=(0, 1, 2))

    x, y = numbers((8, 9, 9, 20), "float32"), numbers((8, 9, 9, 20), "float32", 1)
    made = Made(write, [x, y, numbers((20,), "float32")])
    assert made.groups(this_machine()) == ["sub+mul+sum"]
    check(write, [x, y, numbers((20,), "float32")], this_machine())


@pytest.mark.parametrize(("shape", "axes"), [((300001,), ()), ((20000, 10), (0,)), ((64, 16, 23, 23), (0, 2, 3))])
def test_any_number_of_threads_gives_the_same_bits(shape, axes):
    made = Made(of("sum", axes), [numbers(shape, "float32")])
    [one], *others = [made.native(this_machine(), threads) for threads in (1, 2, 3, 4)]
    for [other] in others:
        assert one.tobytes() == other.tobytes()


def test_a_long_sum_of_tenths_keeps_its_digits():
    [total] = check(of("sum", ()), [np.full(3_000_001, 0.1, "f4")], this_machine(), near=1e-4)
    assert total == pytest.approx(3_000_001 * float(np.float32(0.1)), rel=1e-6)


@every_target
@pytest.mark.parametrize(("shape", "axes"), [((70, 37), (0,)), ((3000, 37), (0,)), ((5, 20000), (1,)), ((70001,), ())])
def test_what_has_the_shape_of_the_results_is_computed_with_them(target, shape, axes):
    def write(x, y, rate):
        total = OPS["sum"](OPS["mul"](x, x), axis=axes)
        yield OPS["sub"](y, OPS["mul"](total, rate))
        yield OPS["tanh"](total)
        yield OPS["mul"](OPS["mul"](total, y), y)

    kept = tuple(extent for axis, extent in enumerate(shape) if axes and axis not in axes)
    operands = [numbers(shape, "float32"), numbers(kept, "float32", 1), np.float32(0.125)]
    assert Made(write, operands).groups(target) == ["mul+sum+mul+sub+tanh+mul+mul"]
    check(write, operands, target, threads=2)


def test_a_state_is_updated_in_place_with_the_sum_that_is_its_gradient():
    block = Block()
    x, bias = block.define("x", TensorType("float32", (300, 37))), block.define("bias", TensorType("float32", (37,)))
    made = OPS["sub"](bias, OPS["sum"](x, axis=(0,)))
    block.desc.parameters.add(tensor="x", feed="x")
    block.desc.parameters.add(tensor="bias", state="bias")
    block.desc.updates.add(tensor=made.name, state="bias")
    step = lowered(block.desc, (), this_machine())
    assert [group.name for group in step.groups] == ["sum+sub"]
    assert step.memory.in_state == {made.name: "bias"}
    assert [buffer.name for buffer in step.memory.buffers] == ["x"]


def test_squares_of_gradients_are_joined_in_one_phase_and_never_in_memory():
    def write(x, y, z):
        gradients = [OPS["matmul"](x, y), OPS["matmul"](y, z)]
        squares = [OPS["sum"](OPS["mul"](g, g)) for g in gradients]
        limit = OPS["sqrt"](OPS["add"](*squares))
        return [OPS["div"](g, limit) for g in gradients]

    operands = [numbers((40, 40), "float32", seed) for seed in range(3)]
    step = lowered(Made(write, operands).desc, (), this_machine(), threads=2)
    names = ["matmul", "matmul", "mul+sum", "mul+sum", "add+sqrt", "div", "div"]
    assert [group.name for group in step.groups] == names
    assert step.phases.first == [0, 0, 1, 1, 2, 3, 3]
    check(write, operands, this_machine(), threads=3)
