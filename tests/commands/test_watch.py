"""`--watch`: histograms of parameters and gradients in a file of metrics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from subjects.commands import fields
from subjects.commands import run_runtime as run
from subjects.small_programs import linear, save

import runtime
from prograd import Program, constant, global_norm, ops, sgd
from runtime.commands.plot import MOST_WATCHED
from runtime.commands.reports.watched import HISTOGRAM_BINS, PIECE_ELEMENTS, histogram
from runtime.commands.verbs.command import COMMAND
from runtime.dtypes import BFLOAT16
from runtime.pictures.drawings import page
from runtime.pictures.reports import QUANTILES, read_curves, read_spreads
from runtime.runs.events import EpochEnd, StepEnd

Capture = pytest.CaptureFixture[str]
NOWHERE = "--watch writes histograms into a .jsonl file of metrics or a folder of --tensorboard; name one"


@pytest.mark.parametrize("size", [1, 1000, PIECE_ELEMENTS + 5])
def test_counts_are_those_of_numpy(size: int):
    array = np.random.default_rng(3).normal(size=size).astype(np.float32)
    found = histogram(array)
    bins = np.linspace(array.min(), array.max(), HISTOGRAM_BINS + 1, dtype=np.float64)
    expected = np.histogram(array.astype(np.float64), bins)[0] if size > 1 else [1] + [0] * (HISTOGRAM_BINS - 1)
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


def test_half_floats_are_counted_by_their_numbers():
    found = histogram(np.array([0x3F80, 0x4000], np.uint16).view(BFLOAT16))
    assert (found["low"], found["high"], found["counts"][0], found["counts"][-1]) == (1.0, 2.0, 1, 1)


def lines(file: str) -> list[dict[str, Any]]:
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
        for event in again.events()
        if isinstance(event, EpochEnd)
    ]
    assert len(expected) > 1
    assert [line for line in found if "state" in line] == expected
    assert [(line["step"], line["gradient"]) for line in found if "gradient" in line] == [
        (line["step"], name) for line in expected
    ]
    assert [c.values for c in read_curves(Path("b.jsonl"), "")] == [c.values for c in read_curves(Path("a.jsonl"), "")]


def test_a_resumed_run_ends_with_the_same_file(folder: Path, capsys: Capture):
    words = ("execute", "p.pb", "-q", "--watch", "*")
    assert run(capsys, *words, "--metrics", "a.jsonl")[0] == 0
    assert run(capsys, *words, "--metrics", "b.jsonl", "--checkpoint", "c")[0] == 0
    newest = sorted(Path("c").iterdir(), key=lambda path: path.stat().st_mtime_ns)[-1]
    newest.unlink()
    assert run(capsys, *words, "--metrics", "b.jsonl", "--checkpoint", "c", "--resume")[0] == 0
    assert Path("a.jsonl").read_bytes() == Path("b.jsonl").read_bytes()


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_a_gradient_is_what_the_last_step_of_an_epoch_followed(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
):
    save(linear(rate=0.25), tmp_path)
    monkeypatch.chdir(tmp_path)
    words = ("execute", "p.pb", "-q", "--engine", engine)
    plain = run(capsys, *words)
    watched = run(capsys, *words, "--metrics", "m.jsonl", "--watch", "*")
    assert fields(plain[1][-1])["state_sha256"] == fields(watched[1][-1])["state_sha256"]
    expected: list[tuple[int, str, float, float]] = []
    again = runtime.load("p.pb", engine="native" if engine == "native" else "reference")
    before = after = {"w": np.zeros(3), "b": np.zeros(())}
    for event in again.events():
        if isinstance(event, StepEnd):
            before, after = after, {name: again.state[name].astype(np.float64) for name in ("w", "b")}
        elif isinstance(event, EpochEnd):
            went = {name: (before[name] - after[name]) / 0.25 for name in ("w", "b")}
            expected += [(event.step, name, went[name].min(), went[name].max()) for name in ("w", "b")]
    found = [line for line in lines("m.jsonl") if "gradient" in line]
    assert [(line["step"], line["gradient"]) for line in found] == [line[:2] for line in expected]
    for line, (_, _, low, high) in zip(found, expected, strict=True):
        assert (line["low"], line["high"]) == pytest.approx((low, high), rel=1e-4, abs=1e-5)


def test_a_gradient_that_is_clipped_or_that_two_parameters_share_is_found_and_a_frozen_one_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
):
    program = Program("shared", seed=1)
    x, y = program.input("x", "float32", ("batch", 3)), program.input("y", "float32", ("batch",))
    a, b, frozen = (program.parameter(name, (3,)) for name in ("a", "b", "frozen"))
    program.minimize(
        ops.squared_error(ops.sum(x * a + (x * b + frozen), axis=(1,)), y), sgd(0.1), clip=global_norm(0.1)
    )
    program.freeze("frozen")
    save(program, tmp_path)
    monkeypatch.chdir(tmp_path)
    assert run(capsys, "execute", "p.pb", "-q", "--metrics", "m.jsonl", "--watch", "*")[::2] == (0, "")
    found = [line for line in lines("m.jsonl") if line["event"] == "histogram" and line["epoch"] == 1]
    assert [line["state"] for line in found if "state" in line] == ["a", "b", "frozen"]
    first, second = (line for line in found if "gradient" in line)
    assert (first["gradient"], second["gradient"]) == ("a", "b")
    assert first | {"gradient": "b"} == second
    assert first["counts"] != [0] * HISTOGRAM_BINS


def test_a_gradient_that_is_no_tensor_is_said_to_be_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
):
    program = linear()
    c = program.parameter("c", (), constant(1.0))
    program.update(c, c * 0.5)
    save(program, tmp_path)
    monkeypatch.chdir(tmp_path)
    code, _, err = run(capsys, "execute", "p.pb", "-q", "--metrics", "m.jsonl", "--watch", "*")
    sentence = "--watch: the gradient of 'c' is no tensor of the compiled step, and is not watched"
    assert (code, err) == (0, f"runtime: {sentence}\n")
    assert {line.get("gradient") for line in lines("m.jsonl")} == {None, "w", "b"}


def test_histograms_go_to_tensorboard_alone_and_never_into_a_csv_file(folder: Path, capsys: Capture):
    pytest.importorskip("tensorboardX")
    assert run(capsys, "execute", "p.pb", "-q", "--metrics", "a.csv")[0] == 0
    words = ("execute", "p.pb", "-q", "--watch", "w", "--tensorboard", "board")
    assert run(capsys, *words, "--metrics", "b.csv")[0] == 0
    assert Path("a.csv").read_bytes() == Path("b.csv").read_bytes()
    assert run(capsys, *words, "--force")[0] == 0
    [path] = Path("board").iterdir()
    assert b"gradient/w" in path.read_bytes()


def test_what_was_watched_is_drawn_by_shares_of_elements(folder: Path, capsys: Capture):
    array = np.random.default_rng(1).normal(size=5000).astype(np.float32)
    line = {"event": "histogram", "epoch": 1, "step": 7, "gradient": "w"} | histogram(array)
    Path("m.jsonl").write_text("".join(json.dumps(line | {"step": step}) + "\n" for step in (7, 14)))
    [spread] = read_spreads(Path("m.jsonl"), "m")
    assert (spread.name, spread.steps) == ("gradient of w", [7, 14])
    expected = np.quantile(array, [0, *QUANTILES, 1])
    np.testing.assert_allclose(spread.numbers, [expected, expected], atol=(array.max() - array.min()) / HISTOGRAM_BINS)
    [axes] = page([], [], [spread]).axes
    assert axes.get_title() == "gradient of w"
    assert len(axes.collections) == 3


def test_plot_takes_histograms_beside_curves_and_chooses_by_pattern(folder: Path, capsys: Capture):
    assert run(capsys, "execute", "p.pb", "-q", "--metrics", "m.jsonl", "--watch", "*")[0] == 0
    for words, counts in (
        ((), ("10", "2")),
        (("--metric", "loss"), ("3", "0")),
        (("--metric", "loss", "--watch", "w"), ("3", "2")),
    ):
        code, out, err = run(capsys, "plot", "m.jsonl", *words, "-o", "m.svg", "--force")
        assert (code, err, fields(out[0])["curves"], fields(out[0])["histograms"]) == (0, "", *counts)
    assert ">gradient of w<" in Path("m.svg").read_text()
    code, _, err = run(capsys, "plot", "m.jsonl", "--watch", "ww", "-o", "n.svg")
    assert (code, err) == (2, "runtime: --watch ww: no file has histograms of it; did you mean 'w'?\n")
    Path("bad.jsonl").write_text(Path("m.jsonl").read_text() + '{"event": "histogram", "step": 3}\n')
    code, _, err = run(capsys, "plot", "bad.jsonl", "-o", "n.svg")
    number = len(Path("bad.jsonl").read_text().splitlines())
    assert (code, err) == (4, f"runtime: bad.jsonl: line {number} is no histogram of execute --watch\n")


@pytest.mark.thorough
def test_many_histograms_are_cut_and_that_is_said(folder: Path, capsys: Capture):
    assert run(capsys, "execute", "p.pb", "-q", "--epochs", "1", "--metrics", "m.jsonl", "--watch", "*")[0] == 0
    text = Path("m.jsonl").read_text()
    one = next(line for line in lines("m.jsonl") if "gradient" in line)
    more = [json.dumps(one | {"gradient": f"s{i}"}) for i in range(40)]
    Path("m.jsonl").write_text(text + "".join(f"{line}\n" for line in more))
    total = len(read_spreads(Path("m.jsonl"), ""))
    code, out, err = run(capsys, "plot", "m.jsonl", "--metric", "loss", "--watch", "*", "-o", "m.svg")
    said = f"runtime: {MOST_WATCHED} of {total} histograms are drawn; --watch PATTERN chooses others\n"
    assert (code, fields(out[0])["histograms"], err) == (0, str(MOST_WATCHED), said)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--watch", "w"], NOWHERE),
        (["--watch", "w", "--metrics", "m.csv"], NOWHERE),
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


def test_verbs_that_write_no_metrics_do_not_offer_histograms():
    verbs = [verb.name for verb in COMMAND.verbs.values() if any("--watch" in o.flags for o in verb.options)]
    assert verbs == ["execute", "plot"]
