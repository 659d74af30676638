"""The predictions of tree ensembles: all trees take a step at once, as often as the deepest one has levels."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from compiler.errors import CompileError
from compiler.frontends.arranged import Arranged, arranged
from compiler.frontends.onnx.node import Mapping, Node, cast
from compiler.onnx_operators.ml.classes import ENDS, chosen, ended, labels
from compiler.onnx_operators.ml.forests import MODES, Forest, of_ids, of_roots
from registry import Value, ops

MAX_DEPTH: Final = 1000
"""Largest number of levels of a tree."""

TESTS: Final = (ops.less_equal, ops.less, ops.greater_equal, ops.greater, ops.equal, ops.not_equal)
"""The test of each mode."""

MEMBER: Final = MODES.index("BRANCH_MEMBER")
"""The mode of a test for a set."""

AGGREGATES: Final = ("AVERAGE", "SUM", "MIN", "MAX")
"""Reductions over the leaves of all trees, by their numbers in TreeEnsemble."""


def _leaves(node: Node, forest: Forest) -> Value:
    """Return the leaf of each tree that each row reaches, int64 [rows, trees]."""
    x = cast(node.value(0), "float64" if node.value(0).dtype == "float64" else "float32")
    if x.rank != 2:
        raise CompileError(f"reads a tensor with {x.rank} axes, and rows have 2")
    columns = x.shape[1]
    if isinstance(columns, int) and forest.features.max() >= columns:
        raise CompileError(f"reads column {forest.features.max()} of {columns}")
    depth = forest.depth()
    if depth > MAX_DEPTH:
        raise CompileError(f"has a tree of {depth} levels, and trees have {MAX_DEPTH} at most")
    features, yes, no = (node.new(each, "int64") for each in (forest.features, forest.yes, forest.no))
    splits = node.new(forest.splits, x.dtype)
    at = ops.broadcast_to(node.new(forest.roots.reshape(1, -1), "int64"), shape=(x.shape[0], len(forest.roots)))
    for _ in range(depth):
        v = ops.take_along_axis(x, ops.gather(features, at), axis=1)
        goes = _tested(node, forest, v, ops.gather(splits, at), at)
        if forest.missing.any():
            tracks = ops.gather(node.new(forest.missing != 0), at)
            goes = ops.logical_or(goes, ops.logical_and(ops.isnan(v), tracks))
        at = ops.where(goes, ops.gather(yes, at), ops.gather(no, at))
    return at


def _tested(node: Node, forest: Forest, v: Value, split: Value, at: Value) -> Value:
    """Return True where the test of the node that a row is at is true."""
    used = [int(mode) for mode in np.unique(forest.modes) if mode < len(TESTS) or mode == MEMBER]
    made: Value | None = None
    for mode in used:
        test = _is_member(node, forest, v, at) if mode == MEMBER else TESTS[mode](v, split)
        is_mode = ops.gather(node.new(forest.modes == mode), at) if made is not None else None
        made = test if made is None or is_mode is None else ops.where(is_mode, test, made)
    assert made is not None
    return made


def _is_member(node: Node, forest: Forest, v: Value, at: Value) -> Value:
    """Return True where a value is in the set of its node."""
    width = max(map(len, forest.members.values()), default=1)
    table = np.full((len(forest.modes), max(width, 1)), np.nan)
    for place, numbers in forest.members.items():
        table[place, : len(numbers)] = numbers
    numbers = ops.gather(node.new(table, v.dtype), at, axis=0)
    return ops.any(ops.equal(numbers, ops.unsqueeze(v, axis=-1)), axis=(-1,))


def _scores(node: Node, forest: Forest, aggregate: str) -> Value:
    """Return what the leaves of all trees give each target, [rows, targets]."""
    at = _leaves(node, forest)
    if aggregate in ("SUM", "AVERAGE"):
        y = ops.sum(ops.gather(node.new(forest.weights), at, axis=0), axis=(1,))
        return y / len(forest.roots) if aggregate == "AVERAGE" else y
    if aggregate not in AGGREGATES:
        raise CompileError(f"has aggregate_function={aggregate!r}, and prograd has {', '.join(AGGREGATES)}")
    outside = np.where(forest.voting, forest.weights, np.inf if aggregate == "MIN" else -np.inf)
    rows = ops.gather(node.new(outside.astype(forest.weights.dtype)), at, axis=0)
    y = (ops.min if aggregate == "MIN" else ops.max)(rows, axis=(1,))
    return ops.where(ops.isinf(y), 0.0, y)


def _base(node: Node) -> Any:
    given = node.attribute("base_values_as_tensor")
    return node.walk.tensors.array(given) if given is not None else np.asarray(node.attribute("base_values", []), "f")


def _regressor(node: Node) -> Arranged:
    forest = of_ids(node, "target", int(node.attribute("n_targets", 1)))
    y = _scores(node, forest, node.attribute("aggregate_function", "SUM"))
    base = _base(node)
    y = y + node.new(base, y.dtype) if base.size else y
    return arranged(ended(cast(y, "float32"), node.attribute("post_transform", "NONE")))


def _ensemble(node: Node) -> Arranged:
    aggregate, end = int(node.attribute("aggregate_function", 1)), int(node.attribute("post_transform", 0))
    if not (0 <= aggregate < len(AGGREGATES) and 0 <= end < len(ENDS)):
        raise CompileError(f"has aggregate_function={aggregate} and post_transform={end}, which no model has")
    words = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
    return arranged(ended(_scores(node, of_roots(node), AGGREGATES[aggregate]), words[end]))


def _classifier(node: Node) -> tuple[Arranged, Arranged]:
    names = labels(node)
    end, base = node.attribute("post_transform", "NONE"), _base(node)
    forest = of_ids(node, "class", len(names))
    voted = np.flatnonzero(forest.voting.any(0))
    y = _scores(node, forest, "SUM")
    if len(names) == 2 and len(voted) == 1:
        score = y[:, int(voted[0]) : int(voted[0]) + 1]
        return _of_one_score(node, names, score, bool((forest.weights >= 0).all()))
    y = y + node.new(base, y.dtype) if base.size else y
    return arranged(chosen(node, names, ops.argmax(y, axis=1))), arranged(ended(cast(y, "float32"), end))


def _of_one_score(node: Node, names: Any, score: Value, is_share: bool) -> tuple[Arranged, Arranged]:
    """Return the label and both scores of two classes whose leaves vote for one; `is_share` for positive votes."""
    end, base = node.attribute("post_transform", "NONE"), _base(node)
    if base.size:
        score = score + float(base[-1])
    second = score > (0.5 if is_share else 0.0)
    label = chosen(node, names, cast(ops.reshape(second, shape=(-1,)), "int64"))
    score = cast(score, "float32")
    if end == "PROBIT" and base.size < 2:
        return arranged(label), arranged(ended(score, end))
    if base.size == 2:
        both = ended(ops.concat(-score, score, axis=1), end)
    elif is_share:
        both = ops.concat(1.0 - score, score, axis=1)
    else:
        both = ops.concat(-score, score, axis=1)
        both = ended(both, end) if end == "LOGISTIC" else both
    return arranged(label), arranged(both)


IMPORTS: Final[dict[str, Mapping]] = {
    "ai.onnx.ml.TreeEnsembleRegressor": _regressor,
    "ai.onnx.ml.TreeEnsembleClassifier": _classifier,
    "ai.onnx.ml.TreeEnsemble": _ensemble,
}
