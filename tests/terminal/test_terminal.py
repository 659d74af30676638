"""Commands at a terminal: what a person sees at 80 and at 40 columns, with and without colours."""

import fcntl
import io
import os
import pty
import re
import struct
import sys
import termios

import pytest
from subjects.small_programs import rich, save

from runtime.command_line.colours import has_colours, painted
from runtime.command_line.results import result_table, seconds_in_words
from runtime.runs.events import CheckpointWritten, EpochEnd, EvaluationEnd, StepEnd
from runtime.runs.shown.bar import Bar
from runtime.runs.shown.event_lines import fitted_lines, one_line, parts_of
from runtime.runs.shown.plain_lines import Plain

METRICS = {"loss": 0.123456, "accuracy": 0.98769, "top_five_accuracy": 0.99912, "macro_recall": 1e-7}


def at_terminal(folder, width: int, *arguments: str, **environment: str) -> str:
    """Return the output of the runtime at a terminal of `width` columns."""
    child, screen = pty.fork()
    if child == 0:
        os.chdir(folder)
        keep = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "TERM")}
        command = [sys.executable, "-P", "-m", "runtime", *arguments]
        os.execve(sys.executable, command, {**keep, "TERM": "xterm", **environment})
    fcntl.ioctl(screen, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    parts: list[bytes] = []
    while True:
        try:
            part = os.read(screen, 1 << 16)
        except OSError:  # the process has closed the terminal
            break
        if not part:
            break
        parts.append(part)
    os.close(screen)
    assert os.waitpid(child, 0)[1] == 0
    return b"".join(parts).decode().replace("\r\n", "\n")


def without_colours(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


@pytest.mark.parametrize("width", [80, 40])
def test_a_person_sees_a_bar_and_a_table_and_no_line_is_too_long(tmp_path, width):
    save(rich(), tmp_path)
    shown = without_colours(at_terminal(tmp_path, width, "execute", "p.pb"))
    lines = [line for row in shown.split("\n") for line in row.split("\r")]
    sentences = [line for line in lines if line.startswith("runtime: ") or "sha256" in line or len(line.strip()) == 64]
    assert max(len(line) for line in lines if line not in sentences) <= width
    assert "21/21" in shown
    assert "OK entry=" not in shown
    table = shown[shown.index("\ndone\n") :].split("\n")
    assert re.fullmatch(r"  entry +train", table[2])
    assert re.fullmatch(r"  steps +21", table[3])
    assert re.fullmatch(r"  loss +[0-9.e-]+", table[4])
    assert [re.split(r" {2,}", row)[1] for row in table[5:] if re.match(r"  \w", row)][-4:] == [
        "time",
        "memory",
        "engine",
        "state_sha256",
    ]


def test_scripts_get_the_line_at_a_terminal_too_if_they_ask_for_it(tmp_path):
    save(rich(), tmp_path)
    for options in (("-q",), ("--log-format", "json")):
        shown = at_terminal(tmp_path, 80, "execute", "p.pb", *options).strip().split("\n")
        assert shown[-1].startswith("OK entry=train steps=21 ")
        assert "\x1b" not in shown[-1]


@pytest.mark.thorough
def test_colours_are_left_out_where_the_environment_asks_for_it(tmp_path):
    save(rich(), tmp_path)
    assert "\x1b[32mdone\x1b[0m" in at_terminal(tmp_path, 80, "execute", "p.pb")
    for environment in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert "\x1b[32m" not in at_terminal(tmp_path, 80, "execute", "p.pb", **environment)
        assert "\x1b[1m" not in at_terminal(tmp_path, 80, "execute", "p.pb", **environment)


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colours_need_a_terminal_or_force(monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert has_colours(Screen())
    assert not has_colours(io.StringIO())
    assert not has_colours(None)
    assert painted("a", "red", io.StringIO()) == "a"
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert painted("a", "red", io.StringIO()) == "\x1b[31ma\x1b[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert not has_colours(Screen())


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_lines_of_an_epoch_are_broken_between_metrics(width, monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    epoch = EpochEnd(3, 111, METRICS)
    evaluated = EvaluationEnd(3, 111, "evaluate", "test", METRICS, is_best=True)
    parts = [*parts_of(epoch, 740, 1.25), parts_of(evaluated, 740)[0].split("  ", 2)[2]]
    lines = fitted_lines(parts, width).split("\n")
    assert max(map(len, lines)) <= width
    together = re.sub(" +", " ", " ".join(lines))
    for words in ("epoch 3", "step 111/740", "1.2 s", "best so far", *(f"{k} {v:.4g}" for k, v in METRICS.items())):
        assert words in together
    assert one_line(parts_of(epoch, 740, 1.25)) == (
        "epoch 3  step 111/740  1.2 s  loss 0.1235 accuracy 0.9877 top_five_accuracy 0.9991 macro_recall 1e-07"
    )


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_a_bar_has_room_and_its_metrics_are_whole(width, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Screen())
    monkeypatch.setattr("runtime.runs.shown.bar.columns", lambda: width)
    bar = Bar(0, 740)
    for step in range(1, 38):
        bar.show(StepEnd(1, step, METRICS))
    bar.show(EpochEnd(1, 37, METRICS))
    bar.close()
    drawn = re.sub(r"\x1b\[[0-9;]*m", "", sys.stderr.getvalue()).replace("\r", "\n").split("\n")
    last = [line for line in drawn if "|" in line][-1]
    assert len(last) <= width
    assert len(last.split("|")[1]) >= 8
    assert "37/740" in last
    assert "loss 0.1235" in last
    for name, value in METRICS.items():
        assert name not in last or f"{name} {value:.4g}" in last


def test_plain_lines_have_the_seconds_of_an_epoch_without_evaluations_and_checkpoints(monkeypatch, tmp_path):
    now = iter([0.0, 0.0, 1.0, 2.0, 2.0, 5.0, 5.0, 6.0, 8.0, 8.0, 8.0, 9.0, 9.0, 9.0, 9.0])
    monkeypatch.setattr("runtime.runs.shown.plain_lines.perf_counter", lambda: next(now, 9.0))
    printed: list[list[str]] = []
    plain = Plain(4, often=0.0, put=printed.append)
    plain.show(StepEnd(1, 1, {"loss": 1.0}))
    plain.show(EpochEnd(1, 2, {"loss": 1.0}))
    plain.show(EvaluationEnd(1, 2, "evaluate", "test", {"loss": 2.0}, is_best=False))
    plain.show(CheckpointWritten(1, 2, tmp_path / "c"))
    plain.show(StepEnd(2, 3, {"loss": 1.0}))
    plain.show(EpochEnd(2, 4, {"loss": 0.5}))
    plain.close()
    texts = [one_line(parts) for parts in printed]
    assert re.fullmatch(r"epoch 1  step 2/4  \S+ s  loss 1  \|  evaluate on test: loss 2", texts[0]), texts
    assert re.fullmatch(r"epoch 2  step 4/4  \S+ s  loss 0.5", texts[-1]), texts


def test_a_table_of_results_groups_memory_and_engine(monkeypatch):
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    fields = [
        *[("entry", "train"), ("steps", 12345), ("loss", 0.00123456789), ("wall", "75.2"), ("arena", 2048)],
        *[("state", 5), ("rss", 3 << 20), ("engine", "native"), ("instructions", "avx2"), ("threads", 1)],
        ("state_sha256", "ab" * 32),
    ]
    assert result_table("OK", fields, 80).split("\n") == [
        "done",
        "  entry         train",
        "  steps         12,345",
        "  loss          0.00123457",
        "  time          1 min 15 s",
        "  memory        process 3.0 MiB, arena 2.0 KiB, states 5 B",
        "  engine        native, avx2, 1 thread",
        f"  state_sha256  {'ab' * 32}",
    ]
    assert result_table("OK", [("state_sha256", "ab" * 32)], 79).split("\n")[1:] == [
        "  state_sha256",
        f"    {'ab' * 32}",
    ]
    assert result_table("FAILED", [("state_sha256", "none")], 80).split("\n") == ["failed", "  state_sha256  none"]
    assert "  engine        reference, 2 threads, not native: no llvmlite" in result_table(
        "OK", [("engine", "reference"), ("threads", 2), ("native", "no_llvmlite"), ("state_sha256", "a")], 80
    )


DURATIONS = [
    *[(0.00042, "0.42 ms"), (0.088, "88 ms"), (0.12, "0.12 s"), (9.96, "10 s"), (41.4, "41 s"), (59.7, "1 min 0 s")],
    *[(185, "3 min 5 s"), (7830, "2 h 10 min")],
]


@pytest.mark.parametrize(("seconds", "words"), DURATIONS)
def test_durations_are_written_for_a_person(seconds, words):
    assert seconds_in_words(seconds) == words
