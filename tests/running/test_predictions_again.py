"""Predictions for arrays as earlier ones were: what was checked then is not checked again, and all else stays."""

import gc

import numpy as np
import pytest
from subjects.small_programs import linear, rich, save

import runtime
from compiler import Program, ops
from runtime.errors import OutOfRange
from runtime.runs import predictions

ENGINES = ("reference", "native")


def several(rng, rows):
    return rng.normal(size=(rows, 3)).astype(np.float32)


def lookup() -> Program:
    """Two feeds, one of which has numbers of rows that there may not be."""
    program = Program("lookup")
    x = program.input("x", "float32", ("batch", 3))
    word = program.input("word", "int64", ("batch",))
    table = program.buffer("table", (5, 3))
    program.outputs(sums=x + ops.embedding(table, word), words=word + 1)
    return program


def fixed() -> Program:
    """Two feeds of fixed extents that differ, and a result without rows."""
    program = Program("fixed")
    x, y = program.input("x", "float32", (4, 3)), program.input("y", "float32", (3,))
    program.outputs(sums=x + y, total=ops.sum(x))
    return program


@pytest.fixture
def followed(monkeypatch):
    """Count predictions without the fast path."""
    calls = []
    whole = predictions.run_over
    monkeypatch.setattr(predictions, "run_over", lambda *args, **options: calls.append(1) or whole(*args, **options))
    return calls


@pytest.mark.parametrize("engine", ENGINES)
def test_every_number_of_rows_gives_the_bits_of_the_first_time(engine, tmp_path, followed):
    path, rng = save(linear(), tmp_path), np.random.default_rng(0)
    run = runtime.load(path, engine=engine)
    for rows in (1, 2, 3, 4, 5, 7, 8, 11, 43):
        first, second = several(rng, rows), several(rng, rows)
        before = len(followed)
        found = [run.predict(x)["prediction"] for x in (first, second, second[:, ::-1][:, ::-1], first)]
        assert len(followed) == before + 1
        fresh = runtime.load(path, engine=engine).predict(second)["prediction"]
        assert found[1].tobytes() == fresh.tobytes() == found[2].tobytes()
        assert found[3].tobytes() == found[0].tobytes()


@pytest.mark.parametrize("engine", ENGINES)
def test_arrays_of_fixed_extents_are_a_step_as_they_are(engine, tmp_path, followed):
    path, rng = tmp_path / "p.pb", np.random.default_rng(0)
    fixed().compile().save(path)
    run = runtime.load(path, engine=engine)
    for _ in range(3):
        given = {"x": several(rng, 4), "y": several(rng, 1)[0]}
        found = run.predict(given)
        np.testing.assert_array_equal(found["sums"], given["x"] + given["y"])
        fresh = runtime.load(path, engine=engine).predict(given)
        assert found["total"].tobytes() == fresh["total"].tobytes()
        assert found["total"].shape == ()
    assert len(followed) == 1 + 3
    with pytest.raises(runtime.DataError, match=r"the feed 'x' is float32\[4, 3\], the array given is float32\[5, 3\]"):
        run.predict({"x": several(rng, 5), "y": several(rng, 1)[0]})


def test_an_answer_is_the_callers_own_and_that_of_the_states_as_they_are(tmp_path):
    run = runtime.load(save(linear(), tmp_path))
    x = np.ones((2, 3), np.float32)
    answers = [run.predict(x)["prediction"] for _ in range(2)]
    run.state["b"] = 7.0
    later = run.predict(x)["prediction"]
    later[0] = 0
    assert np.array_equal(answers[0], answers[1])
    assert np.allclose(answers[1] + 7, [run.predict(x)["prediction"][0]] * 2)


@pytest.mark.parametrize("engine", ENGINES)
def test_what_a_later_array_has_wrong_is_said_as_of_a_first_one(engine, tmp_path, followed):
    path = tmp_path / "p.pb"
    lookup().compile(batch=4).save(path)
    good = {"x": np.ones((6, 3), np.float32), "word": np.arange(6) % 5}
    bad = good | {"word": np.array([0, 1, 2, 3, 4, 5])}
    run = runtime.load(path, engine=engine)
    run.predict(good)
    run.predict({"word": good["word"], "x": good["x"]})
    assert len(followed) == 2  # other names first are other arrays
    sentences = []
    for each in (run, runtime.load(path, engine=engine)):
        with pytest.raises(OutOfRange, match="row 5 of the feed 'word' has it") as caught:
            each.predict(bad)
        sentences.append(str(caught.value))
    assert sentences[0] == sentences[1]
    assert run.predict(good)["words"].tolist() == [1, 2, 3, 4, 5, 1]


def test_arrays_that_are_not_as_they_were_are_checked(tmp_path):
    run = runtime.load(save(linear(), tmp_path))
    x = np.ones((4, 3), np.float32)
    expected = run.predict(x)["prediction"]
    assert np.array_equal(run.predict(x.astype(np.float64))["prediction"], expected)
    assert np.array_equal(run.predict(x.astype(">f4"))["prediction"], expected)
    assert np.array_equal(run.predict(x.tolist())["prediction"], expected)
    assert np.array_equal(run.predict({"x": x})["prediction"], expected)
    assert np.array_equal(run.predict(x.astype(np.int32))["prediction"], expected)
    with pytest.raises(runtime.DataError, match="row 0 of 'x' has 16777217, which float32 does not hold"):
        run.predict(np.full((4, 3), 2**24 + 1, np.int32))
    with pytest.raises(runtime.DataError, match="there are no rows"):
        run.predict(x[:0])


@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_not_finite_is_found_in_a_later_array(engine, tmp_path):
    run = runtime.load(save(linear(), tmp_path), engine=engine, check_nan=True)
    x = np.ones((4, 3), np.float32)
    run.predict(x)
    x[2, 1] = np.inf
    with pytest.raises(runtime.NonFinite, match="entry 'predict': row 2 of the feed 'x' has NaN or Inf"):
        run.predict(x)


def test_answers_count_for_the_limit_of_memory_as_long_as_they_live(tmp_path):
    run = runtime.load(save(linear(), tmp_path), max_memory=1 << 20)
    x = np.ones((1000, 3), np.float32)
    run.predict(x)
    before = run.memory.taken
    answers = [run.predict(x) for _ in range(3)]
    assert run.memory.taken == before + 3 * 4000
    with pytest.raises(runtime.ResourceLimit, match=r"the run needs .*, and the limit is 1048576 bytes \(1.0 MiB\)"):
        answers += [run.predict(x) for _ in range(1000)]
    del answers
    gc.collect()
    assert run.memory.taken == before


def test_an_entry_that_sums_over_its_rows_is_always_run_as_the_first_time(tmp_path, followed):
    run = runtime.load(save(rich(), tmp_path))
    x = np.ones((8, 3), np.float32)
    kept = [name for name in run.entries if name == "predict"]
    assert kept == ["predict"]
    for _ in range(2):
        run.predict({"x": x, "y": x[:, 0]}, entry="evaluate")
    assert len(followed) == 2
    assert len(run._predictions._scripts) == 0


def test_scripts_do_not_fill_the_memory(tmp_path):
    run = runtime.load(save(linear(), tmp_path))
    for rows in range(1, predictions.MAX_SCRIPTS + 10):
        run.predict(np.ones((rows, 3), np.float32))
    assert 0 < len(run._predictions._scripts) <= predictions.MAX_SCRIPTS
