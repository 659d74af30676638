"""Forms that ask where an element is: random numbers, fills and triangles; alone, and in groups of every shape."""

from itertools import count

import numpy as np
import pytest
from native.bound import bind_compiled, lowered
from native.building import every_target
from oracles.interpret import interpret

from prograd_proto import TensorType
from registry import OPS, Block
from runtime.codegen.ir import INT64, UINT32, Module, pointer
from runtime.codegen.math import philox
from runtime.engines.native import jit
from runtime.engines.native.cpu import this_machine
from runtime.memory.aligned import aligned_bytes
from runtime.philox import WORK_ROWS, random_bits_by_numpy

SHAPES = [(1, 1), (3, 7), (2, 131)]
FLOATS = ("float32", "float64")
SEED, STEP = -(2**62) - 12345, 2**33 + 7

NEAR = {"float32": 3e-7, "float64": 2e-15}
"""Tolerance for normal random numbers, whose logarithm and sine differ from NumPy's; all others are equal."""


def both(target, operands, make):
    """Compare the tensors that `make(block, *operands)` returns with those of the reference kernels."""
    block, feeds = Block(streams=count(41)), {"seed": np.array(SEED), "step": np.array(STEP), **operands}
    values = [block.define(name, TensorType(x.dtype.name, x.shape)) for name, x in feeds.items()]
    made = list(make(block, *values[2:], *values[:2]))
    wanted = interpret(block.desc, feeds)
    for name in feeds:
        block.desc.parameters.add(tensor=name, feed=name)
    step = lowered(block.desc, [value.name for value in made], target)
    arena = aligned_bytes(step.memory.arena_bytes)
    arena[:] = 0xFF
    compiled = bind_compiled(step, {}, arena)
    for name, x in feeds.items():
        compiled.arrays[name][...] = x
    compiled()
    assert not any(group.is_host for group in step.groups)
    return [(compiled.arrays[value.name], wanted[value.name]) for value in made]


@every_target
def test_words_are_those_of_the_reference_stream(target):
    blocks = 24
    module = Module(target)
    f = module.function("built", [pointer(UINT32), pointer(INT64)])
    seed, step, first = (f.load(f.arguments[1], i) for i in range(3))
    lanes = target.lanes(32)
    for i in range(0, 4 * blocks, lanes):
        f.store(philox(seed, step, f.index(2**32 - 3), first + i // 4, lanes), f.arguments[0], i)
    f.end()
    got, wanted = np.zeros((2, 4 * blocks), np.uint32)
    first = 2**32 - 7  # blocks are counted in 32 bits
    numbers = np.array([SEED, STEP, first])
    jit.load(jit.compiled(module), target).function("built", 2)(got.ctypes.data, numbers.ctypes.data)
    work = np.zeros((WORK_ROWS, blocks), np.uint64)
    random_bits_by_numpy(wanted, work, seed=SEED, stream=2**32 - 3, step=STEP, first=first)
    np.testing.assert_array_equal(got, wanted)


def draws(block, shape):
    """All operators that draw, with attributes that take every way through them."""
    for dtype in FLOATS:
        yield "uniform", {"shape": shape, "low": -0.7, "high": 1.1, "dtype": dtype}
        yield "normal", {"shape": shape, "mean": 0.5, "deviation": 2.0, "dtype": dtype}
        bounds = {"low": -1.5, "high": 4.0, "mean": -0.5, "deviation": 0.7}
        yield "truncated_normal", {"shape": shape, **bounds, "dtype": dtype}
    for dtype in (*FLOATS, "bool", "uint8", "int64"):
        yield "bernoulli", {"shape": shape, "probability": 0.3, "dtype": dtype}
    yield "bernoulli", {"shape": shape, "probability": 1.0, "dtype": "bool"}
    yield "randint", {"shape": shape, "low": -5, "high": 2**32 - 5, "dtype": "int64"}
    yield "randint", {"shape": shape, "low": -(2**31), "high": 2**31, "dtype": "int32"}


@every_target
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_what_is_drawn_is_what_the_reference_draws(target, shape):
    def make(block, seed, step):
        for name, attributes in draws(block, shape):
            yield OPS[name](seed, step, **attributes)

    for got, wanted in both(target, {}, make):
        if wanted.dtype.kind == "f":
            np.testing.assert_allclose(got, wanted, rtol=NEAR[wanted.dtype.name], atol=NEAR[wanted.dtype.name])
        else:
            np.testing.assert_array_equal(got, wanted)


@every_target
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(1,), (3,), (4, 1), (3, 7), (5, 64), (2, 33, 65), (32, 256)], ids=str)
def test_chosen_classes_are_those_of_the_reference(target, dtype, shape):
    rng = np.random.default_rng(shape[-1])
    operands = {
        "usual": rng.normal(0, 4, shape),
        "equal": np.zeros(shape),
        "far": rng.choice([-1e30, -800.0, 700.0, 0.0, -np.inf], shape),
        "odd": rng.choice([1.0, np.nan, np.inf, -np.inf], shape),
        "none": np.full(shape, -np.inf),
    }

    def make(block, usual, equal, far, odd, none, seed, step):
        for x in (usual, equal, far, odd, none):
            yield OPS["categorical"](x, seed, step)
        yield OPS["categorical"](usual * 0.25, seed, step) + 1

    for got, wanted in both(target, {name: x.astype(dtype) for name, x in operands.items()}, make):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.sampled(6)
