"""Facts about operators stand where operators are declared: no collection of their names stands elsewhere."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from subjects.sources import tree_of

from registry import OPS

ROOT = Path(__file__).parents[2]
PACKAGES = ("compiler", "prograd", "proto/prograd_proto", "registry", "runtime")

DECLARED_IN = (
    "proto/prograd_proto/result_types/",
    "registry/ops/",
    "runtime/engines/reference/kernels/",
    "runtime/codegen/rules/",
    "compiler/onnx_operators/",
)
"""Folders in which operators are declared: types, gradients, kernels, lowering rules, operators of ONNX."""

ALLOWED = {
    "registry/numpy_calls.py": "names of NumPy's functions, some of which are also names of operators",
    "compiler/passes/leave_frozen.py": "ops that clipping by a global norm appends, which the pass removes again",
    "compiler/commands/imports/import_onnx.py": "public names of optimizers, which a caller chooses among",
    "compiler/gradcheck/feeds.py": "ops that hand elements on, and those that index by them, for feeds in range",
    "runtime/rows/out_of_range.py": "ops that hand elements on, for the feed that an index comes from",
    "compiler/train/initialisers.py": "names of distributions, which a caller chooses among",
    "prograd/sklearn/networks.py": "names of activations, which a caller chooses among",
    "compiler/train/optimizers.py": "the public names of the file, which optimizers share with their operators",
}
"""Files that may contain such a collection, each with the reason."""

FEWEST = 3
"""Number of names that make a collection."""


def collections_of_names(tree: ast.AST) -> Iterator[tuple[int, list[str]]]:
    """The strings of each list, tuple, set, call and dictionary, and the words of each string without punctuation."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Set | ast.Tuple | ast.List):
            yield node.lineno, strings(node.elts)
        elif isinstance(node, ast.Call):
            yield node.lineno, strings(node.args)
        elif isinstance(node, ast.Dict):
            yield node.lineno, strings(node.keys)
        elif isinstance(node, ast.MatchOr):
            yield node.lineno, strings([p.value for p in node.patterns if isinstance(p, ast.MatchValue)])
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.split()[FEWEST - 1 :]:
            yield node.lineno, node.value.split()


def strings(nodes: list[ast.expr] | list[ast.expr | None]) -> list[str]:
    return [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]


def tables(tree: ast.AST) -> list[int]:
    """The lines of collections of which most strings are names of operators."""
    found: list[int] = []
    for line, words in collections_of_names(tree):
        names = {word for word in words if word in OPS}
        if len(names) >= FEWEST and 2 * len(names) > len(words):
            found.append(line)
    return found


def sources() -> list[str]:
    files = (path.relative_to(ROOT).as_posix() for room in PACKAGES for path in sorted((ROOT / room).rglob("*.py")))
    return [file for file in files if not file.startswith(DECLARED_IN)]


@pytest.mark.rule
def test_a_file_outside_of_declarations_has_no_table_of_operators():
    found = {file: tables(tree_of(ROOT / file)) for file in sources()}
    assert len(found) > 700
    with_tables = {file for file, lines in found.items() if lines}
    assert with_tables - set(ALLOWED) == set(), "make the fact a trait (registry/traits.py) or a fact of the contract"
    assert set(ALLOWED) - with_tables == set(), "these need no exception any more"


@pytest.mark.parametrize(
    "source",
    [
        'A = {"add", "mul", "sub"}',
        'A = {"add": 1, "mul": 2, "sub": 3}',
        'A = dict.fromkeys(("add", "mul", "sub"), 1)',
        'A = {name: 1 for name in ["add", "mul", "sub", "odd"]}',
        'A = "add mul\\n sub".split()',
        'A = union("add", "mul", "sub")',
        'match x:\n    case "add" | "mul" | "sub":\n        pass',
    ],
)
def test_a_table_of_operators_is_found_however_it_is_written(source: str):
    assert tables(ast.parse(source))


@pytest.mark.parametrize(
    "source", ['A = {"add", "mul"}', 'A = ["x", "y", "z"]', '"""Add, mul and sub."""', "A = [1, 2]"]
)
def test_two_names_or_other_words_are_no_table(source: str):
    assert not tables(ast.parse(source))
