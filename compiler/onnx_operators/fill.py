"""Filled tensors, ranges, triangles of matrices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np

from compiler.exporters.onnx.call import Call, Export, Unmapped
from compiler.exporters.onnx.tensors import Tensor
from compiler.frontends.arranged import Arranged, arranged, expanded
from compiler.frontends.onnx.node import Mapping, Node, carried_dtype, cast, on_plain
from registry import Value, ops


def _trilu(node: Node, x: Value, offset: Value | None = None) -> Value:
    k = node.number(1) if node.has(1) else 0
    if 0 in x.shape:
        return x
    return (ops.triu if node.attribute("upper", 1) else ops.tril)(x, offset=k)


def _constant_of_shape(node: Node) -> Arranged:
    tensor = node.attribute("value")
    number = np.zeros(1, np.float32) if tensor is None else node.walk.tensors.array(tensor)
    shape = node.extents(0)
    return expanded(arranged(node.store(number.reshape(()))), shape)


def _eye_like(node: Node) -> Arranged:
    rows, columns = node.shape()
    dtype, k = node.results[0] or "float32", int(node.attribute("k", 0))
    if not rows.symbols and not columns.symbols:
        return arranged(node.store(np.eye(rows.number, columns.number, k, dtype=dtype)))
    is_on = ops.equal(ops.reshape(node.range(rows), shape=(-1, 1)) + k, node.range(columns))
    return arranged(cast(is_on, carried_dtype(dtype)))


def _range(node: Node) -> Any:
    first, last, step = (node.constant(i).reshape(()) for i in range(3))
    return node.walk.constant(np.arange(first, last, step, dtype=first.dtype))


def _full_out(call: Call) -> Tensor | str:
    dtype, value = call.type.dtype, call.attributes["value"]
    if dtype in ("float16", "bfloat16", "bool") or value == 0:
        name = call.add("Expand", call.number(value, dtype), call.graph.shape(call.type.shape))
    else:
        tensor = call.graph.model.onnx.numpy_helper.from_array(np.array([value], dtype=dtype))
        name = call.add("ConstantOfShape", call.graph.shape(call.type.shape), value=tensor)
    return replace(call.graph.result(name, call.type), is_zero=value == 0)


def _size_out(call: Call) -> str:
    extents = call.attributes["shape"]
    count = call.add("ReduceProd", call.graph.shape(extents), keepdims=0)
    return call.cast(count, call.type.dtype, "int64")


def _range_out(call: Call) -> str:
    """Return a range that is too large for a constant; computed in float64, as the op does."""
    given = call.attributes
    first, last, step = (call.graph.constant(given[name], "float64") for name in ("start", "stop", "step"))
    return call.cast(call.add("Range", first, last, step), call.type.dtype)


def _triangle(upper: int) -> Export:
    def mapped(call: Call) -> str:
        offset = call.graph.constant(int(call.attributes["offset"]), "int64")
        dtype = call.type.dtype
        if call.opset < 14:
            raise Unmapped("needs Trilu, which opset 14 brought")
        inside = "int64" if dtype in ("bool", "uint8", "int32") else dtype
        return call.cast(call.add("Trilu", call.plain_in(0, inside), offset, upper=upper), dtype, inside)

    return mapped


def _eye_out(call: Call) -> str:
    """Return an identity matrix, which repeats along the axes before the last two."""
    *_, rows, columns = (int(extent) for extent in call.type.shape[-2:])
    matrix = np.eye(rows, columns, int(call.attributes["offset"]), dtype=call.type.dtype)
    return call.add("Expand", call.graph.constant(matrix), call.graph.shape(call.type.shape))


IMPORTS: Final[dict[str, Mapping]] = {
    "Trilu": on_plain(_trilu),
    "ConstantOfShape": _constant_of_shape,
    "EyeLike": _eye_like,
    "Range": _range,
}

EXPORTS: Final[dict[str, Export]] = {
    "tril": _triangle(0),
    "triu": _triangle(1),
    "full": _full_out,
    "eye": _eye_out,
    "range": _range_out,
    "size": _size_out,
}
