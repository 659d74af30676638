"""Products that threads share, in parts along rows, columns or depth, with what is fused behind them."""

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="the native engine is an extra")

from native.made import check

from registry import Value
from registry.ops import matmul, outer_sum, relu
from runtime.engines.native.emission.cutting import Shape, divided
from runtime.engines.native.emission.nest import Nest
from runtime.engines.native.target import this_machine

NEAR = {"float32": 1e-5, "float64": 2e-14}
"""Relative to the largest element: long sums of numbers of both signs are smaller than what is added."""

SIZES = [(32, 784, 256), (1, 256, 64), (7, 512, 33), (64, 256, 130), (3, 130, 700), (128, 128, 128), (1, 4096, 2)]
"""Rows, depth and columns, of which some are cut along the depth: into 4 parts or 2, and parts into blocks."""


def of(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(shape).standard_normal(shape).astype(dtype)


def layer(x: Value, w: Value, b: Value, beside: Value) -> list[Value]:
    """A product whose sums are fused with what follows, and another one whose sums are kept."""
    h = matmul(x, w) + b
    return [relu(h), h, matmul(beside, w)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("m", "k", "n"), SIZES)
def test_any_number_of_threads_makes_the_same_bits_of_a_product(m: int, k: int, n: int, dtype: str):
    operands = [of(m, k, dtype=dtype), of(k, n, dtype=dtype), of(n, dtype=dtype), of(2, k, dtype=dtype)]
    first, *others = [check(layer, operands, this_machine(), NEAR[dtype], threads) for threads in (1, 2, 3)]
    for found in others:
        for a, b in zip(first, found, strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_product_of_a_matrix_with_itself_is_cut_too():
    x = of(256, 256)
    first, second = (
        check(lambda x: [matmul(x, x), outer_sum(x, x)], [x], this_machine(), NEAR["float32"], n) for n in (1, 2)
    )
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)


def test_parts_are_rows_of_the_weights():
    """Forwards, and in the gradients of the weights and of the input."""
    target, nest = this_machine(), Nest((), {})
    forwards = divided(target, 32, Shape(nest, 32, 256, 784, (784, 1), (256, 1)), 1)
    of_weights = divided(target, 32, Shape(nest, 784, 256, 32, (1, 784), (256, 1)), 1)
    of_input = divided(target, 32, Shape(nest, 32, 784, 256, (256, 1), (1, 256)), 1)
    assert (forwards.depth.pieces, forwards.rows.pieces) == (2, 1)
    assert (of_weights.rows.pieces > 1, of_weights.columns.pieces) == (True, 1)
    assert (of_input.rows.pieces, of_input.columns.pieces > 1) == (1, True)
