"""Rows of unequal length: each once an epoch, in the shortest step that holds it, padded, and the same when resumed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from subjects.commands import told

import prograd
import runtime
from compiler import CompileError, Program, ops, sgd, zeros
from runtime.rows.stored_column import StoredColumn

LENGTHS = (3, 6, 12)
BATCH, ROWS, TEST = 4, 45, 10


def unequal(seed=0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.integers(1, 50, int(n)) for n in rng.integers(0, 13, ROWS)]


def write(folder, rows, **changes):
    lengths = [len(row) for row in rows]
    arrays = {
        "text": np.concatenate(rows),
        "text.offsets": np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        "number": np.arange(ROWS),
        "y": np.array([row.sum() for row in rows], np.float32) / 100,
        "train": np.arange(ROWS - TEST),
        "test": np.arange(ROWS - TEST, ROWS),
    }
    arrays |= changes
    save_file({name: array for name, array in arrays.items() if array is not None}, folder / "r.safetensors")


def built(*, remainder="partial", shuffle=True) -> Program:
    """A sum over each row's elements, which a mask tells from padding."""
    program = Program("ragged", seed=7)
    text = program.input("text", "int64", ("n", "length"))
    mask = program.input("mask", "float32", ("n", "length"))
    lengths = program.input("lengths", "int32", ("n",))
    number, y = program.input("number", "int64", ("n",)), program.input("y", "float32", ("n",))
    w = program.parameter("w", (), zeros())
    values = ops.cast(text, dtype="float32") * mask
    guess = ops.sum(values, axis=(1,)) * w
    program.minimize(ops.squared_error(guess, y), sgd(1e-5))
    program.fetch("seen", number)
    program.entry("predict", guess=guess, values=values, lengths=lengths, text=text)
    columns = {"mask": "text.mask", "lengths": "text.lengths"}
    splits = {"train": "train", "test": "test"}
    program.data("r.safetensors", columns=columns, splits=splits, shuffle=shuffle, remainder=remainder)
    program.training(epochs=3, evaluate="test")
    return program


def saved(folder, **options):
    path = folder / "p.pb"
    built(**options).compile(n=BATCH, length=LENGTHS, folder=path.parent).save(path, force=True)
    return path


@pytest.fixture
def rows(tmp_path):
    rows = unequal()
    write(tmp_path, rows)
    return rows


def steps_of(run, **options):
    """For each step of a training, the rows that it took and how long they were."""
    found = []
    step = run.session.stepper.step

    def noted(executor, **options):
        if "number" in executor.feeds:  # which training alone reads
            found.append((executor.feeds["number"].tolist(), executor.feeds["text"].shape[1]))
        step(executor, **options)

    run.session.stepper.step = noted
    for _ in run.events(**options):
        pass
    return found


