"""Elements by number, ranges and windows, against NumPy's own functions and loops over elements."""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from subjects.commands import told
from subjects.evaluate import block_of, evaluate, gradient, ops_of
from subjects.values import check_orders, define

from prograd import Program, Run, gradients
from prograd_proto import ProgramError, TensorType
from registry import Block, OpError, Value, ops
from runtime.errors import ExecutionError
from runtime.operators import CONTRACTS

COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "set": lambda old, new: new,
    "add": lambda old, new: old + new,
    "max": max,
    "min": min,
    "mul": lambda old, new: old * new,
}

cases = st.tuples(
    st.integers(0, 2**32 - 1),
    st.lists(st.integers(1, 4), min_size=1, max_size=4),  # the extents of x
    st.integers(0, 3),  # batch_axes
    st.integers(1, 4),  # indices in a row
    st.lists(st.integers(0, 4), max_size=2),  # other extents of indices
    st.sampled_from(["int32", "int64"]),
)


def rows_of(case: Any) -> tuple[np.ndarray, np.ndarray, int]:
    """A tensor, indices that fit it, and how many axes they share."""
    seed, shape, batch, depth, more, dtype = case
    batch = min(batch, len(shape) - 1)
    depth = min(depth, len(shape) - batch)
    rng = np.random.default_rng(seed)
    lead = (*shape[:batch], *more)
    columns = [rng.integers(0, extent, lead) for extent in shape[batch : batch + depth]]
    return rng.normal(size=shape), np.stack(columns, -1).astype(dtype), batch


