"""Completeness of the comparison with PyTorch, tested without PyTorch."""

import ast
from pathlib import Path

import pytest
from peers.table import FILES, NOT_COMPARED, PEERS, UPDATES

from registry import OPS
from registry.table import SPELLED

COMPARED = {name for peer in PEERS for name in peer.operators}
WITH_GRADIENT = {name for name, op in OPS.items() if op.gradient_rule is not None}


@pytest.mark.parametrize("name", sorted(WITH_GRADIENT | set(SPELLED)))
def test_what_has_a_gradient_is_compared_or_has_a_reason_why_not(name: str):
    assert (name in COMPARED) != (name in NOT_COMPARED), f"spell a function of PyTorch with {name} in tests/peers/"


def test_the_table_names_only_operators_that_there_are():
    assert {*COMPARED, *NOT_COMPARED, *UPDATES} <= {*OPS, *SPELLED}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.__name__)
def test_the_table_does_not_need_pytorch(file):
    tree = ast.parse(Path(file.__file__).read_text(encoding="utf-8"))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    imported |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert not any(name and name.startswith("torch") for name in imported)
