"""Products with sparse rows beside dense ones, on both engines, at ordinary sizes."""

import numpy as np
import pytest

from prograd import Program, Run, adam, layers, ops
from runtime.errors import ExecutionError, OutOfRange

ROWS, COUNT, WORDS, WIDTH = 32, 24, 500, 64
ENGINES = ("reference", "native")


def sparse(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Positions and values of rows with some padding and some repeated positions; and the dense rows."""
    rng = np.random.default_rng(seed)
    positions = rng.integers(0, WORDS, (ROWS, COUNT))
    positions[:, 1] = positions[:, 0]
    values = rng.normal(size=(ROWS, COUNT)).astype(np.float32)
    values[rng.random((ROWS, COUNT)) < 0.3] = 0
    dense = np.zeros((ROWS, WORDS))
    np.add.at(dense, (np.arange(ROWS)[:, None], positions), values)
    return positions, values, dense.astype(np.float32)


def network(*, is_sparse: bool) -> Program:
    program = Program("documents", seed=3)
    label = program.input("label", "int64", ("batch",))
    if is_sparse:
        positions = program.input("positions", "int64", ("batch", "count"))
        values = program.input("values", "float32", ("batch", "count"))
        hidden = layers.sparse_dense(positions, values, "hidden", WORDS, WIDTH)
    else:
        hidden = layers.dense(program.input("x", "float32", ("batch", WORDS)), "hidden", WIDTH)
    scores = layers.dense(ops.relu(hidden), "output", 7)
    program.minimize(ops.softmax_cross_entropy(scores, label), adam(0.01))
    program.outputs(probabilities=ops.softmax(scores))
    return program


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ENGINES)
def test_training_on_sparse_rows_is_training_on_dense_ones(engine):
    if engine == "native":
        pytest.importorskip("llvmlite")
    positions, values, dense = sparse()
    label = np.arange(ROWS) % 7
    one = Run(network(is_sparse=True).compile(batch=ROWS, count=COUNT), engine=engine)
    other = Run(network(is_sparse=False).compile(batch=ROWS), engine=engine)
    for name in ("hidden.w", "output.w"):
        one.state[name] = other.state[name]
    for _ in range(8):
        here = one.step({"positions": positions, "values": values, "label": label})["loss"]
        assert here == pytest.approx(other.step({"x": dense, "label": label})["loss"], rel=2e-5)
    np.testing.assert_allclose(one.state["hidden.w"], other.state["hidden.w"], atol=2e-4)


def test_the_bits_of_a_training_do_not_depend_on_threads():
    pytest.importorskip("llvmlite")
    positions, values, _ = sparse()
    feeds = {"positions": positions, "values": values, "label": np.arange(ROWS) % 7}
    hashes = set()
    for threads in (1, 2):
        run = Run(network(is_sparse=True).compile(batch=ROWS, count=COUNT), engine="native", threads=threads)
        for _ in range(5):
            run.step(feeds)
        hashes.add(run.state_sha256)
    assert len(hashes) == 1


@pytest.mark.parametrize("engine", ENGINES)
def test_what_pads_a_row_reads_nothing(engine):
    if engine == "native":
        pytest.importorskip("llvmlite")
    program = Program("padded")
    positions = program.input("positions", "int64", ("rows", 3))
    values = program.input("values", "float32", ("rows", 3))
    table = program.input("table", "float32", (5, 40))
    program.outputs(y=ops.sparse_matmul(positions, values, table))
    run = Run(program.compile(rows=2), engine=engine)
    w = np.arange(200, dtype=np.float32).reshape(5, 40)
    w[4] = np.nan
    feeds = {"positions": np.array([[1, 4, 4], [0, 2, 4]]), "values": np.float32([[2, 0, 0], [1, 1, 0]]), "table": w}
    found = run.predict(feeds)["y"]
    np.testing.assert_array_equal(found, [2 * w[1], w[0] + w[2]])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("wrong", [-1, WORDS])
def test_a_position_outside_of_the_matrix_is_named(engine, wrong):
    if engine == "native":
        pytest.importorskip("llvmlite")
    positions, values, _ = sparse()
    positions[3, 5] = wrong
    run = Run(network(is_sparse=True).compile(batch=ROWS, count=COUNT), engine=engine)
    with pytest.raises((ExecutionError, OutOfRange)) as caught:
        run.step({"positions": positions, "values": values, "label": np.arange(ROWS) % 7})
    assert f"index {wrong} is out of range: there are {WORDS} places, from 0" in str(caught.value)


@pytest.mark.parametrize(
    ("shapes", "sentence"),
    [
        (((4, 3), (4, 2), (5, 6)), "positions are int64[4, 3] and values float32[4, 2]; both have the shape"),
        (((4,), (4,), (5, 6)), "positions are int64[4] and values float32[4]; both have the shape [rows, count]"),
        (((4, 3), (4, 3), (5,)), "w is float32[5], and not a matrix"),
    ],
)
def test_operands_that_do_not_fit_are_refused(shapes, sentence):
    program = Program("wrong")
    given = [program.input(n, d, s) for n, d, s in zip("pvw", ("int64", "float32", "float32"), shapes, strict=True)]
    with pytest.raises(Exception, match="sparse_matmul") as caught:
        ops.sparse_matmul(*given)
    assert sentence in str(caught.value)


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ENGINES)
def test_rows_of_unequal_length_are_padded_to_a_few_lengths(engine):
    """The rows of a sparse matrix as lists; steps are compiled for some numbers of elements."""
    if engine == "native":
        pytest.importorskip("llvmlite")
    positions, values, dense = sparse()
    kept = values != 0
    given = {
        "positions": [p[k] for p, k in zip(positions, kept, strict=True)],
        "values": [v[k] for v, k in zip(values, kept, strict=True)],
    }
    run = Run(network(is_sparse=True).compile(batch=8, count=(12, 16, COUNT)), engine=engine)
    label = np.arange(ROWS) % 7
    run.train(data=given | {"label": label}, epochs=2)
    weights = {name: run.state[name].astype(np.float64) for name in run.state if name.count(".") == 1}
    hidden = np.maximum(dense @ weights["hidden.w"] + weights["hidden.b"], 0)
    scores = hidden @ weights["output.w"] + weights["output.b"]
    expected = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    np.testing.assert_allclose(run.predict(given)["probabilities"], expected, atol=1e-5)
