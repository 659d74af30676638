"""Codes of eight bits and their products: both engines have the integers of NumPy, on every instruction set."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from native.building import HERE, every_target
from native.made import Made
from oracles import integers

from registry import OPS, Value
from runtime.codegen.machine import Target, target

PRODUCTS = [
    ((32, 64), (64, 32)),
    ((1, 300), (300, 100)),
    ((7, 33), (33, 5)),
    ((130, 65), (65, 70)),
    ((2, 3, 9, 17), (17, 20)),
    ((2, 3, 9, 17), (2, 3, 17, 20)),
    ((3, 31, 8), (3, 8, 1)),
    ((4, 1), (1, 3)),
]

CONVOLUTIONS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 9, 8, 16), (3, 3, 16, 24), {"padding": (1, 1, 1, 1)}),
    ((1, 7, 11, 3), (3, 3, 3, 8), {"stride": (2, 2), "padding": (0, 0, 1, 1)}),
    ((1, 8, 8, 5), (1, 1, 5, 33), {}),
    ((2, 8, 8, 6), (1, 1, 6, 4), {"stride": (2, 2)}),
    ((1, 9, 9, 12), (3, 3, 4, 9), {"groups": 3, "padding": (1, 1, 1, 1)}),
    ((1, 10, 9, 7), (3, 2, 7, 5), {"dilation": (2, 3)}),
    ((2, 9, 10, 20), (3, 3, 1, 20), {"groups": 20, "padding": (1, 1, 1, 1)}),
    ((1, 12, 9, 9), (5, 5, 1, 9), {"groups": 9, "stride": (2, 2), "padding": (2, 2, 2, 2)}),
    ((1, 8, 3, 4), (3, 3, 1, 8), {"groups": 4, "dilation": (2, 1), "padding": (2, 1, 2, 1)}),
    ((1, 1, 40, 10), (1, 5, 10, 6), {"padding": (0, 2, 0, 2)}),
    ((3, 4, 4, 6), (1, 1, 1, 6), {"groups": 6}),
    ((1, 6, 2, 4), (3, 2, 4, 40), {}),
]


def drawn(seed: object, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(abs(hash(str(seed))) % 2**32)
    return [rng.integers(0, 256, shape, dtype="u1") for shape in shapes]


def scales(count: int) -> np.ndarray:
    return np.random.default_rng(count).uniform(1e-3, 2e-3, count).astype("f4")


@every_target
@pytest.mark.parametrize("has_many_zeros", [False, True])
@pytest.mark.parametrize(("left", "right"), PRODUCTS, ids=str)
def test_a_product_is_exact(left: tuple[int, ...], right: tuple[int, ...], has_many_zeros: bool, target: Target):
    x, w, x_zero, w_zero = drawn((left, right), left, right, (), right[-1:] if has_many_zeros else ())
    made = Made(OPS["integer_matmul"], [x, w, x_zero, w_zero])
    wanted = integers.product(x, w, int(x_zero), w_zero)
    np.testing.assert_array_equal(made.wanted[0], wanted)
    for threads in (1, 2):
        np.testing.assert_array_equal(made.native(target, threads)[0], wanted)


@pytest.mark.sampled(3)
@every_target
@pytest.mark.parametrize("has_many_zeros", [False, True])
@pytest.mark.parametrize(("image", "filters", "attributes"), CONVOLUTIONS, ids=str)
def test_a_convolution_is_exact(
    image: tuple[int, ...], filters: tuple[int, ...], attributes: dict[str, Any], has_many_zeros: bool, target: Target
):
    x, w, x_zero, w_zero = drawn((image, filters), image, filters, (), filters[-1:] if has_many_zeros else ())
    made = Made(lambda *v: OPS["integer_conv2d"](*v, **attributes), [x, w, x_zero, w_zero])
    wanted = integers.convolution(x, w, int(x_zero), w_zero, **attributes)
    np.testing.assert_array_equal(made.wanted[0], wanted)
    for threads in (1, 2):
        np.testing.assert_array_equal(made.native(target, threads)[0], wanted)


@every_target
@pytest.mark.parametrize("zero", [0, 127, 128, 255])
@pytest.mark.parametrize(("left", "right"), [((9, 64), (64, 80)), ((9, 31), (31, 7))], ids=str)
def test_a_product_is_exact_for_the_zero_points_at_the_ends_and_in_the_middle(
    left: tuple[int, ...], right: tuple[int, ...], zero: int, target: Target
):
    x, w, x_zero = drawn(zero, left, right, ())
    for w_zero in (np.array(zero, "u1"), np.full(right[-1], zero, "u1")):
        made = Made(OPS["integer_matmul"], [x, w, x_zero, w_zero])
        np.testing.assert_array_equal(made.native(target)[0], integers.product(x, w, int(x_zero), w_zero))


@pytest.mark.skipif("avx512_vnni" not in HERE, reason="this machine has no instruction for bytes")
@pytest.mark.sampled(2)
@pytest.mark.parametrize("has_many_zeros", [False, True])
@pytest.mark.parametrize("case", range(len(PRODUCTS + CONVOLUTIONS)))
def test_vectors_of_32_bytes_multiply_bytes_as_those_of_avx_vnni_do(case: int, has_many_zeros: bool):
    """AVX-512 has the instruction of AVX-VNNI under another encoding; registers and tiles are those of AVX-VNNI."""
    of = replace(target("avx512_vnni"), vector_bytes=32, registers=16)
    left, right, *attributes = (PRODUCTS + CONVOLUTIONS)[case]
    operands = drawn((left, right), left, right, (), right[-1:] if has_many_zeros else ())
    name = "integer_conv2d" if attributes else "integer_matmul"
    made = Made(lambda *v: OPS[name](*v, **(attributes or [{}])[0]), operands)
    np.testing.assert_array_equal(made.native(of)[0], made.wanted[0])


@every_target
@pytest.mark.parametrize("code", [0, 255])
def test_the_largest_sums_do_not_overflow(code: int, target: Target):
    x, w = np.full((2, 33025), code, "u1"), np.full((33025, 9), code, "u1")
    zero = np.array(255 - code, "u1")
    made = Made(OPS["integer_matmul"], [x, w, zero, zero])
    assert made.wanted[0].tolist() == made.native(target)[0].tolist() == [[255 * 255 * 33025] * 9] * 2


@every_target
@pytest.mark.parametrize("groups", [1, 24])
def test_a_convolution_adds_a_bias_and_requantises_in_registers(groups: int, target: Target):
    x, w, x_zero, zero = drawn(groups, (2, 9, 9, 24), (3, 3, 24 // groups, 24), (), ())
    w_zero, bias = np.array(128, "u1"), np.arange(-12, 12, dtype="i4") * 1000
    of_x, of_y = np.array(0.02 * groups**0.5, "f4"), np.array(0.2, "f4")

    def write(x: Value, w: Value, x_zero: Value, w_zero: Value, bias: Value, *scales: Value) -> Value:
        sums = OPS["integer_conv2d"](x, w, x_zero, w_zero, padding=(1, 1), groups=groups)
        return OPS["requantize"](sums + bias, *scales)

    made = Made(write, [x, w, x_zero, w_zero, bias, of_x, scales(24), of_y, zero])
    sums = integers.convolution(x, w, int(x_zero), w_zero, padding=(1, 1, 1, 1), groups=groups) + bias
    wanted = integers.requantized(sums, of_x, scales(24), of_y, zero)
    assert len(np.unique(wanted)) > 10
    np.testing.assert_array_equal(made.wanted[0], wanted)
    np.testing.assert_array_equal(made.native(target)[0], wanted)
    assert made.groups(target)[-1].startswith("integer_conv2d+add+")


ODD = [0.0, -0.0, 0.5, 1.5, 2.5, -0.5, 1e30, -1e30, np.inf, -np.inf, np.nan, 1e-40, 254.5, 255.5, 127.49999]


@every_target
@pytest.mark.parametrize("zero", [0, 1, 128, 255])
@pytest.mark.parametrize("scale", [1.0, 0.1, 0.0, 1e30, float("nan")])
def test_numbers_become_codes_and_numbers_again(zero: int, scale: float, target: Target):
    x = np.array([*ODD, *np.random.default_rng(0).normal(0, 50, 1000)], "f4")
    of, at = np.array(scale, "f4"), np.array(zero, "u1")
    with np.errstate(all="ignore"):
        wanted = integers.codes(x / of, at)
        again = (wanted.astype("i4") - zero).astype("f4") * of
    made = Made(lambda x, s, z: [c := OPS["quantize_linear"](x, s, z), OPS["dequantize_linear"](c, s, z)], [x, of, at])
    for found in (made.wanted, made.native(target)):
        np.testing.assert_array_equal(found[0], wanted)
        np.testing.assert_array_equal(found[1], again)


@every_target
def test_sums_beyond_the_digits_of_float32_are_rounded_once(target: Target):
    x = np.array([2**24 + 1, 2**24 + 3, -(2**31), 2**31 - 1, 0, 5, -5, 7], "i4").reshape(2, 4)
    more = [
        np.array(2**-20, "f4"),
        np.array([1, 2, 0.25, 3], "f4"),
        np.array(0.7, "f4"),
        np.array([0, 9, 128, 255], "u1"),
    ]
    made = Made(OPS["requantize"], [x, *more])
    wanted = integers.requantized(x, *more)
    np.testing.assert_array_equal(made.wanted[0], wanted)
    np.testing.assert_array_equal(made.native(target)[0], wanted)
