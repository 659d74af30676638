"""Tests of the default engine: native code if it can be compiled here, else NumPy, and the OK line says why."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from subjects.commands import run_runtime as command
from subjects.small_programs import rich, save

import runtime
from prograd_proto.wording import install_hint
from runtime.engines import choice
from runtime.engines.engine import Unavailable
from runtime.engines.native import compiled
from runtime.engines.native.cpu import this_machine
from runtime.memory.limit import MemoryLimit, resident


def fields(line: str) -> dict[str, str]:
    return dict(word.split("=", 1) for word in line.split()[1:])


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("PROGRAD_ENGINE")
    return save(rich(), tmp_path)


def test_native_code_computes_where_it_can_be_made(program: Path, capsys: pytest.CaptureFixture[str]):
    code, out, err = command(capsys, "execute", program, "-q")
    assert (code, err) == (0, "")
    line = fields(out[-1])
    assert (line["engine"], line["instructions"]) == ("native", this_machine().name)
    assert "native" not in line


@pytest.mark.parametrize("word", ["no_llvmlite", "no_executable_memory"])
def test_else_the_reference_computes_and_the_line_says_why(
    word: str, program: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    def unavailable(*_: object) -> None:
        raise Unavailable("it cannot be made here", word)

    if word == "no_llvmlite":
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    else:
        monkeypatch.setattr(choice, "_native", unavailable)
    code, out, err = command(capsys, "execute", program, "-q")
    assert (code, err) == (0, "")
    line = fields(out[-1])
    assert (line["engine"], line["native"]) == ("reference", word)
    assert "instructions" not in line


def test_training_without_llvm_says_once_how_to_be_faster(
    program: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    def notes(*words: object) -> list[str]:
        code, _, err = command(capsys, "execute", program, "--progress", "none", *words)
        assert code == 0
        return [line for line in err.splitlines() if "do not fill a step" not in line]

    assert notes() == []
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert notes("--engine", "reference") == []
    assert notes("-q") == []
    assert notes() == [
        "runtime: NumPy computes the steps; the native engine makes those of the examples 2.6 to 14 times as fast: "
        + install_hint("native")
    ]


@pytest.mark.parametrize(("seconds", "said"), [(0.2, 0), (0.6, 1), (60.0, 1)])
def test_a_line_says_once_that_llvm_compiles_for_more_than_a_second(
    seconds: float, said: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    clock = iter(seconds * i for i in range(100))
    monkeypatch.setattr(compiled, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(compiled.jit, "compiled_of_several", lambda module: b"")
    monkeypatch.setattr(compiled.jit, "compiler_bytes", lambda module, warm: 0)
    monkeypatch.setattr(compiled.jit, "load_all", lambda objects, target: objects)
    with caplog.at_level("INFO", "prograd"):
        made = compiled._compiled(SimpleNamespace(modules=range(4), functions=[]), this_machine(), MemoryLimit(None))
    assert len(made.objects) == 4
    sentence = "LLVM compiles the steps; later runs of this program find them in the cache"
    assert [record.getMessage() for record in caplog.records] == [sentence] * said


def test_where_a_limit_leaves_no_room_for_llvm_the_reference_computes_unless_native_code_is_asked_for(
    program: Path, capsys: pytest.CaptureFixture[str]
):
    def run(nbytes: int, *more: object) -> tuple[int, list[str], str]:
        return command(capsys, "execute", program, "-q", "--max-memory", resident() + nbytes, *more)

    line = fields(run(50 << 20)[1][-1])
    assert (line["engine"], line["native"]) == ("reference", "too_little_memory")
    assert fields(run(200 << 20)[1][-1])["engine"] == "native"
    code, _, err = run(50 << 20, "--engine", "native")
    assert code == 6
    assert re.fullmatch(r"runtime: with LLVM, which compiles it, the process needs .*, and the limit is .*\n", err)
    assert runtime.load(program, max_memory=1 << 20).session.engine.name == "native"


def test_a_variable_names_another_one(
    program: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PROGRAD_ENGINE", "reference")
    line = fields(command(capsys, "execute", program, "-q")[1][-1])
    assert (line["engine"], line.get("native")) == ("reference", None)
    assert runtime.load(program, engine="native").session.engine.name == "native"
    monkeypatch.setenv("PROGRAD_ENGINE", "natve")
    code, _, err = command(capsys, "execute", program, "-q")
    assert (code, err) == (2, "runtime: PROGRAD_ENGINE: there is no engine 'natve'; did you mean 'native'?\n")


def test_a_record_is_replayed_by_the_engine_that_made_it(
    program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    assert command(capsys, "execute", program, "-q", "--record", tmp_path / "run.json")[0] == 0
    monkeypatch.setenv("PROGRAD_ENGINE", "reference")
    code, out, err = command(capsys, "replay", program, "--record", tmp_path / "run.json", "-q")
    assert (code, err, fields(out[-1])["engine"]) == (0, "", "native")