def named(indices: np.ndarray, batch: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Each place of a row with the place of the part of x that it names, in row-major order."""
    places = product(*(range(extent) for extent in indices.shape[:-1]))
    return [(place, (*place[:batch], *(int(i) for i in indices[place]))) for place in places]


@given(cases)
def test_gather_nd_takes_the_parts_that_rows_name(case: Any):
    x, indices, batch = rows_of(case)
    y = evaluate(lambda x, i: ops.gather_nd(x, i, batch_axes=batch), x, indices)
    depth = indices.shape[-1]
    assert y.shape == (*indices.shape[:-1], *x.shape[batch + depth :])
    for place, part in named(indices, batch):
        np.testing.assert_array_equal(y[place], x[part])


@given(cases, st.sampled_from(list(COMBINE)))
def test_scatter_nd_combines_one_row_after_the_other(case: Any, reduction: str):
    x, indices, batch = rows_of(case)
    shape = (*indices.shape[:-1], *x.shape[batch + indices.shape[-1] :])
    updates = np.random.default_rng(1).normal(size=shape)
    y = evaluate(lambda x, i, u: ops.scatter_nd(x, i, u, batch_axes=batch, reduction=reduction), x, indices, updates)
    expected = x.copy()
    for place, part in named(indices, batch):
        old, new = np.array(expected[part]).reshape(-1), np.array(updates[place]).reshape(-1)
        combined = [COMBINE[reduction](a, b) for a, b in zip(old, new, strict=True)]
        expected[part] = np.reshape(combined, np.shape(expected[part]))
    np.testing.assert_array_equal(y, expected, strict=True)


@given(cases)
def test_is_last_index_marks_the_rows_that_win(case: Any):
    x, indices, batch = rows_of(case)
    y = evaluate(lambda i: ops.is_last_index(i, shape=x.shape, batch_axes=batch), indices)
    last = {part: place for place, part in named(indices, batch)}
    expected = np.zeros(indices.shape[:-1], bool)
    for place in last.values():
        expected[place] = True
    np.testing.assert_array_equal(y, expected, strict=True)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_elements_along_an_axis_are_numpys(axis: int):
    rng = np.random.default_rng(2)
    x = rng.normal(size=(3, 4, 5))
    shape = [2 if n == axis % 3 else extent for n, extent in enumerate(x.shape)]
    i, updates = rng.integers(0, 3, shape), rng.normal(size=shape)
    taken = evaluate(lambda x, i: ops.take_along_axis(x, i, axis=axis), x, i)
    np.testing.assert_array_equal(taken, np.take_along_axis(x, i, axis), strict=True)
    expected = x.copy()
    np.put_along_axis(expected, i, updates, axis)
    put = evaluate(lambda x, i, u: ops.put_along_axis(x, i, u, axis=axis), x, i, updates)
    np.testing.assert_array_equal(put, expected, strict=True)


def test_numbers_along_an_axis_broadcast_beside_it_and_updates_to_them():
    x, i = np.arange(12.0).reshape(3, 4), np.array([[2, 0]])
    taken = evaluate(lambda x, i: ops.take_along_axis(x, i, axis=1), x, i)
    assert taken.tolist() == x[:, [2, 0]].tolist()
    put = evaluate(lambda x, i, u: ops.put_along_axis(x, i, u, axis=1, reduction="add"), x, i, np.array([1.0, 2.0]))
    assert (put - x).tolist() == [[2, 0, 1, 0]] * 3


@pytest.mark.parametrize("reduction", list(COMBINE))
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_scatter_combines_slices(axis: int, reduction: Any):
    rng = np.random.default_rng(3)
    x, i = rng.normal(size=(3, 4, 5)), np.array([[2, 0], [2, 1]])
    updates = rng.normal(size=np.take(x, i, axis).shape)
    y = evaluate(lambda x, i, u: ops.scatter(x, i, u, axis=axis, reduction=reduction), x, i, updates)
    expected = np.moveaxis(x.copy(), axis, 0)
    parts = np.moveaxis(updates, (axis % 3, axis % 3 + 1), (0, 1))
    for place in np.ndindex(2, 2):
        for inner in np.ndindex(expected.shape[1:]):
            at = i[place], *inner
            expected[at] = COMBINE[reduction](expected[at], parts[place][inner])
    np.testing.assert_array_equal(y, np.moveaxis(expected, 0, axis), strict=True)


def test_only_the_last_of_several_updates_gets_a_gradient():
    x, i, u = np.zeros(3), np.array([[1], [1], [0]]), np.array([5.0, 6.0, 7.0])
    dx, _, du = gradient(ops.scatter_nd, x, i, u)
    assert dx.tolist() == [0, 0, 1]
    assert du.tolist() == [0, 1, 1]


def test_equal_maxima_share_the_gradient_and_nan_wins():
    x, i, u = np.array([5.0, 1.0, 2.0]), np.array([[0], [0], [1]]), np.array([5.0, 4.0, 3.0])
    dx, _, du = gradient(lambda x, i, u: ops.scatter_nd(x, i, u, reduction="max"), x, i, u)
    assert dx.tolist() == [0.5, 0, 1]
    assert du.tolist() == [0.5, 0, 1]
    y = evaluate(lambda x, i, u: ops.scatter_nd(x, i, u, reduction="min"), x, i, np.array([np.nan, 0, 0]))
    assert np.isnan(y).tolist() == [True, False, False]


def test_elements_by_number_have_second_gradients():
    block = Block()
    x, u = define(block, "x", (3, 4)), define(block, "u", (3, 2))
    i = define(block, "i", (3, 2), "int64")
    y = ops.put_along_axis(ops.square(x), i, ops.exp(u), axis=1, reduction="max")
    y = y * ops.put_along_axis(x, i, ops.square(u), axis=1) * ops.flip(x)
    rng = np.random.default_rng(4)
    feeds = {"x": rng.normal(size=(3, 4)), "u": rng.normal(size=(3, 2)), "i": np.array([[0, 0], [1, 3], [2, 1]])}
    check_orders(ops.take_along_axis(y, i, axis=1), [x, u], feeds, 2)


def test_elements_along_an_axis_leave_a_batch_without_size_alone():
    block = Block()
    x = block.define("x", TensorType("float64", ("n", 4, 6)))
    i = block.define("i", TensorType("int64", ("n", 4, 2)))
    assert ops.take_along_axis(x, i).shape == ("n", 4, 2)
    assert ops.take_along_axis(x, i[:, :2, :1], axis=1).shape == ("n", 2, 6)
    assert ops.put_along_axis(x, i, ops.cast(i, dtype="float64"), reduction="add").shape == x.shape
    j = block.define("j", TensorType("int32", (3,)))
    assert ops.scatter(x, j, ops.gather(x, j, axis=1), axis=1).shape == x.shape


def test_scatter_that_adds_is_scatter_add():
    x, i, u = np.zeros((3, 2)), np.array([1]), np.ones((1, 2))
    assert ops_of(lambda x, i, u: ops.scatter(x, i, u, reduction="add"), x, i, u) == ["scatter_add"]


@pytest.mark.parametrize(
    ("row", "shown"), [((0, -1), "-1 is out of range: there are 3"), ((4, 0), "4 is out of range: there are 4")]
)
def test_a_number_out_of_range_stops_the_run(row: tuple[int, int], shown: str):
    x, i = np.zeros((4, 3)), np.array([[0, 1], row, [3, 2]])
    for function in (
        ops.gather_nd,
        lambda x, i: ops.scatter_nd(x, i, ops.gather_nd(x, ops.cast(ops.cast(i, dtype="bool"), dtype="int64"))),
        lambda x, i: ops.is_last_index(i, shape=(4, 3)),
    ):
        with pytest.raises(ExecutionError) as caught:
            evaluate(function, x, i)
        assert str(caught.value) == f"index {shown} places, from 0"


@pytest.mark.parametrize("offset", [-5, -2, -1, 0, 1, 3, 6])
def test_triangles_and_diagonals_are_numpys(offset: int):
    x = np.arange(1.0, 25.0).reshape(2, 3, 4)
    for name in ("tril", "triu"):
        y = evaluate(lambda x, name=name: getattr(ops, name)(x, offset=offset), x)
        np.testing.assert_array_equal(y, getattr(np, name)(x, offset), strict=True)
    for shape in ((3, 4), (4, 3), (2, 2), (5, 1)):
        y = made(lambda block, shape=shape: ops.eye.on(block)(shape=shape, offset=offset))
        np.testing.assert_array_equal(y, np.eye(*shape, offset, dtype="float32"), strict=True)
    for axes in ((-2, -1), (0, 1), (2, 0)):
        y = evaluate(lambda x, axes=axes: ops.diagonal(x, offset=offset, axis=axes), x)
        np.testing.assert_array_equal(y, np.diagonal(x, offset, *axes), strict=True)
        expected = np.zeros_like(x)
        places = np.diagonal(np.arange(24).reshape(x.shape), offset, *axes)
        expected.reshape(-1)[places] = 1
        [dx] = gradient(lambda x, axes=axes: ops.diagonal(x, offset=offset, axis=axes), x)
        np.testing.assert_array_equal(dx, expected, strict=True)


def test_offsets_beyond_every_diagonal_are_like_those_just_outside():
    x = np.ones((2, 3))
    for offset in (2**62, -(2**62)):
        assert evaluate(lambda x, offset=offset: ops.tril(x, offset=offset), x).all() == (offset > 0)
        assert evaluate(lambda x, offset=offset: ops.triu(x, offset=offset), x).all() == (offset < 0)
        assert not made(lambda block, offset=offset: ops.eye.on(block)(shape=(2, 3), offset=offset)).any()
        assert evaluate(lambda x, offset=offset: ops.diagonal(x, offset=offset), x).size == 0


RULES: list[tuple[str, tuple[TensorType, ...], dict[str, Any], str]] = [
    ("range", (), dict(start=0.0, stop=3.0, step=0.0, dtype="int32"), "the step is 0"),
    (
        "range",
        (),
        dict(start=0.0, stop=1e308, step=1e-308, dtype="float32"),
        "there are more numbers than a tensor has elements",
    ),
    (
        "range",
        (),
        dict(start=0.0, stop=256.0, step=5.5, dtype="uint8"),
        "the step 5.5 is not a whole number, as uint8 needs",
    ),
    ("range", (), dict(start=0.0, stop=257.0, step=1.0, dtype="uint8"), "256.0 does not fit uint8"),
    ("pad", (TensorType("uint8", (4,)),), dict(before=(1,), after=(1,), value=3e9), "the value 3e+09 is no uint8"),
    ("pad", (TensorType("uint8", (4,)),), dict(before=(1,), after=(1,), value=-1.0), "the value -1 is no uint8"),
    (
        "scatter_nd",
        (TensorType("float32", (4,)), TensorType("int64", (2, 1)), TensorType("float32", (3,))),
        dict(batch_axes=0, reduction="set"),
        "updates has the shape [3], not [2]",
    ),
    (
        "gather_nd",
        (TensorType("float32", (4,)), TensorType("int64", (2, 2))),
        dict(batch_axes=0),
        "rows of 2 indices after 0 axes do not fit [4]",
    ),
]


@pytest.mark.parametrize(("name", "inputs", "attributes", "sentence"), RULES, ids=[rule[3] for rule in RULES])
def test_a_kernel_refuses_what_a_file_may_not_ask_of_it(
    name: str, inputs: tuple[TensorType, ...], attributes: dict[str, Any], sentence: str
):
    assert told(ProgramError, lambda: CONTRACTS[name].rule.results(*inputs, **attributes)) == sentence


def test_zeros_beside_a_triangle_hide_what_is_not_finite():
    x = np.array([[1.0, np.nan], [2.0, np.inf]])
    assert evaluate(lambda x: ops.tril(x, offset=-1), x).tolist() == [[0, 0], [2, 0]]


@given(
    st.tuples(st.floats(-50, 50), st.floats(-50, 50), st.floats(0.1, 9) | st.floats(-9, -0.1)),
    st.sampled_from(["float64", "float32"]),
)
def test_a_range_is_its_numbers_one_by_one(numbers: tuple[float, float, float], dtype: Any):
    start, stop, step = numbers
    y = made(lambda block: ops.range.on(block)(start=start, stop=stop, step=step, dtype=dtype))
    expected: list[float] = []
    while len(expected) < len(y) + 1:
        expected.append(start + len(expected) * step)
    inside = [x < stop if step > 0 else x > stop for x in expected]
    assert len(y) == 0 or inside[0]
    assert abs((stop - start) / step - len(y)) <= 1 or not len(y)
    np.testing.assert_array_equal(y, np.array(expected[:-1], dtype), strict=True)


def test_ranges_of_whole_numbers_are_pythons():
    for arguments in ((5,), (2, 9), (9, 2, -3), (3, 3), (0, 255, 17)):
        numbers = range(*arguments)
        for dtype in ("int64", "int32", "uint8", "float32"):
            y = made(
                lambda block, r=numbers, dtype=dtype: ops.range.on(block)(
                    start=r.start, stop=r.stop, step=r.step, dtype=dtype
                )
            )
            assert (y.dtype.name, y.tolist()) == (dtype, list(numbers))


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.integers(0, 40))
def test_linspace_is_numpys(start: float, stop: float, count: int):
    y = made(lambda block: ops.linspace.on(block)(start=start, stop=stop, count=count, dtype="float64"))
    np.testing.assert_allclose(y, np.linspace(start, stop, count), rtol=1e-13, atol=1e-9, strict=True)
    assert count < 1 or y[0] == start
    assert count < 2 or y[-1] == stop


def test_unfold_lays_windows_side_by_side():
    x = np.random.default_rng(5).normal(size=(2, 5, 6, 3))
    y = evaluate(lambda x: ops.unfold(x, window=(2, 3), stride=(2, 1), padding=(1, 0, 0, 1), dilation=(2, 1)), x)
    padded = np.pad(x, [(0, 0), (1, 0), (0, 1), (0, 0)])
    rows, columns = range(0, 6 - 2, 2), range(7 - 2)
    assert y.shape == (2, len(rows), len(columns), 18)
    for n, (r, row), (c, column) in product(range(2), enumerate(rows), enumerate(columns)):
        window = padded[n, row : row + 3 : 2, column : column + 3]
        np.testing.assert_array_equal(y[n, r, c], window.reshape(-1))


def test_fold_counts_an_element_once_for_each_window_over_it():
    x = np.ones((1, 4, 4, 1))
    y = evaluate(lambda x: ops.fold(ops.unfold(x, window=(3, 2)), shape=x.shape, window=(3, 2)), x)
    assert y[0, :, :, 0].tolist() == [[1, 2, 2, 1], [2, 4, 4, 2], [2, 4, 4, 2], [1, 2, 2, 1]]


def test_convolution_is_a_product_with_windows_side_by_side():
    rng = np.random.default_rng(6)
    x, w = rng.normal(size=(2, 5, 6, 3)), rng.normal(size=(2, 3, 3, 4))
    y = evaluate(lambda x, w: ops.unfold(x, window=(2, 3), padding=(1, 1)) @ ops.reshape(w, shape=(18, 4)), x, w)
    np.testing.assert_allclose(y, evaluate(lambda x, w: ops.conv2d(x, w, padding=(1, 1)), x, w), rtol=1e-12)


def made(function: Callable[[Block], Value]) -> np.ndarray:
    """Return the result of an operator without operands."""
    return evaluate(lambda x: function(x.block), np.zeros(()))


CALLS: list[tuple[Callable[[Value, Value], object], str]] = [
    (
        lambda x, i: ops.gather_nd(x, x),
        "gather_nd(x: float64[2, 3], indices: float64[2, 3]): indices are int32 or int64, not float64",
    ),
    (
        lambda x, i: ops.gather_nd(x, i, batch_axes=2),
        "gather_nd(x: float64[2, 3], indices: int64[4, 3]): batch_axes=2 leaves no axis of indices int64[4, 3]",
    ),
    (
        lambda x, i: ops.gather_nd(x, i),
        "gather_nd(x: float64[2, 3], indices: int64[4, 3]): rows of 3 indices after 0 axes do not fit [2, 3]",
    ),
    (
        lambda x, i: ops.gather_nd(x, i[:, :1], batch_axes=1),
        "gather_nd(x: float64[2, 3], indices: int64[4, 1]): the first 1 axes of [2, 3] and [4, 1] differ",
    ),
    (
        lambda x, i: ops.scatter_nd(x, i[:, :2], x),
        "scatter_nd(x: float64[2, 3], indices: int64[4, 2], updates: float64[2, 3]): "
        "updates has the shape [2, 3], not [4]",
    ),
    (
        lambda x, i: ops.scatter(x, i[0], x, reduction="mean"),  # pyright: ignore[reportArgumentType]: the mistake
        "scatter(x: float64[2, 3], indices: int64[3], updates: float64[2, 3]): "
        "scatter_nd(x: float64[2, 3], indices: int64[3, 1], updates: float64[2, 3]): "
        "reduction='mean' is not one of set, add, max, min, mul",
    ),
    (
        lambda x, i: ops.take_along_axis(x, i[0]),
        "take_along_axis(x: float64[2, 3], indices: int64[3]): x has 2 axes, indices has 1",
    ),
    (lambda x, i: ops.tril(x[0]), "tril(x: float64[3]): x has 1 axes and needs two or more"),
    (lambda x, i: ops.diagonal(x, axis=(1, -1)), "diagonal(x: float64[2, 3]): axes (1, -1) are not two different ones"),
    (lambda x, i: ops.range.on(x.block)(stop=3, step=0), "range(): the step is 0"),
    (lambda x, i: ops.range.on(x.block)(stop=np.inf), "range(): 0, inf and 1 are not all finite"),
    (
        lambda x, i: ops.range.on(x.block)(stop=3, step=0.5),
        "range(): the step 0.5 is not a whole number, as int64 needs",
    ),
    (lambda x, i: ops.range.on(x.block)(stop=300, dtype="uint8"), "range(): 299.0 does not fit uint8"),
    (lambda x, i: ops.size.on(x.block)(shape=(20, 15), dtype="uint8"), "size(): 300 does not fit uint8"),
    (lambda x, i: ops.linspace.on(x.block)(start=0, stop=1, count=-1), "linspace(): the count -1 is negative"),
    (
        lambda x, i: ops.fold(x, shape=(1, 3, 3, 1), window=(2, 2)),
        "fold(x: float64[2, 3]): x has the shape [2, 3], not [1, 2, 2, 4]",
    ),
]


@pytest.mark.parametrize(("call", "sentence"), CALLS, ids=[sentence.split(":")[0] for _, sentence in CALLS])
def test_a_call_that_makes_no_sense_is_an_error(call: Callable[[Value, Value], object], sentence: str):
    _, values = block_of((np.zeros((2, 3)), np.zeros((4, 3), "int64")))
    assert told(OpError, lambda: call(*values)) == sentence


def test_the_gradient_of_a_product_is_exact_for_updates_of_zero():
    """Two places: one has a single zero, whose gradient is the product of the others; the other has two."""
    x, indices = np.array([2.0, 3.0, 5.0]), np.array([[0], [0], [0], [1], [1]])
    updates = np.array([4.0, 0.0, 6.0, 0.0, 0.0])
    program = Program("products")
    a, u = program.input("x", "float64", (3,)), program.input("u", "float64", (5,))
    y = ops.scatter_nd(a, program.input("i", "int64", (5, 1)), u, reduction="mul")
    dx, du = gradients(ops.sum(y), [a, u])
    program.outputs(y=y, dx=dx, du=du)
    for engine in ("reference", "native"):
        found = Run(program.compile(), engine=engine).step({"x": x, "u": updates, "i": indices}, entry="predict")
        np.testing.assert_array_equal(found["y"], [0.0, 0.0, 5.0])
        np.testing.assert_array_equal(found["dx"], [0.0, 0.0, 1.0])
        np.testing.assert_array_equal(found["du"], [0.0, 2.0 * 4.0 * 6.0, 0.0, 0.0, 0.0])
