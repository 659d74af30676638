"""The page of imported operators of ONNX is the one that the tables make."""

from pathlib import Path

from compiler.frontends.onnx.operators_page import operators_page

PAGE = Path(__file__).parents[2] / "docs/from-onnx-operators.md"


def test_the_page_is_of_these_operators():
    assert PAGE.read_text(encoding="utf-8") == operators_page(), "run `make docs`"
