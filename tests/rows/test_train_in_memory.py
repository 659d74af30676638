"""Training on rows in memory: order, remainder, validation, resuming, and the sentences for rows that do not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from subjects.commands import told

import prograd
from prograd import Program, Run, layers, ops, sgd

ROWS, BATCH, WIDTH = 107, 32, 64
RNG = np.random.default_rng(0)
X = RNG.standard_normal((ROWS, WIDTH)).astype(np.float32)
Y = (X[:, 0] > 0).astype(np.int64)
NAN_LABELS = np.where(np.arange(ROWS) == 5, np.nan, Y)


@pytest.fixture(params=["reference", "native"])
def engine(request: pytest.FixtureRequest) -> Any:
    return request.param


def program() -> Program:
    built = Program("memory", seed=7)
    x, y = built.input("x", "float32", ("batch", WIDTH)), built.input("y", "int64", ("batch",))
    number = built.input("number", "int64", ("batch",))
    scores = layers.dense(ops.relu(layers.dense(layers.dropout(x, 0.1), "hidden", 64)), "out", 2)
    built.minimize(ops.softmax_cross_entropy(scores, y), sgd(0.1))
    built.fetch("numbers", number)
    built.metrics(accuracy=ops.accuracy(scores, y))
    built.outputs(scores=scores)
    return built


def two_feeds() -> Program:
    built = Program("memory", seed=7)
    x, y = built.input("x", "float32", ("batch", WIDTH)), built.input("y", "int64", ("batch",))
    built.minimize(ops.softmax_cross_entropy(layers.dense(x, "out", 2), y), sgd(0.1))
    return built


NUMBERED = (X, Y, np.arange(ROWS))


def steps_of(run: Run, **options: Any) -> list[list[int]]:
    """Return the numbers of the rows of each step."""
    found = []
    for event in run.events(data=NUMBERED, **options):
        if isinstance(event, prograd.StepEnd):
            found.append(run.fetched["numbers"].tolist())
    return found


@pytest.mark.thorough
def test_every_epoch_takes_all_rows_in_an_order_of_its_own(engine: Any):
    steps = steps_of(Run(program().compile(batch=BATCH), engine=engine), epochs=3)
    assert [len(step) for step in steps] == [32, 32, 32, 11] * 3
    epochs = [[number for step in steps[i : i + 4] for number in step] for i in range(0, 12, 4)]
    assert all(sorted(epoch) == list(range(ROWS)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 3
    assert steps == steps_of(Run(program().compile(batch=BATCH), engine=engine), epochs=3)
    assert steps != steps_of(Run(program().compile(batch=BATCH), engine=engine, seed=8), epochs=3)


def test_the_states_are_those_of_the_same_steps_by_hand(engine: Any):
    run, by_hand = (Run(program().compile(batch=(BATCH, 11)), engine=engine) for _ in range(2))
    for numbers in steps_of(run, epochs=2):
        by_hand.step({"x": X[numbers], "y": Y[numbers], "number": np.array(numbers)})
    added = Run(program().compile(batch=BATCH), engine=engine)
    added.train(data=NUMBERED, epochs=2, progress=False)
    for name in ("hidden.w", "out.b"):
        np.testing.assert_array_equal(run.state[name], by_hand.state[name])
        np.testing.assert_array_equal(added.state[name], run.state[name])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("shuffle", [True, False])
def test_a_share_of_the_rows_is_never_trained_on(engine: Any, shuffle: bool):
    run = Run(program().compile(batch=BATCH), engine=engine)
    trained = {number for step in steps_of(run, epochs=2, validation_split=0.2, shuffle=shuffle) for number in step}
    validated = sorted(set(range(ROWS)) - trained)
    assert len(validated) == 22
    assert (validated == list(range(85, ROWS))) is not shuffle
    own = run.evaluate({"x": X[validated], "y": Y[validated]})
    assert run.position.evaluation == pytest.approx(dict(own))


def test_rows_to_validate_on_are_evaluated_after_each_epoch(engine: Any):
    run = Run(two_feeds().compile(batch=BATCH), engine=engine)
    result = run.train(data=(X, Y), validation_data=(X[:40], Y[:40]), epochs=3, progress=False)
    assert list(result.history) == ["epoch", "step", "loss", "rate", "evaluate.loss", "best"]
    assert result.metrics["evaluate.loss"] == pytest.approx(run.evaluate((X[:40], Y[:40]))["loss"])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("stop", [1, 4, 5])
def test_a_run_goes_on_from_a_checkpoint_to_the_same_bits(engine: Any, stop: int, tmp_path: Path):
    options: dict[str, Any] = {"data": NUMBERED, "epochs": 3, "validation_split": 0.25}
    whole = Run(program().compile(batch=BATCH), engine=engine)
    whole.train(**options, progress=False)
    run = Run(program().compile(batch=BATCH), engine=engine)
    events = run.events(**options)
    while run.position.steps < stop:
        next(events)
    events.close()
    run.save(tmp_path / "c.safetensors")
    other = Run(program().compile(batch=BATCH), engine=engine)
    other.resume(tmp_path / "c.safetensors")
    other.train(**options, progress=False)
    assert other.state_sha256 == whole.state_sha256
    assert other.sha256 == program().compile(batch=BATCH).sha256


def test_fewer_rows_than_a_step_are_a_step(engine: Any):
    steps = steps_of(Run(program().compile(batch=256), engine=engine), epochs=2)
    assert [sorted(step) for step in steps] == [list(range(ROWS))] * 2


def test_rows_that_are_left_may_be_left_out(engine: Any):
    steps = steps_of(Run(program().compile(batch=BATCH).desc, engine=engine), epochs=2, remainder="drop")
    assert [len(step) for step in steps] == [32] * 6
    assert set(steps[0] + steps[1] + steps[2]) != set(steps[3] + steps[4] + steps[5])


def test_loops_inside_an_added_step_are_those_of_the_program(engine: Any):
    built = Program("loop", seed=1)
    x, w = built.input("x", "float32", ("batch", 8)), built.parameter("w", (8,))

    def step(carry: Any, column: Any) -> tuple[Any, Any]:
        return ops.cond(ops.sum(carry) > 0.0, lambda: carry * ops.sum(w) + column, lambda: carry - column), column

    last, _ = ops.scan(step, ops.sum(x * w, axis=1), ops.transpose(x, axis=(1, 0)))
    built.minimize(ops.mean(ops.square(last - 1.0)), sgd(0.001))
    rows = {"x": X[:, :8]}
    added, compiled = Run(built.compile(batch=BATCH), engine=engine), Run(built.compile(batch=(32, 11)), engine=engine)
    for run in (added, compiled):
        run.train(data=rows, epochs=2, progress=False)
    np.testing.assert_array_equal(added.state["w"], compiled.state["w"])


def test_frames_are_arrays_of_their_values():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    hashes = set()
    for data in (
        (X, Y),
        {"x": X, "y": Y},
        (pandas.DataFrame(X), pandas.Series(Y)),
        (polars.DataFrame(X), polars.Series(Y)),
        (X.astype(np.float64), Y.astype(np.int32)),
        (X.tolist(), Y.tolist()),
    ):
        run = Run(two_feeds().compile(batch=BATCH))
        run.train(data=data, epochs=1, progress=False)
        hashes.add(run.state_sha256)
    assert len(hashes) == 1


def test_a_single_input_takes_an_array():
    built = Program("one", seed=1)
    x = built.input("x", "float32", ("batch", WIDTH))
    built.minimize(ops.squared_error(layers.dense(x, "out", WIDTH), x), sgd(0.1))
    runs = [Run(built.compile(batch=BATCH)) for _ in range(2)]
    for run, data in zip(runs, (X, {"x": X}), strict=True):
        run.train(data=data, epochs=1, progress=False)
    assert runs[0].state_sha256 == runs[1].state_sha256


X_IS, Y_IS = "entry 'train': the feed 'x' is float32[rows, 64]", "entry 'train': the feed 'y' is int64[rows]"
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"data": (X[:, :7], Y)}, f"{X_IS}, the array given is float32[107, 7]"),
    ({"data": (X[:, 0], Y)}, f"{X_IS}, the array given is float32[107]"),
    (
        {"data": (X, Y[:, None])},
        f"{Y_IS}, the array given is int64[107, 1]; leave its last axis out, as in array[..., 0]",
    ),
    (
        {"data": (X, Y.astype(np.float64))},
        f"{Y_IS}, the array given is float64[107]; if these are whole numbers, cast them, as in array.astype('int64')",
    ),
    ({"data": (X, NAN_LABELS)}, f"{Y_IS}, the array given is float64[107]; row 5 of it is NaN or Inf"),
    ({"data": (X, Y[:50])}, "the feeds differ in their number of rows: 'x' has 107, 'y' 50"),
    (
        {"data": {"x": X}},
        "entry 'train' reads the feed 'y': int64[rows], which is not given; "
        "give an array for each feed, or declare rows by program.data",
    ),
    ({"data": {"x": X, "label": Y}}, "entry 'train' has no feed 'label'; its feeds are: x, y"),
    ({"data": (X,)}, "a tuple of 1 is given for the feeds x, y; give one array for each, as in data=(x, y)"),
    ({"data": (X[:0], Y[:0])}, "the arrays given have no rows to train on"),
    (
        {"data": (np.where(np.arange(ROWS)[:, None] == 7, np.nan, X), Y), "shuffle": False},
        "step 1: row 7 of the feed 'x' has NaN or Inf: loss is nan; leave the row out, or replace the value",
    ),
    ({"data": (X, ["a"] * ROWS)}, f"{Y_IS}, not text; give numbers"),
    ({"data": (X, Y), "validation_split": 1.0}, "validation_split=1.0 is not a number between 0 and 1, as 0.2 is"),
    ({"data": (X[:3], Y[:3]), "validation_split": 0.99}, "validation_split=0.99: 3 rows leave none to train on"),
    (
        {"data": (X, Y), "validation_split": 0.2, "validation_data": (X, Y)},
        "validation_data and validation_split both say which rows to evaluate on; give one of them",
    ),
    (
        {"data": (X, Y), "validation_data": (X[:, :3], Y)},
        "entry 'evaluate': the feed 'x' is float32[rows, 64], the array given is float32[107, 3]",
    ),
    (
        {"data": (X, Y), "validation_data": "test"},
        "validation_data='test' names a split, and the program has no data; give (x, y)",
    ),
    (
        {"data": (X, Y), "validation_data": 3},
        "validation_data is of type int: give (x, y), an array per feed, a frame, or the name of a split",
    ),
    ({"data": (X, Y), "remainder": "keep"}, "remainder='keep' is not one of drop, exact, partial"),
    (
        {"data": (X, Y), "remainder": "exact"},
        "107 rows are given, and steps of 32 leave 11 of them; give 96, or compile the program for both sizes, as in "
        "batch=(32, 11), or leave them out by remainder='drop'",
    ),
    (
        {"data": lambda: iter([{"x": X, "y": Y}]), "shuffle": True, "steps": 2},
        "shuffle=True: rows of a source come in its own order, and cannot be shuffled",
    ),
    (
        {"data": lambda: iter([{"x": X, "y": Y}]), "validation_split": 0.2, "steps": 2},
        "validation_split takes its rows from arrays in memory; for rows of a file name a split of it, as in "
        "validation_data='test'",
    ),
    ({"x": X, "y": Y}, "train: there is no option 'x'; rows are given as data=(x, y)"),
    (
        {"data": (X, Y), "batch_size": 32},
        "train: there is no option 'batch_size'; the rows of a step are a size of the program: "
        "program.compile(batch=32)",
    ),
    (
        {"data": (X, Y), "verbose": 0},
        "train: there is no option 'verbose'; progress=True shows the progress, and progress=False nothing",
    ),
]


@pytest.mark.parametrize(("options", "sentence"), REFUSED, ids=[sentence[:40] for _, sentence in REFUSED])
def test_rows_that_do_not_fit_are_one_sentence(options: dict[str, Any], sentence: str):
    run = Run(two_feeds().compile(batch=BATCH))
    assert told((prograd.DataError, prograd.UsageError, prograd.NonFinite), lambda: run.train(**options)) == sentence
    if "NaN" not in sentence:
        assert run.position.steps == 0


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_an_input_without_rows_leaves_the_number_of_rows_free(engine: Any):
    """Weights of classes are the same for all rows, so a smaller last step and an evaluation row by row remain."""
    program = Program("weighted", seed=1)
    x, y = program.input("x", "float32", ("batch", 4)), program.input("y", "int64", ("batch",))
    scores = layers.dense(x, "out", 2)
    program.minimize(ops.cross_entropy(scores, y, program.input("w", "float32", (2,))), sgd(0.1))
    rows = np.arange(40, dtype="float32").reshape(10, 4) / 40
    data = {"x": rows, "y": np.arange(10) % 2, "w": np.array([1, 3], "float32")}
    run = prograd.Run(program.compile(batch=4), engine=engine)
    assert run.train(data=data, epochs=2).steps == 6  # of 4, 4 and 2 rows
    assert np.isfinite(run.evaluate(data)["loss"])
    sizes = [binding.dims[0].size for binding in program.compile(batch=(4, 2)).desc.entries[0].bindings]
    assert sizes == [4, 2]


def test_a_missing_file_of_rows_is_named_unless_arrays_are_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    program = Program("missing")
    x, y = program.input("x", "float32", ("batch", 64)), program.input("y", "int64", ("batch",))
    program.minimize(ops.softmax_cross_entropy(layers.dense(x, "output", 3), y), sgd(0.1))
    program.data("../rows/m.safetensors", splits={"train": "train"}, shuffle=False, remainder="drop")
    compiled = program.compile(batch=32)
    for entry, begin in (("train", Run.train), ("evaluate", Run.evaluate)):
        with pytest.raises(prograd.DataError) as error:
            begin(Run(compiled))
        assert str(error.value) == (
            f"../rows/m.safetensors: no such file; the entry {entry!r} takes its rows from it unless arrays are given"
        )
    assert told(prograd.DataError, lambda: Run(compiled, data="others.safetensors")) == (
        "../rows/m.safetensors: no such file; a program that is not saved needs its own file of rows, also where data= "
        "replaces it; make the file, or leave data= out and give arrays to train and evaluate"
    )
    rows = {"x": np.zeros((64, 64), np.float32), "y": np.zeros(64, np.int64)}
    assert Run(compiled).train(data=rows, epochs=1).steps == 2


@pytest.mark.parametrize("has_data", [False, True])
def test_rows_are_shuffled_and_all_used_whether_a_file_or_a_call_gives_them(
    has_data: bool, engine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    rows = {"x": X, "y": Y}

    def trained(**options: Any) -> tuple[int, str]:
        built = Program("defaults", seed=1)
        x, y = built.input("x", "float32", ("batch", WIDTH)), built.input("y", "int64", ("batch",))
        built.minimize(ops.softmax_cross_entropy(layers.dense(x, "output", 2), y), sgd(0.1))
        if has_data:
            prograd.data.write("rows.safetensors", rows, force=True)
            built.data("rows.safetensors")
        run = Run(built.compile(batch=BATCH), engine=engine)
        return run.train(data=rows, epochs=2, **options).steps, run.states.sha256()

    assert trained()[0] == 2 * (ROWS // BATCH + 1)
    assert trained() == trained(shuffle=True, remainder="partial")
    assert trained() != trained(shuffle=False)
