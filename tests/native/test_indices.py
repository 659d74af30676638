"""Rows by numbers that are data, against the kernels: the same bits, whichever unit is made first."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from native.building import every_target
from native.staged import check

import runtime
from compiler import Program, adam, ops, sgd
from prograd import layers
from prograd_proto.dtypes import ITEM_BYTES
from runtime.codegen.ir import FLOAT32
from runtime.codegen.rules.index import index_ranges
from runtime.dtypes import numpy_dtype


def numbers(shape: tuple[int, ...], dtype: str = "float32", below: int = 0) -> np.ndarray:
    rng = np.random.default_rng(len(shape))
    if below:
        return rng.integers(0, below, shape).astype(dtype)
    return rng.normal(0, 50, shape).astype(dtype)


@every_target
def test_rows_are_read_and_added_to(target):
    for dtype in ("int32", "int64"):
        indices = numbers((3, 4), dtype, 5)
        check("gather", numbers((2, 5, 37)), indices, axis=1, target=target)
        check("scatter_add", numbers((2, 5, 37)), indices, numbers((2, 3, 4, 37)), axis=1, target=target)


@pytest.mark.parametrize("dtype", sorted(ITEM_BYTES))
def test_rows_of_any_dtype_are_read(dtype: str):
    raw = np.random.default_rng(0).integers(0, 2, 7 * 19 * 8).astype(np.uint8)
    x = raw[: 7 * 19 * ITEM_BYTES[dtype]].view(numpy_dtype(dtype)).reshape(7, 19)
    check("gather", x, numbers((11,), "int64", 19), axis=-1)
    check("gather", x, numbers((), "int32", 7), axis=0)


@every_target
@pytest.mark.parametrize("rows", [255, 256, 300])
def test_bytes_select_elements_of_a_table(rows: int, target):
    """A table of 256 elements or more has one for each byte, so that nothing is checked."""
    for dtype in ("uint8", "float32", "float64"):
        for shape in ((1,), (37,), (3, 5000)):
            check(
                "gather", numbers((rows,), dtype, 250), numbers(shape, "uint8", min(rows, 256)), axis=0, target=target
            )


@pytest.mark.thorough
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_shapes_of_any_kind(data):
    extents = st.sampled_from([1, 2, 3, 7, 16, 33])
    shape = tuple(data.draw(st.lists(extents, min_size=1, max_size=3)))
    axis, more = data.draw(st.integers(0, len(shape) - 1)), tuple(data.draw(st.lists(extents, max_size=2)))
    dtype = data.draw(st.sampled_from(["float32", "float64", "int32", "int64", "uint8"]))
    indices, end = numbers(more, "int64", shape[axis]), data.draw(st.booleans())
    check("gather", numbers(shape, dtype), indices, axis=axis, end=end)
    updates = numbers((*shape[:axis], *more, *shape[axis + 1 :]), dtype)
    check("scatter_add", numbers(shape, dtype), indices, updates, axis=axis, end=end)
    check("bincount", indices, depth=shape[axis] + 2)


def test_many_updates_are_shared_by_ranges_of_rows():
    indices = numbers((900,), "int32", 31)
    check("scatter_add", numbers((31, 50)), indices, numbers((900, 50)), axis=0)
    check("scatter_add", numbers((31, 200)), indices, numbers((900, 200)), axis=0)
    check("bincount", numbers((40000,), "int64", 31), depth=31)


@pytest.mark.parametrize(
    ("count", "width", "ranges"), [(131072, 1, 1), (4096, 64, 1), (4096, 200, 3), (4096, 768, 8), (64, 200, 1)]
)
def test_only_long_rows_are_shared_since_each_range_looks_at_all_indices(count: int, width: int, ranges: int):
    found, length = index_ranges(count, width, FLOAT32, 1000)
    assert found == ranges
    assert (found - 1) * length < 1000 <= found * length


def looked_up(engine: str, index: int, threads: int = 1) -> tuple[str, np.ndarray, np.ndarray]:
    """Return the sentence of a run about an index, and a state before and after."""
    program = Program("looked up")
    table = program.parameter("table", (5, 3))
    rows = ops.gather(table, program.input("word", "int64", ("batch",)), axis=0)
    program.minimize(ops.mean(ops.square(rows)), sgd(0.1))
    run = runtime.Run(program.compile(batch=4).desc, engine=engine, threads=threads)
    run.step({"word": np.array([0, 1, 2, 4])})
    before = run.states.arrays["table"].copy()
    with pytest.raises(runtime.ExecutionError) as caught:
        run.step({"word": np.array([0, index, 4, 4])})
    after = run.states.arrays["table"].copy()
    run.step({"word": np.array([0, 1, 2, 4])})
    return str(caught.value), before, after


@pytest.mark.parametrize("index", [-1, 5, 1 << 40])
def test_an_index_of_no_row_is_refused_as_the_reference_does(index: int):
    sentence, *_ = looked_up("reference", index)
    assert f"index {index} is out of range: there are 5 places, from 0" in sentence
    for threads in (1, 2):
        said, before, after = looked_up("native", index, threads)
        assert said == sentence
        np.testing.assert_array_equal(before, after)


def refused_label(engine: str, of_six: int) -> str:
    """Return the sentence about a label of a network with heads of ten and of six classes; "" if none is refused."""
    program = Program("heads", seed=1)
    hidden = layers.dense(program.input("x", "float32", ("n", 64)), "hidden", 64)
    ten, six = program.input("ten", "int64", ("n",)), program.input("six", "int64", ("n",))
    heads = [(layers.dense(hidden, f"head{classes}", classes), label) for classes, label in ((10, ten), (6, six))]
    first, second = (ops.softmax_cross_entropy(*head) for head in heads)
    program.minimize(first + second, adam(0.01))
    run = runtime.Run(program.compile(n=32).desc, engine=engine)
    labels = np.full(32, 5)
    labels[3] = of_six
    try:
        run.step({"x": np.ones((32, 64), "float32"), "ten": np.full(32, 9), "six": labels})
    except runtime.ExecutionError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(("label", "is_refused"), [(5, False), (6, True), (9, True)])
def test_each_of_two_heads_refuses_labels_beyond_its_own_classes(label: int, is_refused: bool):
    sentence = refused_label("reference", label)
    assert (f" {label} is out of range: there are 6 " in sentence) == is_refused
    assert refused_label("native", label) == sentence


@pytest.mark.parametrize("bad", [1, 2, 17])
def test_of_many_steps_in_one_call_those_before_a_refused_one_are_made(bad: int):
    program = Program("looked up")
    table = program.parameter("table", (5, 3))
    rows = ops.gather(table, program.input("word", "int64", ("batch",)), axis=0)
    program.minimize(ops.mean(ops.square(rows)), sgd(0.1))
    desc = program.compile(batch=4).desc
    words = np.random.default_rng(0).integers(0, 5, 80)
    words[4 * (bad - 1) + 2] = 9
    seen = {}
    for engine in ("reference", "native"):
        run, events = runtime.Run(desc, engine=engine), []
        with pytest.raises(runtime.ExecutionError) as caught:
            events.extend(run.events(data={"word": words}, epochs=1, shuffle=False, ahead=1000))
        seen[engine] = str(caught.value), len(events), run.states.arrays["table"].copy()
    assert seen["native"][:2] == seen["reference"][:2]
    assert seen["native"][1] == bad - 1
    row = f"row {4 * (bad - 1) + 2} of the feed 'word' has it"
    assert seen["native"][0].endswith(f"{row}; 'table' has a row for each number, so it takes count=10 or more")
    np.testing.assert_allclose(seen["native"][2], seen["reference"][2], rtol=1e-5)


@pytest.mark.thorough
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_rows_by_several_numbers(data):
    extents = st.integers(1, 6)
    shape = tuple(data.draw(st.lists(extents, min_size=2, max_size=4)))
    batch_axes = data.draw(st.integers(0, len(shape) - 2))
    width = data.draw(st.integers(1, len(shape) - batch_axes))
    counts = (*shape[:batch_axes], *data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=2)))
    named = shape[batch_axes : batch_axes + width]
    indices = np.stack([numbers(counts, "int64", extent) for extent in named], axis=-1)
    after = shape[batch_axes + width :]
    check("gather_nd", numbers(shape), indices, batch_axes=batch_axes)
    check("is_last_index", indices, shape=shape, batch_axes=batch_axes)
    for dtype in ("float32", "int64", "uint8"):
        for reduction in ("set", "add", "max", "min"):
            x, updates = numbers(shape, dtype), numbers((*counts, *after), dtype)
            check("scatter_nd", x, indices, updates, batch_axes=batch_axes, reduction=reduction)
