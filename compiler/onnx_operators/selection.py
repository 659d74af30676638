"""Selections whose number of rows is data: they get a bound while importing, and a result with the number."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from compiler.frontends.arranged import arranged
from compiler.frontends.onnx.known.constants import Constant
from compiler.frontends.onnx.node import Mapping, Node, cast, on_plain
from registry import Value, ops


def _nonzero(node: Node, x: Value) -> Value:
    node.sizes()  # asks to bind symbols
    indices, number = ops.nonzero(x, count=node.rows())
    node.counts(number)
    return ops.transpose(indices, axis=(1, 0))


def _unique(node: Node, x: Value) -> Any:
    node.sizes()
    axis = node.attribute("axis")
    x = cast(x, "int32") if x.dtype == "bool" else x
    *made, number = ops.unique(x, count=node.rows(), axis=axis, sorted=bool(node.attribute("sorted", 1)))
    node.counts(number)
    return tuple(made)


def _compress(node: Node, x: Value, condition: Value) -> Value:
    axis = node.attribute("axis")
    if axis is None:
        x, axis = ops.reshape(x, shape=(int(np.prod(node.sizes())),)), 0
    if isinstance(node.operands[1], Constant):
        return ops.gather(x, node.new(np.flatnonzero(node.constant(1)), "int64"), axis=axis % x.rank)
    node.sizes(1)
    indices, number = ops.nonzero(condition, count=node.rows())
    node.counts(number)
    return ops.gather(x, indices[:, 0], axis=axis % x.rank)


def _suppression(node: Node) -> Any:
    for number in (0, 1):
        node.sizes(number)
    most = node.number(2) if node.has(2) else 0
    shared, least = (float(node.constant(i).reshape(())) if node.has(i) else None for i in (3, 4))
    rows, number = ops.non_max_suppression(
        node.value(0),
        node.value(1),
        count=node.rows(),
        max_per_class=max(most, 0),
        iou_threshold=shared or 0.0,
        score_threshold=least,
        center=bool(node.attribute("center_point_box", 0)),
    )
    node.counts(number)
    return arranged(rows)


IMPORTS: Final[dict[str, Mapping]] = {
    "NonZero": on_plain(_nonzero),
    "Unique": on_plain(_unique),
    "Compress": on_plain(_compress),
    "NonMaxSuppression": _suppression,
}
