"""The vocabulary of docs/words.md: names in the code do not use words in a meaning that they no longer have."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

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


def files(*packages: str) -> list[object]:
    paths = [path for package in packages for path in sorted((ROOT / package).rglob("*.py"))]
    return [pytest.param(path, id=str(path.relative_to(ROOT))) for path in paths if "_pb2" not in path.name]


def defined(path: Path) -> Iterator[str]:
    """The names of a file, its classes, functions, arguments, fields, variables and constants."""
    yield path.stem
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


@pytest.mark.parametrize("path", files(*PACKAGES))
def test_no_name_has_a_former_meaning(path: Path):
    assert EVERYWHERE & set(defined(path)) == set()


@pytest.mark.parametrize("path", files("runtime/codegen", "runtime/engines/native"))
def test_no_name_of_generated_code_has_a_former_meaning(path: Path):
    assert (IN_GENERATED_CODE | UNCLEAR_CONSTANTS) & {name.removeprefix("_") for name in defined(path)} == set()


def test_the_page_has_the_former_words():
    page = (ROOT / "docs/words.md").read_text(encoding="utf-8")
    formerly = set(re.findall(r"\w+", page.partition("| formerly |")[2]))
    assert {"form", "Loops", "task", "strip", "access", "steady", "watched", "deeds"} <= formerly
