"""Weights of few bits: products widen them where they pack them, with the bits of weights in memory."""

from collections.abc import Callable

import numpy as np
import pytest
from native.building import every_target
from native.made import Made

from registry import OPS, Value
from registry.ops import matmul
from runtime.codegen.machine import Target

NEAR = 2e-5
SIZES = [(32, 128, 64), (1, 576, 192), (40, 96, 101), (5, 2048, 512), (256, 512, 512)]
"""Rows of activations, inputs and outputs."""


def quantized(rows: int, columns: int, bits: int) -> list[np.ndarray]:
    rng = np.random.default_rng((rows, columns, bits))
    codes = rng.integers(0, 256, (rows, columns * bits // 8), dtype=np.uint8)
    return [codes, rng.normal(0, 0.01, (rows, columns // 32)).astype("f2")]


def with_outputs_first(x: Value, w: Value) -> Value:
    return matmul(x, w, transpose_b=True)


def of_a_column(x: Value, w: Value) -> Value:
    return matmul(w, x)


def compare(product: Callable[[Value, Value], Value], operands: list[np.ndarray], target: Target) -> list[str]:
    """Compare a product with that of the widened weight in memory, and return its groups."""
    bits = operands[0].shape[-1] * 8 // operands[1].shape[-1] // 32

    def fused(codes: Value, scales: Value, x: Value) -> list[Value]:
        return [product(x, OPS["dequantize"](codes, scales, bits=bits))]

    def kept(codes: Value, scales: Value, x: Value) -> list[Value]:
        weight = OPS["dequantize"](codes, scales, bits=bits)
        return [product(x, weight), weight]

    made = Made(fused, operands)
    [found] = made.native(target)
    [wanted, weight] = Made(kept, operands).native(target)
    np.testing.assert_array_equal(found.view("u4"), wanted.view("u4"))
    np.testing.assert_array_equal(weight.view("u4"), Made(kept, operands).wanted[1].view("u4"))
    [near] = made.wanted
    assert np.abs(found - near).max() <= NEAR * np.abs(near).max()
    [again] = made.native(target, 2)
    np.testing.assert_array_equal(found.view("u4"), again.view("u4"))
    return made.groups(target)


@pytest.mark.sampled(3)
@every_target
@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_a_product_widens_weights_with_outputs_first(size: tuple[int, int, int], bits: int, target: Target):
    rows, inputs, outputs = size
    x = np.random.default_rng(size).normal(size=(rows, inputs)).astype("f4")
    assert compare(with_outputs_first, [*quantized(outputs, inputs, bits), x], target)[-1] == "dequantize+matmul"


@pytest.mark.sampled(3)
@every_target
@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("size", SIZES[::2], ids=str)
def test_a_product_widens_weights_with_inputs_first(size: tuple[int, int, int], bits: int, target: Target):
    rows, outputs, inputs = size
    x = np.random.default_rng(size).normal(size=(rows, inputs)).astype("f4")
    assert compare(matmul, [*quantized(inputs, outputs, bits), x], target)[-1] == "dequantize+matmul"


@pytest.mark.sampled(3)
@every_target
@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("rows", [64, 77])
def test_a_product_of_one_column_widens_the_weight_in_registers(rows: int, bits: int, target: Target):
    x = np.random.default_rng(rows).normal(size=(576, 1)).astype("f4")
    assert compare(of_a_column, [*quantized(rows, 576, bits), x], target) == ["dequantize+matmul"]
