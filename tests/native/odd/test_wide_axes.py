"""Axes whose indices int32 does not hold, with the limit at 8 elements; tests/large_axes.py takes 2 GiB."""

import numpy as np
import pytest
from native.building import every_target
from native.made import Made, check
from native.staged import expected, op_of, staged

from registry import OPS
from runtime.codegen.kernels import indices
from runtime.engines.native.cpu import this_machine


@pytest.fixture
def wide(monkeypatch: pytest.MonkeyPatch):
    """Let every axis of 8 elements or more have int64 indices."""
    monkeypatch.setattr(indices, "INT32_EXTENT", 8)


def numbers(shape, dtype="float32"):
    return np.random.default_rng(0).integers(0, 50, shape).astype(dtype)


def test_indices_are_int64_from_the_extent_on_that_int32_does_not_count():
    assert [indices.index_dtype(2**31 + i) for i in (-1, 0, 77)] == ["int32", "int64", "int64"]


@every_target
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8"])
def test_wide_indices_of_extremes(wide, target, dtype):
    x = numbers((32, 65), dtype)

    def write(x):
        for name in ("argmax", "argmin"):
            yield from (OPS[name](x, axis=0), OPS[name](x, axis=1))

    check(write, [x], target)


def test_wide_indices_of_orders(wide):
    x = numbers((3, 200), "int64")
    for name, attributes in (
        ("argsort", {"axis": 1, "descending": True}),
        ("topk", {"axis": 1, "k": 40, "largest": True}),
        ("topk", {"axis": 1, "k": 3, "largest": False}),
    ):
        block = op_of(name, [x], attributes)
        for got, wanted in zip(staged(this_machine(), block, [x]), expected(block.ops[0], [x]), strict=True):
            np.testing.assert_array_equal(got, wanted, err_msg=f"{name} {attributes}")


def test_wide_labels_and_one_hot(wide):
    labels = np.arange(32) % 64

    def write(x, labels):
        yield OPS["one_hot"](labels, depth=64)
        yield OPS["softmax_cross_entropy"](x, labels)
        yield OPS["accuracy"](x, labels)

    check(write, [numbers((32, 64)), labels], this_machine())
    assert len(Made(write, [numbers((32, 64)), labels.astype("int32")]).native(this_machine())) == 3


def test_wide_distances_under_a_causal_mask(wide):
    def write(q, k, v):
        return OPS["scaled_dot_product_attention"](q, k, v, causal=True)

    check(write, [numbers((2, 33, 2, 16)) / 50 for _ in range(3)], this_machine())
