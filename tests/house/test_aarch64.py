"""The group that runs under emulated aarch64, with a script in the place of the emulated Python."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from aarch64 import run

LINE = "OK entry=train steps=1 engine=native instructions=neon state_sha256="


def python(folder: Path, said: str, code: int = 0) -> Path:
    path = folder / "python"
    path.write_text(f"#!/bin/sh\necho '{said}'\nexit {code}\n")
    path.chmod(0o755)
    return path


def test_examples_pass_where_their_states_are_as_expected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    expected = tmp_path / "expected.json"
    monkeypatch.setattr(run, "EXPECTED", expected)
    emulated = python(tmp_path, LINE + "a" * 64)
    assert run.examples(emulated, 60, update=True) == 0
    assert set(json.loads(expected.read_text()).values()) == {"a" * 64}
    assert run.examples(emulated, 60, update=False) == 0
    count = len(list((run.ROOT / "examples").glob("*.pb")))
    assert capsys.readouterr().out.count("(as expected)") == count
    assert run.examples(python(tmp_path, LINE + "b" * 64), 60, update=False) == count
    assert run.examples(python(tmp_path, LINE + "a" * 64, 70), 60, update=False) == count
    assert run.examples(python(tmp_path, LINE.replace("neon", "avx2") + "a" * 64), 60, update=False) == count


@pytest.mark.thorough
@pytest.mark.parametrize("example", ["linear_regression", "digits_mlp"])
@pytest.mark.parametrize("instructions", ["avx512", "avx2"])
def test_examples_have_the_states_of_neon_on_x86(tmp_path: Path, example: str, instructions: str):
    if instructions not in pytest.importorskip("runtime.engines.native.cpu").instruction_sets():
        pytest.skip(f"the CPU has no {instructions}")
    for file in (run.ROOT / "examples").iterdir():
        if file.suffix in (".pb", ".safetensors"):
            shutil.copy(file, tmp_path)
    command = [sys.executable, "-m", "runtime", "execute", f"{example}.pb", "--engine", f"native.{instructions}"]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert said.rpartition("state_sha256=")[2].strip() == json.loads(run.EXPECTED.read_text())[example]


def test_tests_that_fail_or_end_otherwise_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    paths = ["tests/native/code"]
    files = len(list((run.ROOT / paths[0]).glob("test_*.py")))
    assert run.native_tests(python(tmp_path, "12 passed, 1 skipped in 3.00s"), 60, paths) == 0
    assert f"{12 * files} passed, 0 failed, {files} skipped, 0 error" in capsys.readouterr().out
    assert run.native_tests(python(tmp_path, "2 failed, 12 passed in 3.00s", 1), 60, paths) == 2 * files
    assert run.native_tests(python(tmp_path, ""), 60, paths) == files
