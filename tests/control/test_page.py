"""The programs of docs/control-flow.md."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from fuzz.engines import stepped

from runtime.__main__ import main as runtime

PAGE = (Path(__file__).parents[2] / "docs" / "control-flow.md").read_text(encoding="utf-8")
SCRIPTS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
RNG = np.random.default_rng(0)
M = RNG.normal(size=(64, 64))
FEEDS = [
    {"x": RNG.normal(size=(32, 20, 3)).astype(np.float32), "target": np.ones((32, 1), np.float32)},
    {"start": np.array([0.5, 2.0, -1.5], np.float32)},
    {"a": M @ M.T / 64 + np.eye(64), "b": RNG.normal(size=(64, 1))},
    {"a": np.float64(2.0)},
]


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("engine", ["reference", "native"])
def test_the_programs_of_the_page_run(number: int, engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    found: dict[str, object] = {}
    exec(SCRIPTS[number], found)
    compiled = found["program"].compile(**({"batch": 32} if number == 0 else {}))  # pyright: ignore[reportAttributeAccessIssue]: a program
    entry = "predict" if number >= 2 else "train"
    results = stepped(compiled.desc, entry, FEEDS[number], 2, engine)
    if number < 2:
        assert results[1]["loss"] < results[0]["loss"]
    elif number == 2:
        np.testing.assert_allclose(FEEDS[2]["a"] @ results[0]["x"], FEEDS[2]["b"], atol=1e-8)
    else:
        assert float(results[0]["root"]) == pytest.approx(np.sqrt(2.0))
        assert float(results[0]["da"]) == pytest.approx(0.5 / np.sqrt(2.0))
        assert int(results[0]["trips"]) == 4


def test_the_command_of_the_page_solves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    exec(SCRIPTS[2], {})
    for name, array in FEEDS[2].items():
        np.save(f"{name}.npy", array)
    [command] = re.findall(r"^    \$ runtime (.*)$", PAGE, re.MULTILINE)
    assert runtime(command.split()) == 0
    np.testing.assert_allclose(FEEDS[2]["a"] @ np.load("x.npy"), FEEDS[2]["b"], atol=1e-8)


def test_the_page_has_these_programs():
    assert len(SCRIPTS) == len(FEEDS)
