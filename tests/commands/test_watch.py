"""`--watch`: histograms of parameters in a file of metrics."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from subjects.commands import run_runtime as run
from subjects.small_programs import linear, rich, save

import runtime
from runtime.commands.watched import BINS, PIECE, histogram
from runtime.pictures.reports import read_curves
from runtime.runs.events import EpochEnd

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    save(rich(), tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("size", [1, 1000, PIECE + 5])
def test_counts_are_those_of_numpy(size: int):
    array = np.random.default_rng(3).normal(size=size).astype(np.float32)
    found = histogram(array)
    bins = np.linspace(array.min(), array.max(), BINS + 1, dtype=np.float64)
    expected = np.histogram(array.astype(np.float64), bins)[0] if size > 1 else [1] + [0] * (BINS - 1)
    assert (found["low"], found["high"], found["not_finite"]) == (array.min(), array.max(), 0)
    np.testing.assert_allclose(np.cumsum(found["counts"]), np.cumsum(expected), atol=1)


@pytest.mark.parametrize(
    ("values", "low", "high", "not_finite"),
    [([], 0, 0, 0), ([np.nan], 0, 0, 1), ([2, np.inf, 2], 2, 2, 1), ([-1.7e308, 1.7e308], -1.7e308, 1.7e308, 0)],
)
def test_odd_arrays_have_histograms(values: list[float], low: float, high: float, not_finite: int):
    found = histogram(np.array(values, np.float64))
    assert (found["low"], found["high"], found["not_finite"]) == (low, high, not_finite)
    assert sum(found["counts"]) == len(values) - not_finite


def lines(file: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in Path(file).read_text().splitlines()]


def test_each_epoch_has_the_histogram_of_its_end_and_all_else_stays(folder: Path, capsys: Capture):
    name = runtime.load("p.pb").program.states[3].name
    assert run(capsys, "execute", "p.pb", "-q", "--metrics", "a.jsonl")[0] == 0
    assert run(capsys, "execute", "p.pb", "-q", "--metrics", "b.jsonl", "--watch", name)[0] == 0
    found = [line for line in lines("b.jsonl") if line["event"] == "histogram"]
    assert [line for line in lines("b.jsonl") if line["event"] != "histogram"] == lines("a.jsonl")
    again = runtime.load("p.pb")
    expected = [
        {"event": "histogram", "epoch": event.epoch, "step": event.step, "state": name}
        | histogram(again.states.arrays[name])
        for event in again.train()
        if isinstance(event, EpochEnd)
    ]
    assert len(expected) > 1
    assert found == expected
    assert [c.values for c in read_curves(Path("b.jsonl"), "")] == [c.values for c in read_curves(Path("a.jsonl"), "")]


def test_a_resumed_run_ends_with_the_same_file(folder: Path, capsys: Capture):
    words = ("execute", "p.pb", "-q", "--watch", "*")
    assert run(capsys, *words, "--metrics", "a.jsonl")[0] == 0
    assert run(capsys, *words, "--metrics", "b.jsonl", "--checkpoint", "c")[0] == 0
    newest = sorted(Path("c").iterdir(), key=lambda path: path.stat().st_mtime_ns)[-1]
    newest.unlink()
    assert run(capsys, *words, "--metrics", "b.jsonl", "--checkpoint", "c", "--resume")[0] == 0
    assert Path("a.jsonl").read_bytes() == Path("b.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--watch", "w"], "--watch writes histograms into a .jsonl file of metrics; name one"),
        (["--watch", "w", "--metrics", "m.csv"], "--watch writes histograms into a .jsonl file of metrics; name one"),
        (["--watch", "ww", "--metrics", "m.jsonl"], "--watch ww: no parameter matches; did you mean 'w'?"),
    ],
)
def test_what_cannot_be_watched_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, words: list[str], sentence: str
):
    save(linear(), tmp_path)
    monkeypatch.chdir(tmp_path)
    assert run(capsys, "execute", "p.pb", *words) == (2, [], f"runtime: {sentence}\n")
    assert not list(tmp_path.glob("m.*"))
