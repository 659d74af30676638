"""Documents that name a test for what they promise name one that exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ("docs/reliability.md", "docs/reproducibility.md", "SECURITY.md")


@pytest.mark.parametrize("page", PAGES)
def test_every_test_that_a_promise_names_is_there(page: str):
    named = re.findall(r"`(tests/[\w/]+\.py|test_\w+)`", (ROOT / page).read_text(encoding="utf-8"))
    assert len(named) > 5
    text = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    functions = set(re.findall(r"^def (test_\w+)\(", text, re.MULTILINE))
    missing = [name for name in named if not (ROOT / name).exists() and name not in functions]
    assert missing == []