@every_target
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_dropout_in_a_group_drops_what_it_drops_alone(target, dtype, shape):
    rng = np.random.default_rng(1)
    operands = {"x": rng.normal(size=shape).astype(dtype), "row": rng.normal(size=shape[-1:]).astype(dtype)}
    operands["x"].flat[-1] = np.inf

    def make(block, x, row, seed, step):
        yield OPS["dropout"](x, seed, step, ratio=0.4) * 2.0
        yield OPS["dropout"](x + row, seed, step, ratio=0.25)  # whose rows begin anywhere
        yield OPS["alpha_dropout"](x * row, seed, step, ratio=0.25)
        yield OPS["alpha_dropout"](x, seed, step, ratio=0.25, linear=True)
        yield OPS["sum"](OPS["dropout"](x - row, seed, step, ratio=0.5), axis=(0,))
        yield OPS["uniform"](seed, step, shape=shape, dtype=dtype) + row

    *exact, (sums, wanted_sums), (drawn, wanted_drawn) = both(target, operands, make)
    for got, wanted in exact:
        np.testing.assert_array_equal(got, wanted)
    np.testing.assert_allclose(sums, wanted_sums, rtol=1e-5)
    np.testing.assert_allclose(drawn, wanted_drawn, rtol=1e-6)


@every_target
@pytest.mark.parametrize("shape", [(4, 1), (3, 7), (2, 40, 33)], ids=str)
def test_fills_and_triangles_are_those_of_the_reference(target, shape):
    x = np.random.default_rng(2).normal(size=shape).astype("f4")
    x.flat[0] = np.nan

    def make(block, x, *_):
        for offset in (0, 1, -2, 2**40, -(2**40)):
            yield OPS["tril"](x, offset=offset)
            yield OPS["triu"](x * 2.0, offset=offset)
            yield OPS["cast"](OPS["triu"](x, offset=offset), dtype="bool")
        for offset, dtype in ((0, "float32"), (1, "int64"), (-1, "bool"), (0, "uint8")):
            yield OPS["eye"].on(block)(shape=shape, offset=offset, dtype=dtype)
        for value, dtype in ((-2.5, "float32"), (7, "int32"), (1, "bool")):
            yield OPS["full"].on(block)(shape=shape, value=value, dtype=dtype)

    for got, wanted in both(target, {"x": x}, make):
        np.testing.assert_array_equal(got, wanted)


@every_target
def test_evenly_spaced_numbers_are_those_of_the_reference(target):
    def make(block, *_):
        for count_, dtype in ((1, "float32"), (2, "float64"), (77, "float32")):
            yield OPS["linspace"].on(block)(start=-1.0, stop=2.3, count=count_, dtype=dtype)
        for dtype in ("float32", "int32", "int64", "uint8", "float64"):
            yield OPS["range"].on(block)(start=3.0, stop=90.0, step=4.0, dtype=dtype)
        yield OPS["range"].on(block)(start=0.5, stop=-9.0, step=-0.3, dtype="float64")

    for got, wanted in both(target, {}, make):
        np.testing.assert_array_equal(got, wanted)


def test_groups_that_differ_in_their_streams_alone_share_their_code():
    block = Block(streams=count(7))
    seed, step = (block.define(name, TensorType("int64", ())) for name in ("seed", "step"))
    inputs = [block.define(f"x{i}", TensorType("float32", (5, 9))) for i in range(3)]
    made = [OPS["dropout"](x, seed, step, ratio=0.5) for x in inputs]
    for value in (seed, step, *inputs):
        block.desc.parameters.add(tensor=value.name, feed=value.name)
    tasks = lowered(block.desc, [value.name for value in made], this_machine()).kernels
    assert len(tasks) == 3
    assert len({task.key for task in tasks}) == 1
    assert [task.streams[0].op.random_stream for task in tasks] == [7, 8, 9]


@every_target
def test_in_a_pass_over_rows_what_there_is_once_for_a_row_is_dropped_by_its_own_place(target):
    def make(block, x, seed, step):
        largest = OPS["max"](x, axis=(1,), keepdims=True)
        yield OPS["dropout"](largest, seed, step, ratio=0.5) * x
        yield OPS["dropout"](OPS["softmax"](x, axis=-1), seed, step, ratio=0.5)

    x = np.random.default_rng(0).normal(size=(9, 37)).astype("f4")
    for got, wanted in both(target, {"x": x}, make):
        np.testing.assert_allclose(got, wanted, rtol=1e-6)


def test_random_numbers_are_not_drawn_in_every_vector_of_a_tile():
    block = Block()
    x, y = (block.define(name, TensorType("float32", (40, 40))) for name in "xy")
    seed, step = (block.define(name, TensorType("int64", ())) for name in ("seed", "step"))
    for operand in (x, y, seed, step):
        block.desc.parameters.add(tensor=operand.name, state=operand.name)
    made = OPS["dropout"](OPS["matmul"](x, y), seed, step, ratio=0.5)
    block.desc.updates.add(tensor=made.name, state="made")
    assert [group.name for group in lowered(block.desc, (), this_machine()).groups] == ["matmul", "dropout"]
