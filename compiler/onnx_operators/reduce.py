"""Reductions along axes of the model, running sums and positions of extremes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Mapping as Mapping_
from math import inf, prod
from typing import Any, Final

import numpy as np

from compiler.exporters.onnx.call import Call, Export, Unmapped
from compiler.exporters.onnx.tensors import Tensor
from compiler.frontends.arranged import Arranged, arranged, expanded, pointwise
from compiler.frontends.elements import cast_to
from compiler.frontends.extents import ONE
from compiler.frontends.onnx.node import Mapping, Node, as_float, cast, on_plain
from compiler.frontends.reductions import reduced
from compiler.onnx_operators.flow.written import scan
from registry import Value, ops


def _reduction(
    function: Any,
    since: int = 18,
    before: Callable[[Value], Value] | None = None,
    after: Callable[[Value], Value] | None = None,
    empty: str = "",
) -> Mapping:
    """Return the mapping of a reduction; axes are an operand since an opset.

    Args:
        function: an operator with axis and keepdims.
        since: the opset since which the axes are an operand.
        before: a function of the elements.
        after: a function of the reduced elements.
        empty: "least" or "most", what no element at all gives; "" if the function knows.
    """

    def mapped(node: Node) -> Arranged:
        x = node.tensor(0)
        dtype = x.dtype
        given = (node.numbers(1) if node.has(1) else None) if node.version >= since else node.attribute("axes")
        keep = bool(node.attribute("keepdims", 1))
        x = pointwise(before, x) if before else x
        if any(not -x.rank <= axis < x.rank for axis in given or ()):
            raise ValueError(f"axes {given} of {x.rank}")
        axes = [axis % x.rank for axis in given or range(x.rank)]
        if not given and node.attribute("noop_with_empty_axes", 0):
            y = x
        elif empty and any(x.shape[axis].number == 0 for axis in axes):
            shape = [ONE if i in axes else extent for i, extent in enumerate(x.shape) if keep or i not in axes]
            y = expanded(arranged(node.store(np.asarray(_end(x.dtype, empty), dtype=x.dtype))), shape)
        else:
            y = reduced(lambda v, places: function(v, axis=places, keepdims=True), x, axes, keep)
        return cast_to(pointwise(after, y) if after else y, dtype)

    return mapped


def _end(dtype: str, end: str) -> Any:
    if dtype == "bool":
        return end == "most"
    if dtype.startswith("float"):
        return np.inf if end == "most" else -np.inf
    return np.iinfo(dtype).max if end == "most" else np.iinfo(dtype).min


def _position(function: Any) -> Mapping:
    def mapped(node: Node, x: Value) -> Value:
        axis = node.axis()
        is_last = bool(node.attribute("select_last_index", 0))
        y = _last(node, function, x, axis) if is_last else function(x, axis=axis)
        return ops.unsqueeze(y, axis=(axis,)) if node.attribute("keepdims", 1) else y

    return on_plain(mapped)


def _last(node: Node, function: Any, x: Value, axis: int) -> Value:
    extent = node.shape()[axis]
    if not extent.symbols:
        return node.new(extent.number - 1, "int64") - function(ops.flip(x, axis=(axis,)), axis=axis)
    first = ops.unsqueeze(function(x, axis=axis), axis=(axis,))
    numbers = ops.reshape(node.range(extent), shape=tuple(-1 if i == axis else 1 for i in range(x.rank)))
    return ops.max(ops.where(ops.equal(x, ops.take_along_axis(x, first, axis=axis)), numbers, 0), axis=(axis,))


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


def _axes_of(call: Call) -> tuple[int, ...]:
    """Return the reduced axes as axes of the graph's tensor, whose order the operand has."""
    x = call.tensor(0)
    axes = call.attributes["axes"]
    chosen = [axis % x.rank for axis in axes] if axes else range(x.rank)
    return tuple(sorted(x.order.index(axis) for axis in chosen))


def _kept_order(call: Call, axes: Sequence[int]) -> tuple[int, ...]:
    """Return the order of a result that has all axes, or that lacks the reduced ones."""
    order = call.tensor(0).order
    if call.attributes["keepdims"]:
        return order
    kept = [axis for place, axis in enumerate(order) if place not in axes]
    return tuple(sorted(kept).index(axis) for axis in kept)


def _held(call: Call) -> str:
    """Return the operand of a reduction in the order that it has."""
    return call.ordered(0, call.tensor(0).order)


def _reduced_by(call: Call, op_type: str, x: str, axes: Sequence[int], *, keepdims: bool) -> str:
    """Append a reduction, whose axes are an operand since opset 18, and of sums since 13."""
    if not axes:
        return x
    if call.opset >= 18 or op_type == "ReduceSum":
        return call.add(op_type, x, call.integers(*axes), keepdims=int(keepdims))
    return call.add(op_type, x, axes=list(axes), keepdims=int(keepdims))


