"""Normalisation of each element of a batch against loops over its numbers."""

from itertools import product

import numpy as np
import pytest
from subjects.evaluate import block_of, computed, evaluate
from subjects.values import check_orders, define

from compiler.train.backward import gradients
from prograd import Program, Run, constant, layers, sgd
from prograd_proto import TensorType
from registry import Block, OpError, ops
from runtime.engines.reference.kernels import windows

RNG = np.random.default_rng(5)

CHUNKS = pytest.mark.parametrize("chunk", [1, windows.CHUNK_BYTES])


def standardized(numbers, epsilon):
    """A list of numbers brought to mean 0 and deviation 1, its mean and 1 / its deviation."""
    center = sum(numbers) / len(numbers)
    root = (sum((number - center) ** 2 for number in numbers) / len(numbers) + epsilon) ** -0.5
    return [(number - center) * root for number in numbers], center, root


@CHUNKS
@pytest.mark.parametrize(("shape", "axis"), [((4, 5), -1), ((3, 2, 4), 1), ((2, 3, 4), 2), ((3, 4), 0)])
def test_layer_norm_standardizes_the_last_axes(shape, axis, chunk, monkeypatch):
    monkeypatch.setattr(windows, "CHUNK_BYTES", chunk)
    x, scale, bias = RNG.normal(3, 2, shape), RNG.normal(size=shape[axis:]), RNG.normal(size=shape[axis:])
    y, mean, root = evaluate(lambda *v: list(ops.layer_norm(*v, axis=axis, epsilon=0.1)), x, scale, bias)
    for place in np.ndindex(*shape[: axis % len(shape)]):
        unit, center, inverse = standardized([float(number) for number in x[place].reshape(-1)], 0.1)
        np.testing.assert_allclose(y[place], np.reshape(unit, scale.shape) * scale + bias)
        np.testing.assert_allclose([mean[place].item(), root[place].item()], [center, inverse])


@CHUNKS
@pytest.mark.parametrize(("shape", "groups"), [((2, 3, 4), 2), ((3, 2, 2, 6), 3), ((2, 2, 1, 2, 4), 4), ((3, 4), 1)])
def test_group_norm_standardizes_each_group_of_channels(shape, groups, chunk, monkeypatch):
    monkeypatch.setattr(windows, "CHUNK_BYTES", chunk)
    channels = shape[-1]
    x, scale, bias = RNG.normal(3, 2, shape), RNG.normal(size=channels), RNG.normal(size=channels)
    y, mean, root = evaluate(lambda *v: list(ops.group_norm(*v, groups=groups, epsilon=0.1)), x, scale, bias)
    width = channels // groups
    for n, group in product(range(shape[0]), range(groups)):
        own = slice(group * width, (group + 1) * width)
        numbers = x[n, ..., own]
        unit, center, inverse = standardized([float(number) for number in numbers.reshape(-1)], 0.1)
        np.testing.assert_allclose(y[n, ..., own], np.reshape(unit, numbers.shape) * scale[own] + bias[own])
        found = mean.reshape(shape[0], groups)[n, group], root.reshape(shape[0], groups)[n, group]
        np.testing.assert_allclose(found, [center, inverse])


def test_instance_norm_standardizes_each_channel_of_each_image():
    x, scale, bias = RNG.normal(3, 2, (2, 3, 4, 3)), RNG.normal(size=3), RNG.normal(size=3)
    y = evaluate(lambda *v: ops.instance_norm(*v, epsilon=0.1), x, scale, bias)
    for n, c in product(range(2), range(3)):
        unit, _, _ = standardized([float(number) for number in x[n, ..., c].reshape(-1)], 0.1)
        np.testing.assert_allclose(y[n, ..., c].reshape(-1), np.array(unit) * scale[c] + bias[c])
    plain = evaluate(lambda x: ops.instance_norm(x, epsilon=0.1), x)
    np.testing.assert_allclose(plain * scale + bias, y, rtol=1e-12, atol=1e-12)


@CHUNKS
@pytest.mark.parametrize(("shape", "axis"), [((4, 5), -1), ((3, 2, 4), 1)])
def test_rms_norm_divides_by_the_root_of_the_mean_square(shape, axis, chunk, monkeypatch):
    monkeypatch.setattr(windows, "CHUNK_BYTES", chunk)
    x, scale = RNG.normal(3, 2, shape), RNG.normal(size=shape[axis:])
    y, root = evaluate(lambda *v: list(ops.rms_norm(*v, axis=axis, epsilon=0.1)), x, scale)
    for place in np.ndindex(*shape[: axis % len(shape)]):
        numbers = [float(number) for number in x[place].reshape(-1)]
        inverse = (sum(number**2 for number in numbers) / len(numbers) + 0.1) ** -0.5
        np.testing.assert_allclose(y[place], x[place] * inverse * scale)
        np.testing.assert_allclose(root[place].item(), inverse)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("shape", [(2, 5), (2, 3, 5), (1, 2, 2, 4)])
