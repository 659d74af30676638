"""The verb `plot`: curves of runs and tables of metrics in one picture."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import fromstring

import numpy as np
import pytest
from subjects.commands import fields
from subjects.commands import run_runtime as run
from subjects.small_programs import rich, save

from prograd_proto.wording import install_hint
from runtime.commands.plot import _names as run_names  # pyright: ignore[reportPrivateUsage]
from runtime.pictures.drawings import Table, page
from runtime.pictures.reports import Curve, Spread, read_curves


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    save(rich(), tmp_path)
    monkeypatch.chdir(tmp_path)
    for name in ("a.jsonl", "b.csv"):
        assert run(capsys, "execute", "p.pb", "-q", "--metrics", name)[0] == 0
    return tmp_path


def test_both_kinds_of_files_have_the_same_curves(folder: Path):
    one = {(c.metric, c.of): (c.steps, c.values, c.best) for c in read_curves(Path("a.jsonl"), "a")}
    other = {(c.metric, c.of): (c.steps, c.values, c.best) for c in read_curves(Path("b.csv"), "b")}
    assert one == other
    steps, values, _ = one["loss", "test"]
    assert steps == [7, 14, 21]
    assert values[0] > values[2]
    assert len(one["loss", "steps"][0]) == 21
    assert [c.best for c in read_curves(Path("a.jsonl"), "a") if c.of == "test"] == [21, 21]


@pytest.mark.thorough
@pytest.mark.parametrize("suffix", ["svg", "png", "html"])
def test_several_runs_are_one_picture_with_the_same_bytes_each_time(folder: Path, capsys, suffix):
    for name in ("one", "two"):
        code, out, err = run(capsys, "plot", "a.jsonl", "b.csv", "-o", f"{name}.{suffix}")
        assert (code, err) == (0, "")
        assert {name: fields(out[0])[name] for name in ("runs", "tables")} == {"runs": "2", "tables": "0"}
    content = (folder / f"one.{suffix}").read_bytes()
    assert content == (folder / f"two.{suffix}").read_bytes()
    if suffix == "png":
        assert content.startswith(b"\x89PNG")
        return
    text = content.decode()
    assert suffix == "svg" or (text.startswith("<!doctype html>") and "<script" not in text)
    drawn = fromstring(text if suffix == "svg" else text[text.index("<svg") : text.index("</svg>") + 6])
    words = {element.text for element in drawn.iter() if element.tag.endswith("}text")}
    assert {"loss", "mean", "a, epochs", "b, epochs", "a, test", "step"} <= words


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["a/x.csv", "b/y.csv"], ["x", "y"]),
        (["log.csv", "log.jsonl"], ["log.csv", "log.jsonl"]),
        (["a/log.csv", "b/log.csv"], ["a/log", "b/log"]),
        (["a/log.csv", "a/log.jsonl", "b/log.csv"], ["a/log.csv", "a/log.jsonl", "b/log.csv"]),
    ],
)
def test_runs_have_different_names(paths: list[str], names: list[str]):
    assert run_names([Path(path) for path in paths]) == names


def test_files_of_one_stem_have_colours_and_names_of_their_own(folder: Path, capsys):
    Path("b.csv").rename("a.csv")
    assert run(capsys, "plot", "a.jsonl", "a.csv", "-o", "m.svg", "--metric", "loss")[0] == 0
    text = (folder / "m.svg").read_text()
    words = {element.text for element in fromstring(text).iter() if element.tag.endswith("}text")}
    assert {"a.jsonl, epochs", "a.csv, epochs", "a.jsonl, test", "a.csv, test"} <= words
    assert {"#3366cc", "#dc3912"} <= {colour for colour in ("#3366cc", "#dc3912") if colour in text}


def test_files_of_before_without_splits_are_still_read(folder: Path):
    Path("old.csv").write_text("event,epoch,step,loss,evaluate.loss\nepoch,1,7,0.5,\nevaluation,1,7,,0.25\n")
    assert [(c.metric, c.of, c.values) for c in read_curves(Path("old.csv"), "old")] == [
        ("loss", "epochs", [0.5]),
        ("loss", "evaluation", [0.25]),
    ]


def test_one_metric_is_drawn_alone(folder: Path, capsys):
    code, out, _ = run(capsys, "plot", "a.jsonl", "--metric", "mean", "-o", "m.svg")
    assert (code, fields(out[0])["curves"]) == (0, "3")
    assert ">loss<" not in (folder / "m.svg").read_text()


def test_tables_are_confusion_matrices_and_roc_curves():
    figure = page(
        [], [Table("confusion", np.array([[3, 1], [0, 0]])), Table("roc", np.array([[0, 0], [0.5, 1], [1, 1]]))]
    )
    matrix, roc = figure.axes
    assert [text.get_text() for text in matrix.texts] == ["3", "1", "0", "0"]
    np.testing.assert_allclose(matrix.images[0].get_array(), [[0.75, 0.25], [0, 0]])
    assert roc.get_legend_handles_labels()[1] == ["area 0.7500"]


def test_what_cannot_be_drawn_is_said_in_a_sentence(folder: Path, capsys):
    np.save("t.npy", np.zeros((2, 3)))
    Path("bad.jsonl").write_text('{"event": "epoch", "step": 1, "loss": 2}\n{"event": "epoch"}\n')
    Path("text.jsonl").write_text("loss 3\n")
    Path("empty.csv").write_text("event,epoch,step\n")
    kinds = "there is a picture of confusion matrices, whole numbers[classes, classes], and of ROC curves, "
    kinds += "shares[points, 2]"
    wrong = [
        (["a.jsonl", "-o", "x.pdf"], 2, "x.pdf: a picture is called *.svg, *.png, *.html"),
        (
            ["a.jsonl", "-o", "a.svg", "--metric", "los"],
            2,
            "--metric los: no file has this metric; did you mean 'loss'?",
        ),
        (["t.npy", "-o", "a.svg"], 4, f"t: {kinds}; this is float64[2, 3]"),
        (["bad.jsonl", "-o", "a.svg"], 4, "bad.jsonl: line 2 is no step, epoch or evaluation of execute --metrics"),
        (["text.jsonl", "-o", "a.svg"], 4, "text.jsonl: this cannot be read as a jsonl file: Expecting value"),
        (["empty.csv", "-o", "a.svg"], 4, "empty.csv: there is no metric in the file"),
        (["none.csv", "-o", "a.svg"], 4, "none.csv: no such file"),
        (
            ["p.pb", "-o", "a.svg"],
            2,
            "p.pb: metrics are drawn from .jsonl and .csv files, tables of metrics from .npy files",
        ),
    ]
    for words, code, sentence in wrong:
        found, _, err = run(capsys, "plot", *words)
        assert (found, err[: len(sentence) + 9]) == (code, f"runtime: {sentence}")
    assert not list(folder.glob("*.svg"))


def test_matplotlib_is_imported_for_plots_alone_and_named_where_it_is_missing(folder: Path, capsys, monkeypatch):
    code = "import sys, runtime.__main__ as m; m.main(['execute', 'p.pb', '-q']); print('matplotlib' in sys.modules)"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.stdout.splitlines()[-1] == "False"
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    code, _, err = run(capsys, "plot", "a.jsonl", "-o", "a.svg")
    assert (code, err) == (2, f"runtime: runtime plot needs the package matplotlib: {install_hint('plot')}\n")


def curve(metric: str, of: str, steps: list[int], values: list[float]) -> Curve:
    return Curve("a", metric, of, [*steps], values, None)


def drawn_lines(curves: list[Curve]) -> list[tuple[list[float], list[float]]]:
    [axes] = page(curves, []).axes
    return [(line.get_xdata().tolist(), line.get_ydata().tolist()) for line in map(as_arrays, axes.lines)]


def as_arrays(line: Any) -> Any:
    line.set_data(*map(np.asarray, line.get_data()))
    return line


def test_steps_have_their_running_mean_and_an_epoch_is_drawn_in_its_middle():
    values = [float(value) for value in np.random.default_rng(0).normal(size=100)]
    means = [float(np.mean(values[start : start + 25])) for start in range(0, 100, 25)]
    raw, smooth, epochs = drawn_lines(
        [curve("loss", "steps", [*range(1, 101)], values), curve("loss", "epochs", [25, 50, 75, 100], means)]
    )
    assert raw[1] == values
    assert smooth[1][50] == pytest.approx(np.mean(values[48:53]))
    assert smooth[1][0] == values[0]
    assert epochs == ([13, 38, 63, 88], means)
    assert len(drawn_lines([curve("loss", "steps", [*range(1, 11)], values[:10])])) == 1


def test_a_rate_is_drawn_by_its_steps_alone():
    rates = [1 / step for step in range(1, 61)]
    lines = drawn_lines(
        [curve("rate", "steps", [*range(1, 61)], rates), curve("rate", "epochs", [30, 60], [1 / 30, 1 / 60])]
    )
    assert [len(x) for x, _ in lines] == [60, 60]  # the rates and their running mean
    assert drawn_lines([curve("rate", "epochs", [30, 60], [1 / 30, 1 / 60])])[0] == ([15.5, 45.5], [1 / 30, 1 / 60])


def test_first_steps_and_single_spikes_do_not_decide_the_range():
    values = [1000.0, *(1.0 + (step % 7) / 7 for step in range(199))]
    values[100] = 500.0
    [axes] = page([curve("loss", "steps", [*range(1, 201)], values)], []).axes
    low, high = axes.get_ylim()
    assert low < 1.0 < 2.0 < high < 120.0


def test_a_gradient_stands_beside_its_state():
    spreads = [
        Spread("a", name, [1, 2], [[0.0, 1, 2, 3, 4, 5, 6]] * 2)
        for name in ("v", "w", "gradient of v", "gradient of w", "gradient of gone")
    ]
    figure = page([curve("loss", "epochs", [1, 2], [2.0, 1.0])], [], spreads)
    found = {axes.get_title(): axes.get_subplotspec() for axes in figure.axes}
    assert [*found] == ["loss", "v", "gradient of v", "w", "gradient of w", "gradient of gone"]
    for name in ("v", "w"):
        state, gradient = found[name], found[f"gradient of {name}"]
        assert gradient.rowspan == state.rowspan
        assert gradient.colspan.start == state.colspan.start + 1
