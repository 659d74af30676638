"""The `__init__` of a folder says what is in each of its files, and there are no more of them than can be read."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = ("compiler", "runtime", "registry", "proto/prograd_proto", "prograd")
PACKAGES = sorted(path.parent for room in ROOMS for path in (ROOT / room).rglob("__init__.py"))
SHARED_BY_TESTS = [ROOT / "tests" / name for name in ("oracles", "samples", "subjects")]

BY_IMPORTS = {"registry/ops", "runtime/engines/reference/kernels"}
"""Families of operators: the list of imports is the table of contents."""

MOST = 25
"""Python files of a folder, besides its `__init__`."""

FAMILIES = {
    "registry/ops": "a file for each family of operators",
    "runtime/engines/reference/kernels": "the families of registry/ops, and what their kernels share",
    "runtime/codegen/rules": "the families of registry/ops, as lowering rules",
}
"""Folders that may have more, each with its reason."""


def test_a_table_of_contents_names_every_file():
    found = {package: untold(package) for package in (*PACKAGES, *SHARED_BY_TESTS)}
    assert len(found) > 70
    assert {package: names for package, names in found.items() if names} == {}


def untold(package: Path) -> set[str]:
    """The files of a package that its table of contents does not name."""
    tree = ast.parse((package / "__init__.py").read_text(encoding="utf-8"))
    told = set(re.findall(r"\w+", ast.get_docstring(tree) or ""))
    if package.relative_to(ROOT).as_posix() in BY_IMPORTS:
        imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
        told |= {word for node in imports for word in (node.module or "").split(".")}
        told |= {alias.name for node in imports for alias in node.names}
    return contents(package) - told


def test_what_a_table_of_contents_names_first_in_a_line_is_there():
    found = {
        package: set(re.findall(r"^(\w+)/?  +\S", docstring(package), re.MULTILINE)) - contents(package)
        for package in PACKAGES
    }
    assert {package: names for package, names in found.items() if names} == {}


def test_no_folder_is_too_full_to_be_read():
    counts = {
        folder.relative_to(ROOT).as_posix(): len([*folder.glob("*.py")]) - (folder / "__init__.py").exists()
        for top in (*ROOMS, "tests", "examples", "benchmarks")
        for folder in [ROOT / top, *(ROOT / top).rglob("*/")]
    }
    assert {folder for folder, count in counts.items() if count > MOST} == set(FAMILIES)


def contents(package: Path) -> set[str]:
    """The files and the packages within a package, by name; what is generated and what Python starts aside."""
    files = {path.stem for path in package.glob("*.py")} - {"__init__", "__main__", "program_pb2"}
    return files | {path.parent.name for path in package.glob("*/__init__.py")}


def docstring(package: Path) -> str:
    return ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8"))) or ""


def test_the_page_on_the_house_fits_on_two_screens():
    lines = (ROOT / "docs/architecture.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 120
    assert max(map(len, lines)) <= 120
