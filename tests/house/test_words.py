"""The vocabulary of docs/words.md: names in the code do not use words in a meaning that they no longer have."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from subjects.sources import tree_of

ROOT = Path(__file__).parents[2]
PACKAGES = ("compiler", "runtime", "registry", "proto/prograd_proto", "prograd")

EVERYWHERE = {
    "Deeds",
    "Reading",
    "Readings",
    "Turn",
    "Turns",
    "fill_words",
    "found_rooms",
    "given_arrays",
    "given_rows",
    "make_words_by",
    "taken_in",
    "treaty",
}
"""Names that no file may define."""

IN_GENERATED_CODE = {
    "Access",
    "Accesses",
    "Composite",
    "Composites",
    "Cut",
    "FORMS",
    "Form",
    "Joining",
    "Loops",
    "Lying",
    "Made",
    "Places",
    "Refusals",
    "Refused",
    "Spelled",
    "Stage",
    "Stages",
    "Strips",
    "Task",
    "Watching",
    "access",
    "accesses",
    "composites",
    "form",
    "form_of",
    "forms",
    "is_alone",
    "joined_as",
    "joining",
    "joinings",
    "lying",
    "makes",
    "may_be_one",
    "neutral",
    "refusals",
    "remade",
    "remake",
    "spell",
    "spelled",
    "stage",
    "stages",
    "stages_of",
    "steady",
    "strip",
    "strips",
    "task",
    "task_of",
    "tasks",
    "unit",
    "units",
    "watched",
}
"""Names that no file of the code generator and the native engine may define."""

UNCLEAR_CONSTANTS = {"APART", "BESIDE", "CHEAP", "ENOUGH", "FAR", "FEW", "FEWEST", "LEAST", "LINE", "LITTLE", "LONGEST"}
UNCLEAR_CONSTANTS |= {"MANY", "MOST", "NEAR", "NANOSECONDS", "STRANGE", "TIMES", "TOGETHER", "WANTED", "WORTH"}
"""Constants that do not say what they hold; no file of the code generator and the native engine may define them."""


def files(*packages: str) -> list[Path]:
    paths = [path for package in packages for path in sorted((ROOT / package).rglob("*.py"))]
    return [path for path in paths if "_pb2" not in path.name]


def defined(path: Path) -> Iterator[str]:
    """The names of a file, its classes, functions, arguments, fields, variables and constants."""
    yield path.stem
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


@pytest.mark.rule
def test_no_name_has_a_former_meaning():
    found = {path: EVERYWHERE & set(defined(path)) for path in files(*PACKAGES)}
    assert len(found) > 700
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.rule
def test_no_name_of_generated_code_has_a_former_meaning():
    unclear = IN_GENERATED_CODE | UNCLEAR_CONSTANTS
    found = {
        path: unclear & {name.removeprefix("_") for name in defined(path)}
        for path in files("runtime/codegen", "runtime/engines/native")
    }
    assert len(found) > 100
    assert {path: names for path, names in found.items() if names} == {}
