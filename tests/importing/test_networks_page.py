"""The page of compared networks is the one that the rows of the census make."""

from pathlib import Path

from frontends.census import agrees, rows
from frontends.census_page import page

PAGE = Path(__file__).parents[2] / "docs/from-pytorch-networks.md"


def test_the_page_is_of_these_rows():
    assert PAGE.read_text(encoding="utf-8") == page(rows()), "run `make docs`"


def test_a_network_agrees_only_if_all_was_compared():
    assert agrees({"name": "a", "float64": {"outputs": 1e-10, "gradients": 1e-7}})
    assert not agrees({"name": "a", "float64": {"outputs": 1e-8}})
    assert not agrees({"name": "a", "float64": {"outputs": float("nan")}})
    assert not agrees({"name": "a", "error": "not compared"})