def _reducing(op_type: str, *, through: Mapping_[str, str] | None = None) -> Export:
    """Return the mapping of a reduction; dtypes that ONNX does not reduce are reduced in another one."""

    def mapped(call: Call) -> Tensor:
        x, axes = _held(call), _axes_of(call)
        own = call.tensor(0).dtype
        inside = (through or {}).get(own, own)
        y = _reduced_by(call, op_type, call.cast(x, inside, own), axes, keepdims=call.attributes["keepdims"])
        return call.result(call.cast(y, call.type.dtype, inside), _kept_order(call, axes))

    return mapped


SUMMED: Final = {"int32": "int64", "uint8": "int64", "bool": "int64"}
"""Dtypes whose sums are int64."""

COMPARED: Final = {"bool": "int32", "uint8": "int32"}
"""Dtypes whose extremes are found in int32."""


def _logsumexp_out(call: Call) -> Tensor:
    """Return a logarithm of sums that does not overflow, as ReduceLogSumExp of some runtimes does."""
    x, axes = _held(call), _axes_of(call)
    largest = _reduced_by(call, "ReduceMax", x, axes, keepdims=True)
    is_infinite = call.add("IsInf", largest)
    largest = call.add("Where", is_infinite, call.number(0), largest)
    total = _reduced_by(call, "ReduceSum", call.add("Exp", call.add("Sub", x, largest)), axes, keepdims=True)
    y = call.add("Add", call.add("Log", total), largest)
    return _without(call, y, axes)


def _without(call: Call, y: str, axes: Sequence[int]) -> Tensor:
    """Return a result without the reduced axes, unless they are kept."""
    if not call.attributes["keepdims"] and axes:
        y = call.add("Squeeze", y, call.integers(*axes))
    return call.result(y, _kept_order(call, axes))


def _spread(call: Call) -> Tensor:
    """Return the variance of the operand, or its root."""
    x, axes = _held(call), _axes_of(call)
    apart = call.add("Sub", x, _reduced_by(call, "ReduceMean", x, axes, keepdims=True))
    total = _reduced_by(call, "ReduceSum", call.add("Mul", apart, apart), axes, keepdims=True)
    y = call.add("Div", total, _counted(call, axes, float(call.attributes["correction"])))
    return _without(call, call.add("Sqrt", y) if call.op_type == "standard_deviation" else y, axes)


def _counted(call: Call, axes: Sequence[int], less: float) -> str:
    """Return the number of elements along axes of the graph's tensor, less a correction, as a constant or computed."""
    x = call.tensor(0)
    extents = [x.shape[x.order[axis]] for axis in axes]
    sizes = [extent for extent in extents if isinstance(extent, int)]
    if len(sizes) == len(extents):
        return call.number(max(prod(sizes) - less, 0.0))
    count = call.cast(call.add("ReduceProd", call.graph.shape(extents), keepdims=0), x.dtype)
    return call.add("Max", call.add("Sub", count, call.number(less)), call.number(0))


def _norm_out(call: Call) -> Tensor:
    x, axes, order = _held(call), _axes_of(call), float(call.attributes["ord"])
    keep = bool(call.attributes["keepdims"])
    size = call.add("Abs", x)
    if order in (inf, -inf):
        y = _reduced_by(call, "ReduceMax" if order > 0 else "ReduceMin", size, axes, keepdims=keep)
    elif order == 0:
        counted = call.cast(call.add("Not", call.add("Equal", x, call.number(0))), call.type.dtype)
        y = _reduced_by(call, "ReduceSum", counted, axes, keepdims=keep)
    elif order in (1, 2):
        y = _reduced_by(call, f"ReduceL{order:.0f}", x, axes, keepdims=keep)
        y = size if not axes else y
    else:
        total = _reduced_by(call, "ReduceSum", call.add("Pow", size, call.number(order)), axes, keepdims=keep)
        y = call.add("Pow", total, call.number(1 / order))
    return call.result(y, _kept_order(call, axes))


def _position_out(op_type: str) -> Export:
    def mapped(call: Call) -> str:
        dtype = call.tensor(0).dtype
        x = call.plain_in(0, COMPARED.get(dtype, dtype))
        return call.add(op_type, x, axis=int(call.attributes["axis"]), keepdims=0)

    return mapped


def _running_out(call: Call) -> str:
    x, given = call.plain_in(0, call.type.dtype), call.attributes
    axis = call.integers(int(given["axis"]) % call.tensor(0).rank)
    axis = call.graph.reshaped(axis, ())
    return call.add("CumSum", x, axis, exclusive=int(given["exclusive"]), reverse=int(given["reverse"]))