def test_local_response_norm_divides_by_the_power_of_neighbouring_channels(shape, size):
    x = RNG.normal(size=shape)
    y = evaluate(lambda x: ops.local_response_norm(x, size=size, alpha=0.3, beta=0.6, bias=1.5), x)
    for c in range(shape[-1]):
        near = [d for d in range(c - (size - 1) // 2, c + size // 2 + 1) if 0 <= d < shape[-1]]
        total = sum(x[..., d] ** 2 for d in near)
        np.testing.assert_allclose(y[..., c], x[..., c] / (1.5 + 0.3 / size * total) ** 0.6)


def test_layer_norm_finds_a_small_variance_far_from_zero():
    x = (1e4 + RNG.normal(size=(8, 512))).astype("float32")
    y = evaluate(lambda x: ops.layer_norm(x)[0], x)
    np.testing.assert_allclose(y.std(1), 1, atol=1e-2)
    np.testing.assert_allclose(y.mean(1), 0, atol=1e-2)


@pytest.mark.parametrize("op", ["layer_norm", "group_norm"])
@pytest.mark.parametrize("part", [[1], [2], [1, 2], [0, 2]])
def test_gradients_flow_through_any_of_the_statistics(op, part):
    x = RNG.normal(size=(3, 4))
    attributes = {"groups": 2} if op == "group_norm" else {}
    block, [value] = block_of((x,))
    made = [getattr(ops, op)(value, **attributes)[i] for i in part]
    [dx] = gradients(made, [value])
    [found] = computed(block, [dx], (x,))
    change = RNG.normal(size=x.shape)
    plus, minus = (sum(y.sum() for y in computed(block, made, (x + s * change,))) for s in (1e-5, -1e-5))
    assert np.vdot(found, change) == pytest.approx((plus - minus) / 2e-5, rel=1e-5, abs=1e-8)


def test_local_response_norm_has_second_gradients():
    block = Block()
    x = define(block, "x", (2, 2, 5))
    y = ops.local_response_norm(x, size=3, alpha=0.5)
    check_orders(y, [x], {"x": RNG.normal(size=(2, 2, 5))}, 2)


def test_normalisation_leaves_a_batch_without_size_alone():
    x = Block().define("x", TensorType("float64", ("n", 4, 6, 2)))
    assert ops.layer_norm(x, axis=1)[1].shape == ("n", 1, 1, 1)
    assert ops.group_norm(x, groups=2)[1].shape == ("n", 1, 1, 2, 1)
    assert ops.local_response_norm(x, size=3).shape == x.shape


def test_parameters_of_another_shape_are_refused_in_a_sentence():
    _, [x, scale] = block_of((np.zeros((3, 4)), np.zeros(3)))
    with pytest.raises(OpError) as refused:
        ops.layer_norm(x, scale)
    assert str(refused.value) == "layer_norm(x: float64[3, 4], scale: float64[3]): scale is float64[3], not float64[4]"
    with pytest.raises(OpError) as refused:
        ops.group_norm(x, groups=3)
    assert str(refused.value) == "group_norm(x: float64[3, 4]): groups=3 does not divide 4 channels"


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("norm", ["layer_norm", "rms_norm"])
def test_a_scale_near_the_largest_number_overflows_only_where_the_result_does(norm: str, engine: str):
    rows = np.random.default_rng(0).choice(np.float32([-0.01, 0.01]), size=(32, 128))
    rows[:, 64:] = -rows[:, :64]  # the mean is 0
    program = Program("p")
    x, scale = program.input("x", "float32", ("n", 128)), program.parameter("s", (128,), constant(3e38))
    bias = [program.parameter("b", (128,), constant(0.0))] * (norm == "layer_norm")
    program.outputs(y=getattr(ops, norm)(x, scale, *bias, axis=-1, epsilon=1e-5)[0])
    found = Run(program.compile(n=32), engine=engine).predict(rows)["y"]
    np.testing.assert_allclose(found, np.float64(rows) / np.sqrt(1e-4 + 1e-5) * 3e38, rtol=1e-5)


CONSTANT_NORMS = {
    "layer_norm": ((32, 96), lambda x: ops.layer_norm(x, axis=-1, epsilon=1e-5)[0], (1,)),
    "group_norm": ((32, 5, 64), lambda x: ops.group_norm(x, groups=1, epsilon=1e-5)[0], (1, 2)),
    "instance_norm": ((32, 7, 64), lambda x: ops.instance_norm(x, epsilon=1e-5), (1,)),
}


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("norm", CONSTANT_NORMS)
@pytest.mark.parametrize(("dtype", "value"), [("float64", 1e15 + 0.3), ("float32", 123456.7), ("float32", 3e10)])
def test_constant_numbers_of_large_values_are_normalised_to_0(dtype: str, value: float, norm: str, engine: str):
    shape, make, axes = CONSTANT_NORMS[norm]
    rows = np.full(shape, value, dtype)
    rows[5] = np.linspace(-1, 1, rows[5].size).reshape(rows[5].shape)
    program = Program("p")
    program.outputs(y=make(program.input("x", dtype, ("n", *shape[1:]))))
    found = Run(program.compile(n=32), engine=engine).predict(rows)["y"]
    assert not np.delete(found, 5, axis=0).any()
    far = rows[5:6] - rows[5:6].mean(axes, keepdims=True)
    np.testing.assert_allclose(
        found[5:6], far / np.sqrt(np.mean(far * far, axes, keepdims=True) + 1e-5), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize(("dtype", "value"), [("float64", 1e15 + 0.3), ("float32", 123456.7), ("float32", 3e10)])
def test_a_constant_channel_of_large_values_is_normalised_to_0_in_training(dtype: str, value: float, engine: str):
    rows = np.random.default_rng(1).standard_normal((32, 64)).astype(dtype)
    rows[:, 7] = value
    program = Program("p")
    x = program.input("x", dtype, ("n", 64))
    y = layers.batch_norm(x, "norm", momentum=0.5)
    program.minimize(ops.mean(y), sgd(0.0))
    run = Run(program.compile(n=32), engine=engine)
    found = run.step({"x": rows}, fetch=[y.name])[y.name]
    assert not found[:, 7].any()
    wanted = (rows - rows.mean(0)) / np.sqrt(rows.var(0) + 1e-5)
    np.testing.assert_allclose(np.delete(found, 7, 1), np.delete(wanted, 7, 1), atol=1e-5)
    np.testing.assert_allclose(run.state["norm.mean"][7], rows[0, 7] / 2, rtol=1e-6)
