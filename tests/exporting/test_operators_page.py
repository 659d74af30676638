"""The page of the operators that are written to ONNX files."""

from pathlib import Path

import pytest

pytest.importorskip("onnx", reason='needs ONNX: pip install ".[onnx]"')

from compiler.exporters.onnx.operators_page import operators_page
from compiler.onnx_operators import EXPORTS
from registry import OPS
from registry.control.control_op import CONTROL


def test_the_page_is_made_of_the_tables():
    page = Path(__file__).parents[2] / "docs/to-onnx-operators.md"
    assert page.read_text(encoding="utf-8") == operators_page(), "make docs writes it again"


def test_every_exported_operator_exists():
    assert EXPORTS.keys() <= OPS.keys() | set(CONTROL)
