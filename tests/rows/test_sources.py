"""Rows of a source: the bits of the same rows in memory, runs that go on from its cursor, and an end nobody knew."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from subjects.commands import told
from subjects.small_programs import arrays, linear, rich, save

import runtime
from runtime.rows.source import Iterated


def batches(sizes: tuple[int, ...] = (5, 1, 9, 4, 2, 30, 3)) -> Iterator[dict[str, np.ndarray]]:
    """Rows in pieces of these sizes, over and over."""
    rng = np.random.default_rng(3)
    while True:
        for size in sizes:
            x = rng.normal(size=(size, 3)).astype(np.float32)
            yield {"x": x, "y": x.sum(1)}


def first_rows(count: int) -> dict[str, np.ndarray]:
    source = batches()
    found: list[dict[str, np.ndarray]] = []
    while sum(len(part["x"]) for part in found) < count:
        found.append(next(source))
    return {name: np.concatenate([part[name] for part in found])[:count] for name in ("x", "y")}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return save(rich(), tmp_path, evaluate=None, keep_best=None)


def test_rows_of_an_iterator_train_to_the_bits_of_the_same_rows_in_memory(path):
    wanted = runtime.load(path)
    list(wanted.events(data=first_rows(80), epochs=1, shuffle=False))
    for data in (batches(), batches, Iterated(batches)):
        run = runtime.load(path)
        events = list(run.events(data=data, steps=20))
        assert run.states.sha256() == wanted.states.sha256()
        assert [type(event).__name__ for event in events].count("EpochEnd") == 1


@pytest.mark.parametrize("kind", [tuple, list])
def test_batches_without_names_have_the_order_of_the_inputs(path, kind):
    wanted, run = runtime.load(path), runtime.load(path)
    list(wanted.events(data=batches, steps=9))
    list(run.events(data=lambda: (kind(part.values()) for part in batches()), steps=9))
    assert run.states.sha256() == wanted.states.sha256()
    sentence = f"the rows are of type {kind.__name__}; name the feed of each array, as in {{'x': x, 'label': label}}"
    alone = (kind([part["x"]]) for part in batches())
    assert told(runtime.UsageError, lambda: list(runtime.load(path).events(data=alone, steps=9))) == sentence


def test_an_epoch_of_a_source_has_the_steps_that_it_is_given(path):
    run = runtime.load(path)
    events = list(run.events(data=batches, steps_per_epoch=6))
    assert [event.step for event in events if isinstance(event, runtime.EpochEnd)] == [6, 12, 18]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("stop", [1, 2, 5, 6, 13])
@pytest.mark.parametrize("again", ["function", "iterator"])
def test_a_run_on_a_source_goes_on_from_its_cursor(path, tmp_path, stop, again):
    whole = runtime.load(path)
    list(whole.events(data=batches, steps_per_epoch=6, epochs=3))
    run = runtime.load(path)
    events = run.events(data=batches, steps_per_epoch=6, epochs=3)
    while run.position.steps < stop:
        next(events)
    events.close()
    run.save(tmp_path / "s.safetensors")
    other = runtime.load(path)
    other.resume(tmp_path / "s.safetensors")
    list(other.events(data=batches if again == "function" else batches(), steps_per_epoch=6, epochs=3))
    assert other.states.sha256() == whole.states.sha256()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 5), max_size=8), st.lists(st.integers(1, 7), max_size=12), st.integers(0, 12))
def test_what_an_iterator_gives_after_a_cursor_is_what_it_would_have_given(sizes, takes, at):
    ends = np.cumsum([0, *sizes])

    def parts() -> list[dict[str, np.ndarray]]:
        return [{"n": np.arange(a, b)} for a, b in pairwise(ends)]

    source, seen, cursors = Iterated(parts), [], []
    for rows in takes:
        cursors.append((source.cursor, len(seen)))
        seen += [int(n) for n in source.take(rows).get("n", [])]
    assert seen == list(range(len(seen)))
    if cursors:
        cursor, before = cursors[at % len(cursors)]
        for other in (source, Iterated(parts), Iterated(iter(parts()))):
            other.seek(cursor)
            assert other.cursor == cursor
            found = other.take(3).get("n", np.zeros(0))
            assert found.tolist() == list(range(before, before + len(found)))
            assert len(found) or before == ends[-1]


def test_a_source_that_ends_ends_the_run_with_its_epoch_and_evaluation(tmp_path, caplog):
    caplog.set_level("INFO", "prograd")
    path = save(linear(), tmp_path)
    run = runtime.load(path)
    events = list(run.events(data=[first_rows(30)], steps=20))
    assert [type(event).__name__ for event in events][-2:] == ["EpochEnd", "EvaluationEnd"]
    assert run.position.steps == 7
    assert caplog.messages == ["the source ended after 7 steps of 20, and 2 rows are left"]


def test_a_source_of_your_own_is_asked_for_rows_and_its_cursor(path, tmp_path):
    class Database:
        def __init__(self) -> None:
            self.cursor = "row 0"

        def seek(self, cursor: str) -> None:
            self.cursor = cursor

        def take(self, rows: int) -> dict[str, np.ndarray]:
            at = int(self.cursor.split()[1])
            self.cursor = f"row {at + min(rows, 3)}"
            return {name: array[at : at + min(rows, 3)] for name, array in first_rows(80).items()}

    wanted = runtime.load(path)
    list(wanted.events(data=first_rows(80), epochs=1, shuffle=False))
    run = runtime.load(path)
    events = run.events(data=Database(), steps=20, checkpoint=tmp_path / "c", every=7)
    while run.position.steps < 9:
        next(events)
    events.close()
    other = runtime.load(path)
    other.resume(tmp_path / "c")
    assert (other.position.steps, other.position.cursor) == (7, "row 28")
    list(other.events(data=Database(), steps=20))
    assert other.states.sha256() == wanted.states.sha256()


def test_what_is_wrong_with_a_source_is_one_sentence(path):
    run = runtime.load(path)
    usage, data = runtime.UsageError, runtime.DataError
    assert told(usage, lambda: run.events(data=3)) == (
        "data is of type int: give a split by its name, an array per feed, an iterator of such mappings, "
        "or a source that has take, seek and cursor"
    )
    assert told(usage, lambda: run.events(data="train", steps_per_epoch=3)) == (
        "steps_per_epoch belongs to a source of rows; these have a length, which says it"
    )
    assert told(usage, lambda: run.events(data=batches)) == (
        "a source does not say how many rows it has; say how long to train by steps=, "
        "or by steps_per_epoch= and epochs="
    )
    for wrong, sentence in (
        ([], "the source ended after 0 rows, a step takes 4"),
        ([first_rows(3)], "the source ended after 3 rows, a step takes 4"),
        (iter([3]), "the iterator gives what is of type int, and not arrays by feed"),
        ([{"x": [1.0], "y": [1.0, 2.0]}], "the iterator gives arrays of different numbers of rows, or without rows"),
        (
            [{"x": np.zeros((4, 3), np.float32)}],
            "entry 'train' reads the feed 'y': float32[rows], which is not given; "
            "give an array for each feed, or declare rows by program.data",
        ),
        (
            [{"x": np.zeros((4, 2), np.float32), "y": np.zeros(4, np.float32)}],
            "entry 'train': the feed 'x' is float32[rows, 3], the array given is float32[4, 2]",
        ),
    ):
        assert told(data, lambda wrong=wrong: list(runtime.load(path).events(data=wrong, steps=5))) == sentence
    source = Iterated(batches())
    for _ in range(3):
        source.take(50)
    assert told(data, lambda: source.seek([1, 0])) == (
        "the iterator has given 3 batches already, and the run goes on after 1; give a function that makes it anew"
    )
    assert told(data, lambda: source.seek("x")) == (
        "the checkpoint has another cursor than an iterator; resume with the source that wrote it"
    )
    assert told(data, lambda: Iterated([first_rows(4)]).seek([2, 0])) == (
        "the iterator ends after 1 batches, and the run goes on after 2"
    )


def test_nan_in_the_rows_of_a_source_is_named_with_its_row(path):
    rows = first_rows(40)
    rows["x"][9, 1] = np.nan
    found = told(runtime.NonFinite, lambda: list(runtime.load(path).events(data=[rows], steps=5)))
    assert found.startswith("step 3: row 9 of the epoch has NaN or Inf in the feed 'x': loss is nan")


def test_arrays_of_float64_feed_float32_and_that_is_said(path, caplog):
    caplog.set_level("INFO", "prograd")
    given = {name: arrays()[name].astype(np.float64) for name in ("x", "y")}
    run = runtime.load(path)
    list(run.events(data=given | {"y": arrays()["y"]}, steps=3))
    assert caplog.messages[0] == (
        "entry 'train': the array for the feed 'x' is float64 and is rounded to float32, which the feed takes"
    )
    wanted = runtime.load(path)
    list(wanted.events(data={name: arrays()[name] for name in ("x", "y")}, steps=3))
    assert run.states.sha256() == wanted.states.sha256()
