"""Ops that only move elements, of every dtype and of odd shapes, against their kernels."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from native.building import every_target
from native.staged import check, expected, op_of

from prograd_proto.dtypes import ITEM_BYTES
from runtime.dtypes import numpy_dtype


def bits(shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray:
    """Random bits, NaN of all kinds among them."""
    kind = numpy_dtype(dtype)
    below = 2 if dtype == "bool" else 256
    count = int(np.prod(shape)) * kind.itemsize
    return np.random.default_rng(0).integers(0, below, count).astype(np.uint8).view(kind).reshape(shape)


@every_target
@pytest.mark.parametrize("dtype", sorted(ITEM_BYTES))
def test_a_matrix_of_any_dtype_is_transposed(dtype: str, target):
    for shape in ((1, 7), (2, 2), (3, 130), (67, 35)):
        check("transpose", bits(shape, dtype), target=target, axes=(1, 0))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", sorted(ITEM_BYTES))
def test_elements_of_any_dtype_are_moved(dtype: str):
    x, y = bits((3, 70), dtype), bits((3, 11), dtype)
    check("slice", x, axes=(1,), starts=(3,), stops=(60,), strides=(1,))
    check("slice", x, axes=(0, 1), starts=(2, 69), stops=(-1, 0), strides=(-1, -3))
    check("unslice", y, shape=(5, 23), axes=(1, 0), starts=(2, 1), stops=(13, 4), strides=(1, 1))
    check("unslice", y, shape=(5, 33), axes=(1, 0), starts=(32, 0), stops=(-1, 5), strides=(-3, 2))
    check("pad", x, before=(1, 0), after=(0, 3), value=1.0)
    check("split", x, sizes=(1, 64, 5), axis=-1)
    check("concat", x, y, x, axis=1)
    check("broadcast_to", x.reshape(3, 1, 70), shape=(2, 3, 4, 70))
    check("broadcast_to", y[:, :1].copy(), shape=(3, 131))


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_axes_in_any_order(data):
    shape = data.draw(st.lists(st.sampled_from([1, 2, 3, 5, 16, 17, 33]), min_size=1, max_size=4))
    axes = data.draw(st.permutations(range(len(shape))))
    dtype = data.draw(st.sampled_from(sorted(ITEM_BYTES)))
    check("transpose", bits(tuple(shape), dtype), axes=tuple(axes), end=data.draw(st.booleans()))


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_slices_and_what_they_were_taken_from(data):
    shape = tuple(data.draw(st.lists(st.integers(1, 20), min_size=1, max_size=3)))
    axes = data.draw(st.lists(st.sampled_from(range(len(shape))), unique=True))
    starts, stops, strides, taken = [], [], [], list(shape)
    for axis in axes:
        stride = data.draw(st.sampled_from([1, 1, 2, 3, -1, -2]))
        start = data.draw(st.integers(0, shape[axis] - 1))
        most = len(range(start, shape[axis] if stride > 0 else -1, stride))
        count = data.draw(st.integers(1, most))
        starts.append(start), strides.append(stride), stops.append(start + stride * count)
        taken[axis] = count
    window = dict(axes=tuple(axes), starts=tuple(starts), stops=tuple(stops), strides=tuple(strides))
    check("slice", bits(shape), end=data.draw(st.booleans()), **window)
    check("unslice", bits(tuple(taken)), end=data.draw(st.booleans()), shape=shape, **window)


@settings(max_examples=15, deadline=None)
@given(shapes=st.lists(st.integers(1, 90), min_size=1, max_size=5), axis=st.integers(0, 2))
def test_parts_are_joined_and_split(shapes: list[int], axis: int):
    parts = [bits(tuple(size if i == axis else 3 for i in range(3))) for size in shapes]
    check("concat", *parts, axis=axis)
    check("split", np.concatenate(parts, axis), sizes=tuple(shapes), axis=axis)


def test_large_ones_are_cut_into_units():
    check("transpose", bits((130, 517)), axes=(1, 0))
    check("concat", bits((9000,)), bits((5001,)), axis=0)
    check("pad", bits((40, 90, 3)), before=(1, 2, 0), after=(0, 1, 0), value=-1.5)


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_windows_side_by_side_and_back(data):
    pair = st.tuples(st.integers(1, 3), st.integers(1, 3))
    window, stride, dilation = data.draw(pair), data.draw(pair), data.draw(pair)
    padding = data.draw(st.tuples(*[st.integers(0, 2)] * 4))
    n, c = data.draw(st.integers(1, 3)), data.draw(st.sampled_from([1, 3, 17]))
    height, width = (dilation[k] * (window[k] - 1) + data.draw(st.integers(1, 7)) for k in range(2))
    where = dict(window=window, stride=stride, padding=padding, dilation=dilation)
    x = np.random.default_rng(0).normal(0, 9, (n, height, width, c)).astype(data.draw(st.sampled_from(["f4", "i4"])))
    check("unfold", x, **where)
    [windows] = expected(op_of("unfold", [x], where).ops[0], [x])
    check("fold", windows, shape=x.shape, **where)