def test_every_row_is_taken_once_an_epoch_by_a_step_that_holds_it(tmp_path, rows):
    found = steps_of(runtime.load(saved(tmp_path)))
    per_epoch = -(-(ROWS - TEST) // BATCH)
    assert len(found) == 3 * per_epoch
    epochs = [found[i : i + per_epoch] for i in range(0, len(found), per_epoch)]
    for epoch in epochs:
        assert sorted(number for numbers, _ in epoch for number in numbers) == list(range(ROWS - TEST))
        assert {length for _, length in epoch} == set(LENGTHS)
        moved = 0
        for numbers, length in epoch:
            lengths = [len(rows[number]) for number in numbers]
            assert max(lengths) <= length
            moved += sum(next(one for one in LENGTHS if one >= own) < length for own in lengths)
        assert moved <= (BATCH - 1) * (len(LENGTHS) - 1), "only what fills no step of its length goes to a longer one"
    assert len({str(epoch) for epoch in epochs}) == 3
    lengths = [length for _, length in epochs[0]]
    assert lengths != sorted(lengths), "steps are shuffled as well"


def test_without_shuffling_rows_stand_in_their_order_by_length(tmp_path, rows):
    found = steps_of(runtime.load(saved(tmp_path, shuffle=False)), epochs=1)
    assert [length for _, length in found] == sorted(length for _, length in found)
    own = [number for number in range(ROWS - TEST) if len(rows[number]) <= LENGTHS[0]]
    assert [n for numbers, length in found if length == LENGTHS[0] for n in numbers] == own[: len(own) // BATCH * BATCH]


def test_windows_are_not_for_rows_of_unequal_length_and_that_is_said(tmp_path, rows, caplog):
    with caplog.at_level("INFO"):
        found = steps_of(runtime.load(saved(tmp_path, shuffle=16)))
    said = "rows of unequal length are shuffled all together, not within windows of 16 rows"
    assert [message for message in caplog.messages if "windows" in message] == [said]
    caplog.clear()
    with caplog.at_level("INFO"):
        assert steps_of(runtime.load(saved(tmp_path))) == found
    assert not [message for message in caplog.messages if "windows" in message]


@pytest.mark.thorough
@pytest.mark.parametrize("remainder", ["drop", "partial"])
def test_a_run_that_is_resumed_anywhere_takes_the_same_rows(tmp_path, rows, remainder):
    path = saved(tmp_path, remainder=remainder)
    whole = runtime.load(path)
    wanted = steps_of(whole)
    for stop in (1, 7, 9, 13):
        first = runtime.load(path)
        events = first.events()
        while first.position.steps < stop:
            next(events)
        events.close()
        first.save(tmp_path / "c", force=True)
        second = runtime.load(path)
        second.resume(tmp_path / "c")
        assert steps_of(second) == wanted[stop:]
        assert second.states.sha256() == whole.states.sha256()


def test_training_and_evaluation_are_those_of_rows_one_by_one(tmp_path, rows):
    run = runtime.load(saved(tmp_path))
    y = [row.sum() / 100 for row in rows]
    w = 0.0
    for numbers, _ in steps_of(runtime.load(tmp_path / "p.pb"), epochs=2):
        w -= 1e-5 * np.mean([2 * (rows[n].sum() * w - y[n]) * rows[n].sum() for n in numbers])
    for _ in run.events(epochs=2):
        pass
    assert run.state["w"] == pytest.approx(w, rel=1e-4)
    error = np.mean([(rows[n].sum() * w - y[n]) ** 2 for n in range(ROWS - TEST, ROWS)])
    assert run.evaluate("test")["loss"] == pytest.approx(error, rel=1e-3)


def test_predictions_of_lists_stand_in_their_order_with_zeros_behind_the_short_ones(tmp_path, rows):
    run = runtime.load(saved(tmp_path))
    run.state["w"] = np.float32(1)
    found = run.predict({"text": [row.tolist() for row in rows[:9]]})
    assert found["guess"].tolist() == [row.sum() for row in rows[:9]]
    assert found["lengths"].tolist() == [len(row) for row in rows[:9]]
    assert found["values"].shape == (9, LENGTHS[-1])
    for row, values in zip(rows, found["values"], strict=False):
        assert values.tolist() == [*row.tolist(), *[0] * (LENGTHS[-1] - len(row))]
    one = run.predict({"text": [[1, 2]]})
    assert (one["guess"].tolist(), one["values"].shape) == ([3], (1, LENGTHS[-1]))


def test_arrays_of_one_of_the_lengths_are_computed_by_its_steps(tmp_path, rows):
    run = runtime.load(saved(tmp_path))
    for length in LENGTHS:
        text = np.arange(5 * length).reshape(5, length)
        given = {"text": text, "mask": np.ones((5, length), np.float32), "lengths": np.full(5, length, np.int32)}
        assert run.predict(given)["text"].tolist() == text.tolist()
    given = {"text": np.zeros((5, 4), np.int64), "mask": np.ones((5, 4), np.float32), "lengths": np.zeros(5, np.int32)}
    with pytest.raises(runtime.DataError) as caught:
        run.predict(given)
    assert str(caught.value) == ("entry 'predict': the feed 'text' is int64[rows, 12], the array given is int64[5, 4]")


def test_the_padding_is_the_one_that_the_file_says(tmp_path):
    rows = unequal()
    write(tmp_path, rows, **{"text.padding": np.array(-7)})
    run = runtime.load(saved(tmp_path))
    seen = []
    step = run.session.stepper.step
    run.session.stepper.step = lambda executor: (seen.append(executor.feeds["text"].copy()), step(executor))
    run.evaluate("test")
    assert {int(number) for text in seen for row in text for number in row} & {-7, 0} == {-7}


def test_values_that_stay_in_their_file_are_the_same(tmp_path, rows, monkeypatch):
    path = saved(tmp_path)
    wanted = steps_of(runtime.load(path))
    monkeypatch.setattr("runtime.rows.data_files.IN_MEMORY", 100)
    run = runtime.load(path)
    assert isinstance(run.session.rows("train", "train").columns["text"]._values, StoredColumn)
    assert steps_of(run) == wanted
    whole = runtime.load(path)
    list(whole.events())
    assert run.states.sha256() == whole.states.sha256()


def test_a_program_of_one_length_takes_unequal_rows_too(tmp_path, rows):
    program = built()
    program.compile(n=BATCH, length=12, folder=tmp_path).save(tmp_path / "q.pb")
    run = prograd.load(tmp_path / "q.pb")
    found = steps_of(run, epochs=1)
    assert sorted(number for numbers, _ in found for number in numbers) == list(range(ROWS - TEST))


FAULTS = {
    "too long": (
        {},
        "row 0 of the feed 'text' has 11 elements, and the longest that the entry 'train' takes is 6; "
        "compile the program with a longer one, or cut the row",
    ),
    "offsets fall": (
        {"text.offsets": np.arange(ROWS + 1)[::-1].copy()},
        "text.offsets does not rise from 0 to 246, the number of elements that 'text' has in all",
    ),
    "offsets of another dtype": (
        {"text.offsets": np.zeros(ROWS + 1, np.int32)},
        "text.offsets is no int64 array of one axis, with a number more than there are rows",
    ),
    "padding of another dtype": (
        {"text.padding": np.zeros((), np.float32)},
        "text.padding is no number of the dtype of 'text', int64",
    ),
    "fewer rows": ({"number": np.arange(3)}, "the columns differ in their number of rows: 'text' has 45, 'number' 3"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_file_that_does_not_fit_is_refused_in_a_sentence(tmp_path, fault):
    changes, sentence = FAULTS[fault]
    write(tmp_path, unequal(), **changes)
    path = tmp_path / "p.pb"
    longest = LENGTHS[:2] if fault == "too long" else LENGTHS
    built().compile(n=BATCH, length=longest, folder=path.parent).save(path)
    with pytest.raises(runtime.DataError) as caught:
        runtime.load(path).events()
    assert str(caught.value).removeprefix(f"{tmp_path / 'r.safetensors'}: ") == sentence


def test_a_column_that_does_not_fit_is_refused_when_the_program_is_saved(tmp_path):
    write(tmp_path, unequal(), text=np.zeros((200, 2), np.int64))
    with pytest.raises(CompileError) as caught:
        saved(tmp_path)
    path = tmp_path / "r.safetensors"
    assert str(caught.value) == f"data: {path}: 'text' has the shape [200, 2], and the input 'text' is int64[4, 12]"
    write(tmp_path, unequal(), **{"text.offsets": None})
    with pytest.raises(CompileError) as caught:
        saved(tmp_path)
    assert "there is no key 'text.lengths' in the file" in str(caught.value) or "'text.mask'" in str(caught.value)


def test_there_are_not_too_many_lengths():
    with pytest.raises(CompileError, match="rows of 65 lengths; there are at most 64"):
        built().compile(n=BATCH, length=tuple(range(1, 66)))


def test_only_one_axis_of_a_row_is_unequal():
    program = Program()
    x = program.input("x", "float32", ("n", "length", "width"))
    program.outputs(y=x * 2.0)
    run = runtime.Run(program.compile(n=2, length=(2, 4), width=(3, 5)))
    rows = [np.ones((1, 5), np.float32), np.ones((3, 5), np.float32)]
    assert told(runtime.DataError, lambda: run.predict({"x": rows})) == (
        "entry 'predict': the elements of the feed 'x' have the shape [5], and steps of one length take [3]; "
        "only axis 1 of a row may be unequal"
    )
    assert run.predict(np.ones((3, 2, 3), np.float32))["y"].shape == (3, 2, 3)


def test_rows_of_unequal_length_are_written_and_their_offsets_checked(tmp_path: Path):
    text, label = np.arange(6), np.array([0, 1])
    arrays = {"text": text, "text.offsets": np.array([0, 2, 6]), "text.padding": np.array([9]), "label": label}
    prograd.data.write(tmp_path / "rows.safetensors", arrays, splits={"train": [1]})
    assert {name: array.tolist() for name, array in load_file(tmp_path / "rows.safetensors").items()} == {
        name: array.tolist() for name, array in arrays.items()
    } | {"train": [1]}
    with pytest.raises(runtime.DataError) as refused:
        prograd.data.write(tmp_path / "other.safetensors", arrays | {"text.offsets": np.array([0, 2, 5])})
    assert str(refused.value) == (
        "text.offsets does not rise from 0 to 6, the number of elements that 'text' has in all"
    )
    with pytest.raises(runtime.DataError) as refused:
        prograd.data.write(tmp_path / "other.safetensors", arrays | {"label": np.arange(3)})
    assert str(refused.value) == "the arrays differ in their number of rows: 'text' has 2, 'label' 3"
