"""Rows that are given in Python: arrays, frames, iterators; and the errors for other objects."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from subjects.commands import told

import prograd
from prograd import Program, layers, ops, sgd
from runtime import DataError, UsageError

RNG = np.random.default_rng(0)
X, A = RNG.standard_normal((16, 3)).astype(np.float32), RNG.standard_normal(16).astype(np.float32)
Y = np.arange(16) % 2
ROWS = {"x": X, "a": A, "y": Y}


def program() -> Program:
    built = Program("given", seed=1)
    x, a, y = (
        built.input("x", "float32", ("n", 3)),
        built.input("a", "float32", ("n",)),
        built.input("y", "int64", ("n",)),
    )
    scores = layers.dense(ops.concat(x, a[:, None], axis=1), "out", 2)
    built.minimize(ops.softmax_cross_entropy(scores, y), sgd(0.1))
    built.outputs(scores=scores)
    return built


def run(**sizes: int) -> prograd.Run:
    return prograd.Run(program().compile(**(sizes or {"n": 8})))  # type: ignore[arg-type]


def trained(data: object, *, as_file: bool = False, **options: Any) -> str:
    """Train on rows by a compiled program, or by its message alone, as a file has it."""
    made = prograd.Run(program().compile(n=8).desc) if as_file else run()
    list(made.events(data=data, **(options or {"epochs": 2})))
    return made.state_sha256


def test_a_frame_is_the_arrays_of_its_columns():
    pandas = pytest.importorskip("pandas", reason='pip install -e ".[test]" brings it')
    frame = pandas.DataFrame({"x": list(X), "a": A, "y": pandas.array(Y, "Int64")}, index=range(5, 21))
    assert trained(frame) == trained(ROWS)
    halves = [frame[:10], frame[10:]]
    assert trained(iter(halves), steps=2) == trained(ROWS, epochs=1, shuffle=False)
    made = run()
    scores = made.predict({"x": X, "a": A})["scores"]
    np.testing.assert_array_equal(made.predict(frame[["x", "a"]])["scores"], scores)
    assert made.evaluate(frame) == made.evaluate(ROWS)


REFUSED = [
    (X, "the rows are of type ndarray; name the feed of each array, as in {'x': x, 'label': label}"),
    ((X, A), "a tuple of 2 is given for the feeds x, a, y; give one array for each, as in data=(x, a, y)"),
    (iter([X]), "the rows are of type ndarray; name the feed of each array, as in {'x': x, 'label': label}"),
    (
        {"x": X[:10], "a": A[:10], "y": Y[:10]},
        "10 rows are given, and steps of 8 leave 2 of them; give 8, or compile the program for both sizes, "
        "as in batch=(8, 2), or leave them out by remainder='drop'",
    ),
    ({"x": X[:3], "a": A[:3], "y": Y[:3]}, "3 rows are given, a step takes 8"),
    ({"x": X, "a": A, "y": ["u", "v"] * 8}, "entry 'train': the feed 'y' is int64[rows], not text; give numbers"),
    ({"x": X, "a": A, "y": None}, "entry 'train': the feed 'y' is int64[rows], not NoneType; give an array"),
    (
        {"x": [[[1, 2]]], "a": A, "y": Y},
        "entry 'train': row 0 given for the feed 'x' is float32[1, 2], a row of it is float32[3], or shorter",
    ),
]


@pytest.mark.parametrize(("data", "sentence"), REFUSED)
def test_rows_that_are_none_are_one_sentence(data: object, sentence: str):
    assert told((DataError, UsageError), lambda: trained(data, steps=2, as_file=True)) == sentence


@pytest.mark.parametrize("value", ["2", 1.5])
def test_a_number_of_epochs_that_is_none_is_one_sentence(value: object):
    with pytest.raises(UsageError) as caught:
        trained(ROWS, epochs=value)
    assert str(caught.value) == f"epochs={value!r}: write a whole number, as in epochs=10"


def test_predictions_of_no_rows_are_one_sentence():
    assert told(DataError, lambda: run().predict({"x": X[:0], "a": A[:0]})) == "entry 'predict': there are no rows"


def test_a_folder_in_place_of_a_file_is_one_sentence(tmp_path: Path):
    built = program()
    prograd.data.write(tmp_path / "rows.safetensors", ROWS)
    built.data("rows.safetensors", shuffle=False, remainder="drop")
    built.training(epochs=1)
    built.compile(n=8).save(tmp_path / "p.pb")
    with pytest.raises(DataError) as caught:
        prograd.load(tmp_path / "p.pb", data=tmp_path)
    wanted = f"{tmp_path}: this is a folder; name the files of rows in it, as in '{tmp_path}/part-*.safetensors'"
    assert str(caught.value) == wanted


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "uint8", "uint16", "uint32", ">i4"])
def test_integers_feed_wider_integers(engine: str, dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    built = Program("whole")
    x = built.input("x", "int64", ("n", 64))
    built.outputs(y=x * 3)
    given = np.arange(32 * 64).reshape(32, 64).astype(dtype)
    built.data("rows.npz", shuffle=False, remainder="drop")
    np.savez("rows.npz", x=given)
    built.compile(n=32).save("p.pb")
    made = prograd.load("p.pb", engine=engine)
    np.testing.assert_array_equal(made.predict({"x": given})["y"], given.astype(np.int64) * 3)
    np.testing.assert_array_equal(made.session.rows("predict", None).columns["x"], given.astype(np.int64))


NUMBERS = {
    "float32": ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool", "float16", ">i4"],
    "float64": ["int64", "uint64", "bool", "float16", "float32"],
    "int32": ["int64", "uint32", "uint64", "bool"],
    "int64": ["uint64", "bool"],
    "uint8": ["int64", "bool"],
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize(("wanted", "given"), [(wanted, given) for wanted, all in NUMBERS.items() for given in all])
def test_numbers_take_the_dtype_of_a_feed_that_holds_them(engine, wanted, given, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    built = Program("numbers")
    built.outputs(y=built.input("x", wanted, ("n", 4)) * 2)
    built.data("rows.npz", shuffle=False, remainder="drop")
    rows = (np.arange(32 * 4) % (2 if given == "bool" else 100)).reshape(32, 4).astype(given)
    np.savez("rows.npz", x=rows)
    built.compile(n=32).save("p.pb")
    made = prograd.load("p.pb", engine=engine)
    expected = rows.astype(wanted) * np.array(2, wanted)
    for found in (made.predict({"x": rows}), made.predict(rows), made.predict(rows.tolist())):
        np.testing.assert_array_equal(found["y"], expected)
    np.testing.assert_array_equal(made.session.rows("predict", None).columns["x"], rows.astype(wanted))
    assert made.step({"x": rows}, entry="predict")["y"].dtype == wanted


@pytest.mark.parametrize(
    ("wanted", "number", "dtype"),
    [
        ("float32", 2**24 + 1, "int64"),
        ("float64", 2**53 + 1, "int64"),
        ("int32", 2**31, "int64"),
        ("int32", 2**31, "uint32"),
        ("int64", 2**63, "uint64"),
        ("uint8", 256, "int32"),
        ("uint8", -1, "int64"),
    ],
)
def test_a_number_that_would_be_lost_is_refused(wanted, number, dtype, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    built = Program("numbers")
    built.outputs(y=built.input("x", wanted, ("n", 2)) * 2)
    built.data("rows.npz", shuffle=False, remainder="drop")
    rows = np.array([[0, 1], [1, number]], dtype)
    np.savez("rows.npz", x=rows)
    built.compile(n=2).save("p.pb")
    made = prograd.load("p.pb")
    for action in (lambda: made.predict({"x": rows}), lambda: made.session.rows("predict", None)):
        with pytest.raises(DataError) as caught:
            action()
        assert str(caught.value) == f"row 1 of 'x' has {number}, which {wanted} does not hold"


def test_training_takes_integers_and_bools_as_lists_are_taken():
    whole = np.arange(16 * 3).reshape(16, 3) % 7
    expected = trained({"x": whole.astype("float32"), "a": A, "y": Y})
    for x in (whole, whole.astype("uint8"), whole.astype("float16"), whole.tolist()):
        assert trained({"x": x, "a": A, "y": Y.astype(bool)}) == expected
    assert (
        trained(iter([{"x": whole, "a": A, "y": Y.astype(bool)}] * 2), steps=2) != expected
    )  # it has no order to shuffle
    made = run()
    assert made.evaluate({"x": whole, "a": A, "y": Y == 1}) == made.evaluate(
        {"x": whole.astype("float32"), "a": A, "y": Y}
    )


@pytest.mark.parametrize("dtype", ["uint8", "int32", "float16"])
def test_an_array_that_would_lose_digits_is_refused_with_the_cast(dtype: Any):
    program = Program("cast")
    program.outputs(y=ops.cast(program.input("x", dtype, ("batch", 64)), dtype="float32") * 2.0)
    run = prograd.Run(program.compile(batch=32))
    with pytest.raises(DataError) as error:
        run.predict(np.full((32, 64), 1.5))
    remedy = f"if these are whole numbers, cast them, as in array.astype('{dtype}')" if dtype != "float16" else ""
    assert str(error.value) == (
        f"entry 'predict': the feed 'x' is {dtype}[rows, 64], the array given is float64[32, 64]"
        + (f"; {remedy}" if remedy else "")
    )


def test_a_column_of_a_file_that_would_lose_digits_is_refused_with_the_cast(tmp_path: Path):
    program = Program("cast")
    x = program.input("x", "uint8", ("batch", 64))
    w = program.parameter("w", (64,))
    program.minimize(ops.mean(ops.square(ops.cast(x, dtype="float32") - w)), sgd(0.1))
    program.data("rows.npz", shuffle=False, remainder="drop")
    np.savez(tmp_path / "rows.npz", x=np.zeros((32, 64), np.uint8))
    program.compile(batch=32).save(tmp_path / "p.pb")
    np.savez(tmp_path / "floats.npz", x=np.zeros((32, 64)))
    assert told(DataError, lambda: prograd.load(tmp_path / "p.pb", data=tmp_path / "floats.npz").train(epochs=1)) == (
        f"{tmp_path}/floats.npz: 'x' is float64[32, 64], the feed 'x' is uint8[rows, 64]; cast it to uint8 before it "
        "is written"
    )
