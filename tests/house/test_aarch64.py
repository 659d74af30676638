"""The group that runs under emulated aarch64, with a script in the place of the emulated Python."""

import json
from pathlib import Path

import pytest
from aarch64 import run

LINE = "OK entry=train steps=1 engine=native instructions=neon math=exact state_sha256="


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


def test_tests_that_fail_or_end_otherwise_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    paths = ["tests/native/code"]
    files = len(list((run.ROOT / paths[0]).glob("test_*.py")))
    assert run.native_tests(python(tmp_path, "12 passed, 1 skipped in 3.00s"), 60, paths) == 0
    assert f"{12 * files} passed, 0 failed, {files} skipped, 0 error" in capsys.readouterr().out
    assert run.native_tests(python(tmp_path, "2 failed, 12 passed in 3.00s", 1), 60, paths) == 2 * files
    assert run.native_tests(python(tmp_path, ""), 60, paths) == files
