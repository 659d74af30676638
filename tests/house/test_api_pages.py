"""The API reference has every public name, and every name that it has exists."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import prograd

ROOT = Path(__file__).parents[2]
API = ROOT / "docs/api"
DOCUMENTED = {
    path: page.name
    for page in sorted(API.glob("*.md"))
    for path in re.findall(r"^::: ([\w.]+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
}
"""The paths that the API pages render, and the page of each."""

BUILDER_MODULES = ("clipping", "initialisers", "metrics", "optimizers", "schedules", "trust_ratios")
MODULES = (*BUILDER_MODULES, "callbacks", "data", "layers")


def resolved(path: str) -> object:
    """Return the object that a dotted path names."""
    parts = path.split(".")
    thing: object = importlib.import_module(parts[0])
    for i, part in enumerate(parts[1:], 2):
        try:
            thing = getattr(thing, part)
        except AttributeError:
            thing = importlib.import_module(".".join(parts[:i]))
    return thing


def test_every_documented_name_exists_and_has_a_docstring_or_is_a_union():
    assert len(DOCUMENTED) > 100
    assert [path for path in DOCUMENTED if not resolved(path).__doc__ and path != "runtime.Event"] == []


def test_every_public_name_of_prograd_is_documented():
    objects = [resolved(path) for path in DOCUMENTED]
    missing = [
        name
        for name in prograd.__all__
        if name not in (*MODULES, "ops") and not any(getattr(prograd, name) is thing for thing in objects)
    ]
    assert missing == []


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_of_a_module_is_documented(module: str):
    found = getattr(prograd, module)
    package = "compiler" if module in BUILDER_MODULES else "prograd"
    names = getattr(found, "__all__", None) or [name for name in dir(found) if not name.startswith("_")]
    assert [name for name in names if f"{package}.{module}.{name}" not in DOCUMENTED] == []


def test_the_options_of_training_and_of_packing_are_documented():
    names = {path.rpartition(".")[2] for path in DOCUMENTED}
    assert {"TrainingOptions", "PackOptions"} <= names


def test_the_operators_page_leads_to_the_operator_reference():
    assert "(../ops.md)" in (API / "operators.md").read_text(encoding="utf-8")


def test_the_site_shows_every_api_page():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert [page.name for page in API.glob("*.md") if f"api/{page.name}" not in navigation] == []
