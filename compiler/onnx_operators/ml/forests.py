"""The nodes of a tree ensemble as arrays, of the attributes of three operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from compiler.errors import CompileError
from compiler.frontends.onnx.node import Node

MODES: Final = (
    "BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER", "LEAF",
)  # fmt: skip
"""Tests of nodes, by their numbers in TreeEnsemble."""

LEAF: Final = MODES.index("LEAF")
"""The mode of a leaf."""


@dataclass(frozen=True, eq=False)
class Forest:
    """A tree ensemble; nodes of all trees have one numbering, and a leaf leads to itself.

    Attributes:
        roots: the first node of each tree.
        features: the column that each node reads.
        splits: what it compares the column with.
        modes: the number of its test in `MODES`.
        yes: the node where the test is true.
        no: the node where it is false.
        missing: True for nodes whose test is true for NaN.
        weights: what each node adds to each target, 0 for inner nodes.
        voting: True for the targets that a leaf names.
        members: for each node, the numbers of its set.
    """

    roots: Any
    features: Any
    splits: Any
    modes: Any
    yes: Any
    no: Any
    missing: Any
    weights: Any
    voting: Any
    members: dict[int, Any]

    def depth(self) -> int:
        """Return the number of tests on the longest way to a leaf; raise CompileError for nodes in a circle."""
        level, count = np.unique(self.roots), 0
        while (self.modes[level] != LEAF).any():
            if count > len(self.modes):
                raise CompileError("has nodes that lead back to themselves")
            level = np.unique(np.concatenate([self.yes[level], self.no[level]]))
            count += 1
        return count


def _numbers(node: Node, name: str, dtype: Any = np.int64) -> Any:
    given = node.attribute(name)
    if hasattr(given, "dims"):
        return node.walk.tensors.array(given)
    return np.asarray([] if given is None else given, dtype)


def of_ids(node: Node, leaves: str, count: int) -> Forest:
    """Return the ensemble of a classifier or regressor, whose nodes are named by a tree and a number.

    Args:
        node: the node.
        leaves: the word before the attributes of leaves, `class` or `target`.
        count: the number of classes or targets.
    """
    trees, ids = _numbers(node, "nodes_treeids"), _numbers(node, "nodes_nodeids")
    places = {pair: i for i, pair in enumerate(zip(trees.tolist(), ids.tolist(), strict=True))}
    words = node.attribute("nodes_modes", [])
    modes = np.array([MODES.index(word) for word in words], np.int64)
    inner = modes != LEAF
    yes, no = (
        np.array(
            [places[pair] if goes else i for i, (pair, goes) in enumerate(zip(pairs, inner, strict=True))], np.int64
        )
        for pairs in (
            zip(trees.tolist(), _numbers(node, f"nodes_{word}nodeids").tolist(), strict=True)
            for word in ("true", "false")
        )
    )
    splits = _numbers(node, "nodes_values_as_tensor")
    splits = splits if splits.size else _numbers(node, "nodes_values", np.float32)
    weights = _numbers(node, f"{leaves}_weights_as_tensor")
    weights = weights if weights.size else _numbers(node, f"{leaves}_weights", np.float32)
    named = zip(_numbers(node, f"{leaves}_treeids").tolist(), _numbers(node, f"{leaves}_nodeids").tolist(), strict=True)
    own = [places[pair] for pair in named]
    _, first = np.unique(trees, return_index=True)
    table, voting = _leaves(len(ids), count, own, _numbers(node, f"{leaves}_ids"), weights)
    features, missing = _numbers(node, "nodes_featureids"), _numbers(node, "nodes_missing_value_tracks_true")
    return _checked(
        Forest(first, features, splits, modes, yes, no, missing if missing.size else 0 * modes, table, voting, {})
    )


def _leaves(nodes: int, count: int, own: Sequence[int], targets: Any, weights: Any) -> tuple[Any, Any]:
    table, voting = np.zeros((nodes, count), weights.dtype), np.zeros((nodes, count), bool)
    np.add.at(table, (own, targets), weights)
    voting[own, targets] = True
    return table, voting


def of_roots(node: Node) -> Forest:
    """Return the ensemble of TreeEnsemble, whose leaves have a numbering of their own, behind the inner nodes here."""
    splits, modes = _numbers(node, "nodes_splits"), _numbers(node, "nodes_modes").astype(np.int64)
    inner, weights = len(modes), _numbers(node, "leaf_weights")
    yes, no = (
        _numbers(node, f"nodes_{word}nodeids") + inner * _numbers(node, f"nodes_{word}leafs")
        for word in ("true", "false")
    )
    leaf = inner + np.arange(len(weights))
    table, voting = _leaves(
        inner + len(leaf), int(node.attribute("n_targets", 1)), leaf.tolist(), _numbers(node, "leaf_targetids"), weights
    )
    missing = _numbers(node, "nodes_missing_value_tracks_true")
    none = np.zeros(len(leaf), np.int64)
    sets = _sets(modes, _numbers(node, "membership_values", splits.dtype))
    return _checked(
        Forest(
            _numbers(node, "tree_roots"),
            np.concatenate([_numbers(node, "nodes_featureids"), none]),
            np.concatenate([splits, none.astype(splits.dtype)]),
            np.concatenate([modes, none + LEAF]),
            np.concatenate([yes, leaf]),
            np.concatenate([no, leaf]),
            np.concatenate([missing if missing.size else 0 * modes, none]),
            table,
            voting,
            sets,
        )
    )


def _sets(modes: Any, values: Any) -> dict[int, Any]:
    """Return for each node that tests membership its numbers, which NaN separates."""
    ends = np.flatnonzero(np.isnan(values))
    begins = [0, *(ends + 1).tolist()]
    places = np.flatnonzero(modes == MODES.index("BRANCH_MEMBER")).tolist()
    return {place: values[a:b] for place, a, b in zip(places, begins, [*ends.tolist(), len(values)], strict=False)}


def _checked(forest: Forest) -> Forest:
    """Return an ensemble whose nodes lead to nodes; raise CompileError for others."""
    count = len(forest.modes)
    parts = forest.features, forest.splits, forest.yes, forest.no, forest.missing
    if not count or any(len(part) != count for part in parts):
        raise CompileError("has attributes of unequal lengths for its nodes")
    if any((part < 0).any() or (part >= count).any() for part in (forest.roots, forest.yes, forest.no)):
        raise CompileError(f"has a node that leads to none of its {count}")
    return forest
