"""The producer slot: activations, casts and norms that a product or convolution computes where it packs its operand."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from native.bound import lowered
from native.building import every_target
from native.made import Made, check

import runtime
from prograd import Program
from registry import OPS, Value
from registry.ops import matmul, outer_sum, relu
from runtime.codegen.emit.code import emit
from runtime.codegen.machine import Target, target
from runtime.engines.native.cpu import this_machine

NEAR = 2e-5
"""Relative to the largest element: long sums of numbers of both signs are smaller than what is added."""

SIZES = [(32, 128, 64), (32, 256, 64), (65, 131, 37), (256, 128, 128), (512, 512, 512)]
"""Rows, depth and columns of products whose parts compute each element of an operand once, or are large."""

Operand = Callable[..., Value]
"""Computes the operand of a product from its own operands."""

OPERANDS: dict[str, tuple[str, Operand]] = {
    "relu": ("relu", lambda x, v: relu(x)),
    "scaled": ("mul+sub", lambda x, v: x * v - 1.0),
    "cast": ("cast", lambda x, v: OPS["cast"](x, dtype="float32")),
    "cast of halves": ("cast", lambda x, v: OPS["cast"](x, dtype="float32")),
    "rms_norm": ("rms_norm", lambda x, v: OPS["rms_norm"](x, v, axis=-1, epsilon=1e-5)[0]),
    "layer_norm": ("layer_norm", lambda x, v: OPS["layer_norm"](x, v, v, axis=-1, epsilon=1e-5)[0]),
}
"""Computed operands: the expected name of the producing group, and the function of a tensor and a row."""

DTYPES = {"cast": "float64", "cast of halves": "float16"}
"""Dtypes of the tensors that are cast."""


def numbers(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(shape).normal(0.5, 1, shape).astype(dtype)


def both(write: Operand, name: str, operands: Sequence[np.ndarray], target: Target) -> list[str]:
    """The groups of ops whose operand is not in memory, after a comparison with those whose operand is, bit by bit."""
    operand = OPERANDS[name][1]

    def computed(x: Value, v: Value, w: Value) -> list[Value]:
        return [write(operand(x, v), w)]

    def kept(x: Value, v: Value, w: Value) -> list[Value]:
        y = operand(x, v)
        return [write(y, w), y]

    [found] = check(computed, operands, target, NEAR)
    stored = Made(kept, operands)
    assert all(OPERANDS[name][0] not in group or group == OPERANDS[name][0] for group in stored.groups(target))
    np.testing.assert_array_equal(found.view("u4"), stored.native(target)[0].view("u4"))
    for threads in (2, 3):
        [other] = Made(computed, operands).native(target, threads)
        np.testing.assert_array_equal(found.view("u4"), other.view("u4"))
    return Made(computed, operands).groups(target)


@pytest.mark.sampled(18)
@every_target
@pytest.mark.parametrize("name", OPERANDS)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_a_product_computes_its_left_operand_with_the_bits_of_one_in_memory(
    name: str, size: tuple[int, int, int], target: Target
):
    m, k, n = size
    operands = [numbers(m, k, dtype=DTYPES.get(name, "float32")), numbers(k), numbers(k, n)]
    group, fused = both(matmul, name, operands, target)[-1], f"{OPERANDS[name][0]}+matmul"
    assert group == fused or "avx512" not in target.name, (
        "narrower registers have more panels, for which storing may pay"
    )


@pytest.mark.sampled(15)
@pytest.mark.parametrize("name", OPERANDS)
@pytest.mark.parametrize("case", ["weights", "transposed weights", "one column", "gradient", "its right operand"])
def test_either_operand_of_every_product_may_be_computed(name: str, case: str):
    """Rows of it along the depth or along the result, in blocks of the depth, and where vectors are rows of it."""
    dtype, target = DTYPES.get(name, "float32"), this_machine()
    write, operand, other = {
        "weights": (lambda y, x: matmul(x, y), (300, 130), (7, 300)),
        "transposed weights": (lambda y, x: matmul(x, y, transpose_b=True), (130, 300), (7, 300)),
        "one column": (matmul, (130, 70), (70, 1)),
        "gradient": (outer_sum, (290, 130), (290, 17)),
        "its right operand": (lambda y, x: outer_sum(x, y), (300, 130), (300, 20)),
    }[case]
    operands = [numbers(*operand, dtype=dtype), numbers(operand[1]), numbers(*other)]
    assert "+" in both(write, name, operands, target)[-1]


def test_rows_of_several_axes_and_statistics_of_each():
    """The rows of an operand are all its axes but the last, also where matrices are apart for what is added to them."""
    shape = (4, 33, 80)

    def write(x: Value, v: Value, w: Value, beside: Value) -> list[Value]:
        y = OPS["layer_norm"](x, v, v, axis=-1, epsilon=1e-5)[0]
        return [matmul(y, w) + beside]

    operands = [numbers(*shape), numbers(80), numbers(80, 32), numbers(33, 32)]
    groups = Made(write, operands).groups(this_machine())
    assert groups == ["layer_norm", "layer_norm+matmul+add"]
    check(write, operands, this_machine(), NEAR)


def test_an_operand_of_a_part_of_a_tensor():
    """Rows of a slice are further apart than they are long."""

    def write(x: Value, w: Value) -> list[Value]:
        _, right = OPS["split"](x, axis=1, sizes=(30, 90))
        return [matmul(relu(right), w)]

    operands = [numbers(130, 120), numbers(90, 20)]
    assert Made(write, operands).groups(this_machine()) == ["relu+matmul"]
    check(write, operands, this_machine(), NEAR)


def test_what_parts_would_compute_several_times_is_stored_unless_it_is_far():
    def write(x: Value, w: Value) -> list[Value]:
        return [matmul(relu(x), w)]

    def twice(x: Value, w: Value) -> list[Value]:
        y = relu(x)
        return [matmul(y, w), matmul(y, OPS["neg"](w))]

    def groups(write: Operand, m: int, k: int, n: int) -> list[str]:
        return Made(write, [numbers(m, k), numbers(k, n)]).groups(target("avx512"))

    assert groups(write, 32, 256, 256) == ["relu", "matmul"]
    assert groups(write, 512, 512, 512) == ["relu+matmul"]
    assert groups(twice, 256, 64, 64)[0] == "relu"
    assert "relu" not in groups(twice, 4096, 64, 48)
    check(twice, [numbers(4096, 64), numbers(64, 48)], this_machine(), NEAR, threads=2)


def test_a_state_is_not_written_over_while_the_operand_of_its_gradient_is_computed_of_it():
    """Each part of the result reads rows of the old value that others have updated by then."""
    operands = [numbers(130, 130), numbers(130, 130)]
    made = Made(lambda w, dy: [w - outer_sum(relu(w), dy)], operands)
    made.desc.updates[0].state = "x0"
    step = lowered(made.desc, (), this_machine())
    assert [group.name for group in step.groups] == ["relu+outer_sum+sub"]
    assert step.memory.in_state == {}


def test_a_cast_and_a_norm_of_channels_before_a_convolution():
    """The slot of a convolution takes the same nodes."""
    attributes = {"stride": (1, 1), "padding": (0, 0, 0, 0), "dilation": (1, 1), "groups": 1}

    def cast(x: Value, w: Value) -> list[Value]:
        return [OPS["conv2d"](OPS["cast"](x, dtype="float32"), w, **attributes)]

    def norm(x: Value, v: Value, w: Value) -> list[Value]:
        y = OPS["layer_norm"](x, v, v, axis=-1, epsilon=1e-5)[0]
        return [OPS["conv2d"](y, w, **attributes)]

    image, filter = numbers(16, 16, 16, 24), numbers(1, 1, 24, 37)
    for write, operands in ((cast, [image.astype("float16"), filter]), (norm, [image, numbers(24), filter])):
        assert Made(write, operands).groups(this_machine())[-1].endswith("+conv2d")
        check(write, operands, this_machine(), 1e-4, threads=2)


@every_target
@pytest.mark.parametrize(
    ("dtype", "name"),
    [("float32", "gather+matmul"), ("float16", "gather+cast+matmul")],
)
def test_rows_that_indices_select_are_read_where_a_product_packs_them(dtype: str, name: str, target: Target):
    """There are as many rows in the table as in the product. Sums of columns keep its result from being a state."""

    def kept(x: Value, i: Value, w: Value) -> list[Value]:
        rows = OPS["gather"](x, i)
        y = rows if dtype == "float32" else OPS["cast"](rows, dtype="float32")
        return [OPS["cumsum"](matmul(y, w), axis=0), rows]

    def computed(x: Value, i: Value, w: Value) -> list[Value]:
        return kept(x, i, w)[:1]

    indices = np.random.default_rng(0).integers(0, 300, 300)
    operands = [numbers(300, 130, dtype=dtype), indices, numbers(130, 32)]
    made, stored = Made(computed, operands), Made(kept, operands)
    assert made.groups(target)[0] == name
    assert name not in stored.groups(target)
    [found] = check(computed, operands, target, NEAR)
    np.testing.assert_array_equal(found, stored.native(target)[0])
    np.testing.assert_array_equal(found, made.native(target, 3)[0])


def test_an_index_of_no_row_ends_the_step_where_a_product_looks_it_up():
    program = Program("table")
    w, table = program.parameter("w", (64, 48)), program.input("table", "float32", (500, 64))
    indices = program.input("indices", "int64", (300,))
    program.outputs(y=matmul(OPS["gather"](table, indices), w))
    rows, table = np.arange(300), numbers(500, 64)
    run = runtime.Run(program.compile().desc, engine="native")
    assert run.predict({"table": table, "indices": rows})["y"].shape == (300, 48)
    rows[7] = 500
    with pytest.raises(runtime.ExecutionError, match="index 500 is out of range: there are 500 places, from 0"):
        run.predict({"table": table, "indices": rows})


def test_a_state_that_the_product_updates_waits_for_the_check_of_indices():
    """A refused step changes no state, so that a group of its own looks at the indices before."""

    def write(x: Value, i: Value, w: Value) -> list[Value]:
        return [matmul(OPS["gather"](x, i), w)]

    operands = [numbers(300, 130), np.arange(300), numbers(130, 32)]
    assert Made(write, operands).groups(this_machine()) == ["gather", "matmul"]


def test_a_training_step_is_the_same_where_operands_are_computed():
    """A norm before a layer is read by the layer and by the gradient of its weights, which compute it again."""

    def write(x: Value, v: Value, w: Value, dy: Value) -> list[Value]:
        y = OPS["rms_norm"](x, v, axis=-1, epsilon=1e-5)[0]
        return [matmul(y, w), outer_sum(y, dy)]

    operands = [numbers(6000, 64), numbers(64), numbers(64, 48), numbers(6000, 48)]
    assert Made(write, operands).groups(target("avx512")) == ["rms_norm", "rms_norm+matmul", "rms_norm+outer_sum"]
    first, *others = (check(write, operands, this_machine(), NEAR, threads) for threads in (1, 2, 3))
    for other in others:
        for a, b in zip(first, other, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("instructions", ["neon", "avx512", "avx2", "sse2"])
def test_the_slot_is_lowered_for_every_instruction_set(instructions: str):
    operands = [numbers(256, 128), numbers(128), numbers(128, 64)]
    made = Made(lambda x, v, w: [matmul(OPERANDS["rms_norm"][1](x, v), w)], operands)
    step = lowered(made.desc, (), target(instructions))
    assert step.groups[-1].name == "rms_norm+matmul"
    kernels = [kernel for kernel in step.kernels if kernel is not None]
    assert all(str(module) for module in emit(step.target, kernels, step.steps).modules)


@every_target
@pytest.mark.parametrize(("m", "k", "n"), [(32, 256, 64), (4, 256, 64), (65, 131, 37)])
def test_a_scalar_from_memory_scales_an_operand_where_it_is_packed(m: int, k: int, n: int, target: Target):
    def scaled(x: Value, scale: Value, w: Value) -> list[Value]:
        return [matmul(x * scale, w)]

    operands = [numbers(m, k), np.float32(1.5) * np.ones((), "float32"), numbers(k, n)]
    check(scaled, operands, target, NEAR)
