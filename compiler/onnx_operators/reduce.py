"""Reductions along axes of the model, running sums and positions of extremes."""

# pyright: basic
# onnx is imported by name and has no types here, nor have the lambdas of a table.

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from compiler.frontends.arranged import Arranged, arranged, pointwise
from compiler.frontends.extents import ONE
from compiler.frontends.onnx.node import Mapping, Node, as_float, cast, cast_to, on_plain
from compiler.frontends.torch.operators.reduce import reduced
from registry import Value, ops


def _reduction(
    function: Any,
    since: int = 18,
    before: Callable[[Value], Value] | None = None,
    after: Callable[[Value], Value] | None = None,
    empty: tuple[str, ...] = (),
) -> Mapping:
    """Return the mapping of a reduction; axes are an operand since an opset.

    Args:
        function: an operator with axis and keepdims.
        since: the opset since which the axes are an operand.
        before: a function of the elements.
        after: a function of the reduced elements.
        empty: "least" or "most", what no element at all gives.
    """

    def mapped(node: Node) -> Arranged:
        x = node.tensor(0)
        dtype = x.dtype
        axes = (node.numbers(1) if node.has(1) else None) if node.version >= since else node.attribute("axes")
        keep = bool(node.attribute("keepdims", 1))
        x = pointwise(before, x) if before else x
        if axes is not None and any(not -x.rank <= axis < x.rank for axis in axes):
            raise ValueError(f"axes {axes} of {x.rank}")
        if axes is None or not len(axes):
            y = x if node.attribute("noop_with_empty_axes", 0) else _along(node, function, x, None, keep, empty)
        else:
            y = _along(node, function, x, list(axes), keep, empty)
        y = pointwise(after, y) if after else y
        return cast_to(y, dtype)

    return mapped


def _along(node: Node, function: Any, x: Arranged, axes: Any, keep: bool, empty: tuple[str, ...]) -> Arranged:
    asked = range(x.rank) if axes is None else [axis % x.rank for axis in axes]
    if empty and any(x.shape[axis].number == 0 for axis in asked):
        shape = [ONE if i in asked else extent for i, extent in enumerate(x.shape) if keep or i not in asked]
        return arranged(node.store(np.full([e.number for e in shape], _end(x.dtype, empty[0]), dtype=x.dtype)))
    return reduced(lambda v, places: function(v, axis=places, keepdims=True), x, axes, keep)


def _end(dtype: str, end: str) -> Any:
    if dtype == "bool":
        return end == "most"
    if dtype.startswith("float"):
        return np.inf if end == "most" else -np.inf
    return np.iinfo(dtype).max if end == "most" else np.iinfo(dtype).min


def _mean(x: Value, **where: Any) -> Value:
    return ops.mean(as_float(x), **where)


def _logsumexp(x: Value, **where: Any) -> Value:
    return ops.logsumexp(as_float(x), **where)


def _position(function: Any) -> Mapping:
    def mapped(node: Node, x: Value) -> Value:
        axis = node.axis()
        is_last = bool(node.attribute("select_last_index", 0))
        y = _last(node, function, x, axis) if is_last else function(x, axis=axis)
        return ops.unsqueeze(y, axis=(axis,)) if node.attribute("keepdims", 1) else y

    return on_plain(mapped)


def _last(node: Node, function: Any, x: Value, axis: int) -> Value:
    return node.new(node.sizes()[axis] - 1, "int64") - function(ops.flip(x, axis=(axis,)), axis=axis)


def _running(function: Any) -> Mapping:
    def mapped(node: Node, x: Value, axis: Value) -> Value:
        return cast(
            function(
                x,
                axis=node.number(1) % x.rank,
                exclusive=bool(node.attribute("exclusive", 0)),
                reverse=bool(node.attribute("reverse", 0)),
            ),
            x.dtype,
        )

    return on_plain(mapped)


def _topk(node: Node) -> Any:
    x, axis = node.value(0), node.axis(default=-1)
    k = node.number(1) if node.version >= 10 else int(node.attribute("k"))
    return tuple(map(arranged, ops.topk(x, k=k, axis=axis, largest=bool(node.attribute("largest", 1)))))


IMPORTS: Final[dict[str, Mapping]] = {
    "ReduceSum": _reduction(ops.sum, 13),
    "ReduceMean": _reduction(_mean),
    "ReduceMax": _reduction(ops.max, empty=("least",)),
    "ReduceMin": _reduction(ops.min, empty=("most",)),
    "ReduceProd": _reduction(ops.prod),
    "ReduceL1": _reduction(ops.sum, before=ops.abs),
    "ReduceL2": _reduction(ops.sum, before=lambda x: ops.square(as_float(x)), after=ops.sqrt),
    "ReduceLogSum": _reduction(ops.sum, before=as_float, after=ops.log),
    "ReduceLogSumExp": _reduction(_logsumexp, before=as_float, empty=("least",)),
    "ReduceSumSquare": _reduction(ops.sum, before=ops.square),
    "ArgMax": _position(ops.argmax),
    "ArgMin": _position(ops.argmin),
    "CumSum": _running(ops.cumsum),
    "CumProd": _running(ops.cumprod),
    "TopK": _topk,
}
