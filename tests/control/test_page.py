"""The programs of docs/control-flow.md."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from fuzz.engines import stepped

PAGE = (Path(__file__).parents[2] / "docs" / "control-flow.md").read_text(encoding="utf-8")
SCRIPTS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
RNG = np.random.default_rng(0)
FEEDS = [
    {"x": RNG.normal(size=(32, 20, 3)).astype(np.float32), "target": np.ones((32, 1), np.float32)},
    {"start": np.array([0.5, 2.0, -1.5], np.float32)},
    {"a": np.float64(2.0)},
]


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("engine", ["reference", "native"])
def test_the_programs_of_the_page_run(number: int, engine: str, capsys: pytest.CaptureFixture[str]):
    found: dict[str, object] = {}
    exec(SCRIPTS[number], found)
    assert capsys.readouterr().out
    compiled = found["program"].compile(**({"batch": 32} if number == 0 else {}))  # pyright: ignore[reportAttributeAccessIssue]: a program
    entry = "predict" if number == 2 else "train"
    results = stepped(compiled.desc, entry, FEEDS[number], 2, engine)
    if number == 2:
        assert float(results[0]["root"]) == pytest.approx(np.sqrt(2.0))
        assert int(results[0]["trips"]) == 4
    else:
        assert results[1]["loss"] < results[0]["loss"]


def test_the_page_has_these_programs():
    assert len(SCRIPTS) == len(FEEDS)
