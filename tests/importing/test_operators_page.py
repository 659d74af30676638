"""The pages of imported operators are those that the tables make."""

from collections.abc import Callable
from pathlib import Path

import pytest

from compiler.frontends.onnx.operators_page import operators_page as page_of_onnx
from compiler.frontends.torch.operators_page import operators_page as page_of_torch

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    ("name", "page"), [("from-pytorch-operators.md", page_of_torch), ("from-onnx-operators.md", page_of_onnx)]
)
def test_the_page_is_of_these_operators(name: str, page: Callable[[], str]):
    assert (DOCS / name).read_text(encoding="utf-8") == page(), "run `make docs`"
