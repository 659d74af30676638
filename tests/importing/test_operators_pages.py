"""The pages about operators of other frameworks are those that the tables make."""

from pathlib import Path

import pytest

from compiler.onnx_operators import EXPORTS
from compiler.reference.frameworks import PAGES
from registry import OPS
from registry.control.control_op import CONTROL

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_of_these_operators(name: str):
    assert (DOCS / f"{name}-operators.md").read_text(encoding="utf-8") == PAGES[name](), "run `make docs`"


def test_every_exported_operator_exists():
    assert EXPORTS.keys() <= OPS.keys() | set(CONTROL)