def _scanned(call: Call, x: Sequence[str], value: float, step: Any, *, inclusive: bool = True) -> str:
    """Return the states of a recurrence along an axis, from a number on; `step` gets the state and the rows."""
    axis = int(call.attributes["axis"]) % len(call.type.shape)
    rest = tuple(extent for i, extent in enumerate(call.type.shape) if i != axis)
    first = call.add("Expand", call.number(value, call.type.dtype), call.graph.shape(rest))
    row = call.type._replace(shape=rest)

    def body(*names: Any) -> list[str]:
        return [step(*names)]

    return scan(call, [(first, row)], [(name, row) for name in x], axis, body, inclusive=inclusive)[0]


def _running_product(call: Call) -> str:
    x, inclusive = call.plain_in(0, call.type.dtype), not call.attributes["exclusive"]
    return _scanned(call, [x], 1, lambda g, y, v: g.add("Mul", y, v), inclusive=inclusive)


def _linear_scan_out(call: Call) -> str:
    operands = [call.plain(0), call.plain(1)]
    return _scanned(call, operands, 0, lambda g, y, a, b: g.add("Add", g.add("Mul", a, y), b))


def _ordered_by(call: Call, axis: int, *, largest: bool, count: int) -> list[str]:
    """Return elements and positions of the largest or smallest elements along an axis, in order."""
    dtype, size = call.tensor(0).dtype, call.integers(count)
    inside = "int32" if dtype == "uint8" else dtype
    x = call.plain_in(0, inside)
    y, at = call.graph.several(
        "TopK", x, size, count=2, hint=call.outputs[0], axis=axis, largest=int(largest), sorted=1
    )
    return [call.cast(y, dtype, inside), at]


def _sorted_out(number: int) -> Export:
    def mapped(call: Call) -> str:
        axis = int(call.attributes["axis"]) % call.tensor(0).rank
        size = call.tensor(0).shape[axis]
        if isinstance(size, str):
            raise Unmapped(f"sorts an axis of {size} elements; bind {size!r}")
        return _ordered_by(call, axis, largest=bool(call.attributes["descending"]), count=size)[number]

    return mapped


def _topk_out(call: Call) -> list[str]:
    given = call.attributes
    return _ordered_by(call, int(given["axis"]), largest=bool(given["largest"]), count=int(given["k"]))


def _count_unique_out(call: Call) -> str:
    x = call.graph.reshaped(call.plain(0), (-1,))
    found = call.graph.several("Unique", x, count=1)[0]
    return call.add("Size", found)


def _bincount_out(call: Call) -> str:
    depth = int(call.attributes["depth"])
    x = call.graph.reshaped(call.plain(0), (-1, 1))
    hits = call.cast(call.add("Equal", x, call.graph.constant(np.arange(depth), call.tensor(0).dtype)), "int64")
    return call.add("ReduceSum", hits, call.integers(0), keepdims=0)


IMPORTS: Final[dict[str, Mapping]] = {
    "ReduceSum": _reduction(ops.sum, 13),
    "ReduceMean": _reduction(ops.mean, before=as_float),
    "ReduceMax": _reduction(ops.max, empty="least"),
    "ReduceMin": _reduction(ops.min, empty="most"),
    "ReduceProd": _reduction(ops.prod),
    "ReduceL1": _reduction(ops.sum, before=ops.abs),
    "ReduceL2": _reduction(ops.sum, before=lambda x: ops.square(as_float(x)), after=ops.sqrt),
    "ReduceLogSum": _reduction(ops.sum, before=as_float, after=ops.log),
    "ReduceLogSumExp": _reduction(ops.logsumexp, before=as_float, empty="least"),
    "ReduceSumSquare": _reduction(ops.sum, before=ops.square),
    "ArgMax": _position(ops.argmax),
    "ArgMin": _position(ops.argmin),
    "CumSum": _running(ops.cumsum),
    "CumProd": _running(ops.cumprod),
    "TopK": _topk,
}

EXPORTS: Final[dict[str, Export]] = {
    "sum": _reducing("ReduceSum", through=SUMMED),
    "mean": _reducing("ReduceMean"),
    "max": _reducing("ReduceMax", through=COMPARED),
    "min": _reducing("ReduceMin", through=COMPARED),
    "prod": _reducing("ReduceProd", through=SUMMED),
    "any": _reducing("ReduceSum", through=COMPARED),
    "all": _reducing("ReduceMin", through=COMPARED),
    "logsumexp": _logsumexp_out,
    "variance": _spread,
    "standard_deviation": _spread,
    "norm": _norm_out,
    "argmax": _position_out("ArgMax"),
    "argmin": _position_out("ArgMin"),
    "cumsum": _running_out,
    "cumprod": _running_product,
    "linear_scan": _linear_scan_out,
    "sort": _sorted_out(0),
    "argsort": _sorted_out(1),
    "topk": _topk_out,
    "count_unique": _count_unique_out,
    "bincount": _bincount_out,
}
