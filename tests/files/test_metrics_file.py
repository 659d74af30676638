import csv
import json
import math
import os
from pathlib import Path

import pytest

import runtime
from runtime.__main__ import main
from runtime.commands import execute as commands
from runtime.commands.reports.metrics_file import MetricsFile
from runtime.runs.checkpoints import checkpoint_folder


def execute(*arguments) -> int:
    return main(["execute", "p.pb", "-q", *map(str, arguments)])


def test_csv_has_a_row_per_step_epoch_and_evaluation(folder):
    execute("--metrics", "m.csv")
    with Path("m.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    expected = list(runtime.load("p.pb").events())
    assert list(rows[0]) == [
        *("event", "epoch", "step", "split", "best", "loss", "rate", "total", "mean", "evaluate.loss", "evaluate.mean")
    ]
    assert [row["event"] for row in rows] == (["step"] * 7 + ["epoch", "evaluation"]) * 3
    for row, event in zip(rows, expected, strict=True):
        assert (int(row["epoch"]), int(row["step"])) == (event.epoch, event.step)
        prefix = "evaluate." if row["event"] == "evaluation" else ""
        found = {name: float(row[prefix + name]) for name in event.metrics}
        assert found == event.metrics  # every digit
        assert all(not value for name, value in row.items() if name.startswith("evaluate.") and not prefix)


def test_json_lines_have_the_same_numbers(folder):
    execute("--metrics", "m.jsonl")
    rows = [json.loads(line) for line in Path("m.jsonl").read_text().splitlines()]
    expected = list(runtime.load("p.pb").events())
    assert len(rows) == len(expected)
    for row, event in zip(rows, expected, strict=True):
        assert row | event.metrics == row


@pytest.mark.parametrize("name", ["m.csv", "m.jsonl"])
@pytest.mark.parametrize("every", [5, 7])
def test_a_resumed_run_ends_with_the_file_of_an_uninterrupted_one(folder, monkeypatch, name, every):
    execute("--metrics", f"whole-{name}")
    stop_after(monkeypatch, 18)
    assert execute("--metrics", name, "--checkpoint", "c", "--every", every) == 70
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    with Path(name).open("a") as file:
        file.write('{"event":"st')  # cut short by a kill
    assert execute("--metrics", name, "--checkpoint", "c", "--every", every, "--resume") == 0
    assert Path(name).read_text() == Path(f"whole-{name}").read_text()


def stop_after(monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    """Kill the run, without a checkpoint, after `steps` steps are in the file."""
    write = MetricsFile.write

    def stopping(self: MetricsFile, event: runtime.Event) -> None:
        write(self, event)
        if event.step == steps:
            raise ZeroDivisionError

    monkeypatch.setattr(MetricsFile, "write", stopping)


def test_a_file_of_another_run_is_not_continued(folder, capsys):
    execute("--checkpoint", "c", "--steps", "10")
    Path("m.csv").write_text("event,epoch,step,other\n")
    capsys.readouterr()
    assert execute("--checkpoint", "c", "--steps", "10", "--resume", "--metrics", "m.csv") == 2
    assert capsys.readouterr().err == ("runtime: m.csv: the file has other columns than this run; name another one\n")
    assert Path("m.csv").read_text() == "event,epoch,step,other\n"


def test_numbers_that_json_lacks_are_null(tmp_path):
    file = MetricsFile(tmp_path / "m.jsonl", ["a", "b"])
    file.open()
    file.write(runtime.StepEnd(1, 1, {"a": math.nan, "b": math.inf}))
    file.close()
    assert json.loads((tmp_path / "m.jsonl").read_text()) == {
        "event": "step",
        "epoch": 1,
        "step": 1,
        "a": None,
        "b": None,
    }


def test_equal_runs_write_equal_files(folder):
    execute("--metrics", "one.csv")
    execute("--metrics", "two.csv")
    assert Path("one.csv").read_bytes() == Path("two.csv").read_bytes()


def test_what_a_checkpoint_has_behind_it_is_in_the_file_before(folder, monkeypatch):
    seen: list[list[str]] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    write = checkpoint_folder.write_checkpoint

    def look(file, *more, **options):
        seen.append([",".join(line.split(",")[:3]) for line in Path("m.csv").read_text().splitlines()][-2:])
        write(file, *more, **options)

    monkeypatch.setattr(checkpoint_folder, "write_checkpoint", look)
    execute("--metrics", "m.csv", "--checkpoint", "c", "--every", "7", "--steps", "15")
    assert seen == [
        ["epoch,1,7", "evaluation,1,7"],
        ["epoch,2,14", "evaluation,2,14"],
        ["epoch,3,15", "evaluation,3,15"],
    ]


def stop_now() -> None:
    raise runtime.ResourceLimit("no time")


@pytest.mark.parametrize("name", ["m.csv", "m.jsonl"])
def test_a_run_that_ended_before_its_first_step_or_checkpoint_goes_on_with_its_file(folder, monkeypatch, name):
    execute("--metrics", f"whole-{name}")
    arguments = ["--metrics", name, "--checkpoint", "c", "--every", 5]
    with monkeypatch.context() as patch:
        patch.setattr(commands, "_limits", lambda *limits: stop_now)
        assert execute(*arguments) == 6
    assert [file.name for file in Path("c").iterdir()] == ["step-0000000000.safetensors"]
    stop_after(monkeypatch, 4)
    assert execute(*arguments, "--resume") == 70
    next(Path("c").iterdir()).unlink()
    assert execute(*arguments, "--resume") == 70  # without a checkpoint, and with four steps in the file
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    assert execute(*arguments, "--resume") == 0
    assert Path(name).read_bytes() == Path(f"whole-{name}").read_bytes()


@pytest.mark.parametrize("name", ["m.csv", "m.jsonl"])
def test_a_longer_file_is_not_cut_off_for_want_of_a_checkpoint(folder, capsys, name):
    execute("--metrics", name)
    before = Path(name).read_bytes()
    assert execute("--metrics", name, "--checkpoint", "typing-error", "--every", 5, "--resume") == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"runtime: {name}: there is no checkpoint yet, and the file has more than the 5 steps before the first one, "
        "so it belongs to another run; name another file"
    )
    assert Path(name).read_bytes() == before


@pytest.mark.parametrize("text", ["hello\n", '{"event":"other","step":1}\n', "5\n" * 9])
@pytest.mark.parametrize("steps", [0, 10])
def test_what_is_no_metrics_is_not_cut_off(folder, capsys, text, steps):
    if steps:
        execute("--checkpoint", "c", "--steps", 10)
    Path("m.jsonl").write_text(text)
    assert execute("--checkpoint", "c", "--steps", 10, "--resume", "--metrics", "m.jsonl") == 2
    assert Path("m.jsonl").read_text() == text


def test_metrics_that_end_before_the_checkpoint_are_not_continued(folder, capsys):
    execute("--checkpoint", "c", "--every", 5, "--metrics", "m.csv", "--steps", 15)
    lines = Path("m.csv").read_text().splitlines(keepends=True)
    Path("m.csv").write_text("".join(lines[:9]))
    arguments = ["--checkpoint", "c", "--resume", "--retarget-schedule", "--metrics", "m.csv"]
    assert execute(*arguments) == 2
    assert capsys.readouterr().err == (
        "runtime: m.csv: the metrics end at step 7, and the run goes on from step 15; name another file\n"
    )
    assert execute(*arguments, "--force") == 0
