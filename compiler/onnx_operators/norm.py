"""Normalisation and softmax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from compiler.exporters.onnx.call import Call, Export
from compiler.exporters.onnx.tensors import Tensor, channels_first
from compiler.frontends.arranged import (
    Arranged,
    arranged,
    like,
    ordered,
    plain,
    pointwise,
    single,
    trailing,
    viewed,
)
from compiler.frontends.channels import first, last
from compiler.frontends.elements import cast_to
from compiler.frontends.extents import product
from compiler.frontends.onnx.node import Mapping, Node, cast
from compiler.frontends.reductions import reduced
from compiler.onnx_operators.conv import channels
from registry import Value, ops


def _softmax(function: Any) -> Mapping:
    """Return the mapping of a function along an axis; before opset 13, along all axes from it on, flattened."""

    def mapped(node: Node) -> Arranged:
        x = node.tensor(0)
        if x.rank == 0:
            return x
        axis = node.axis(default=-1 if node.version >= 13 else 1)
        if node.version < 13 and axis != x.rank - 1:
            flat = viewed(x, (*x.shape[:axis], product(x.shape[axis:])))
            return viewed(_along(function, flat, axis), x.shape)
        return _along(function, x, axis)

    return mapped


def _along(function: Any, x: Arranged, axis: int) -> Arranged:
    x, [place] = single(x, [axis])
    return like(x, function(x.value, axis=place))


def _hardmax(x: Value, *, axis: int) -> Value:
    at = ops.unsqueeze(ops.argmax(x, axis=axis), axis=(axis,))
    shape = tuple(extent if i == axis else 1 for i, extent in enumerate(x.shape))
    steps = ops.cumsum(ops.full.on(x.block)(shape=shape, value=1, dtype="int64"), axis=axis, exclusive=True)
    return cast(ops.equal(at, steps), x.dtype)


def _batch_norm(node: Node) -> Any:
    """Return a batch normalisation; if its statistics are states, training updates them by the batches."""
    x, scale, bias, mean, variance = (node.tensor(i) for i in range(5))
    epsilon, momentum = float(node.attribute("epsilon", 1e-5)), float(node.attribute("momentum", 0.9))
    if node.attribute("training_mode", 0) or (node.version < 14 and node.wants(1)):
        return _by_batch(x, scale, bias, mean, variance, epsilon, momentum)
    if (
        node.walk.is_state(mean)
        and node.walk.is_state(variance)
        and x.rank >= 2
        and x.dtype == mean.dtype
        and mean.rank == 1
    ):
        y, new_mean, new_variance, *_ = ops.batch_norm(
            last(x),
            ordered(scale, (0,)),
            ordered(bias, (0,)),
            ordered(mean, (0,)),
            ordered(variance, (0,)),
            momentum=momentum,
            epsilon=epsilon,
        )
        node.walk.updates += [(mean, arranged(new_mean)), (variance, arranged(new_variance))]
        return first(y)
    dtype = x.dtype
    weights = pointwise(lambda v, s: cast(s, v.dtype) * ops.rsqrt(v + epsilon), variance, scale)
    x, bias = cast_to(x, mean.dtype), cast_to(bias, mean.dtype)
    mean, weights, bias = (channels(w, x.rank) if w.rank == 1 < x.rank else w for w in (mean, weights, bias))
    y = pointwise(lambda v, m, w, b: (v - m) * w + b, x, mean, weights, bias)
    return cast_to(y, dtype)


def _by_batch(
    x: Arranged, scale: Arranged, bias: Arranged, mean: Arranged, variance: Arranged, epsilon: float, momentum: float
) -> Any:
    v = last(x)
    axes = tuple(range(v.rank - 1))
    own_mean, own_variance = ops.mean(v, axis=axes), ops.variance(v, axis=axes)
    y = (v - own_mean) * (ops.rsqrt(own_variance + epsilon) * ordered(scale, (0,))) + ordered(bias, (0,))
    running = [
        arranged(ordered(old, (0,)) * momentum + new * (1.0 - momentum))
        for old, new in ((mean, own_mean), (variance, own_variance))
    ]
    return (first(y), *running)


def _instance_norm(node: Node) -> Arranged:
    scale, bias = (ordered(node.tensor(i), (0,)) for i in (1, 2))
    return first(ops.instance_norm(last(node.tensor(0)), scale, bias, epsilon=float(node.attribute("epsilon", 1e-5))))


def _group_norm(node: Node) -> Arranged:
    x, groups = node.tensor(0), int(node.attribute("num_groups"))
    size = x.shape[1].number
    scale, bias = (ordered(node.tensor(i), (0,)) for i in (1, 2))
    if scale.shape[0] == groups != size:  # opset 18: one for each group
        scale, bias = (ops.repeat(w, count=size // groups, axis=0) for w in (scale, bias))
    y = ops.group_norm(last(x), scale, bias, groups=groups, epsilon=float(node.attribute("epsilon", 1e-5)))
    return first(y[0])


def _layer_norm(node: Node) -> Any:
    x, axis = node.tensor(0), node.axis(default=-1)
    count = x.rank - axis
    value, rebuilt = trailing(x, count)
    given = [None if w is None else _wide(w, x, count) for w in (node.optional(1), node.optional(2))]
    y, mean, deviation = ops.layer_norm(value, *given, axis=-count, epsilon=float(node.attribute("epsilon", 1e-5)))
    return tuple(rebuilt(each) for each in (y, mean, deviation))


def _rms_norm(node: Node) -> Arranged:
    x, axis = node.tensor(0), node.axis(default=-1)
    count = x.rank - axis
    value, rebuilt = trailing(x, count)
    scale = cast(_wide(node.tensor(1), x, count), value.dtype)
    return rebuilt(ops.rms_norm(value, scale, axis=-count, epsilon=float(node.attribute("epsilon", 1e-5)))[0])


def _wide(w: Arranged, x: Arranged, count: int) -> Value:
    """Return weights with the last axes of a tensor."""
    shape = tuple(extent.plain() for extent in x.shape[x.rank - count :])
    value = plain(w)
    if value.rank > count:
        value = ops.reshape(value, shape=value.shape[value.rank - count :])
    return value if value.shape == shape else ops.broadcast_to(value, shape=shape)


def _skip_layer_norm(node: Node) -> Any:
    """Return a layer normalisation of a sum; operands are x, skip, scale, bias and bias of the sum."""
    simplified = "Simplified" in node.operator
    x = pointwise(ops.add, node.tensor(0), node.tensor(1))
    extra = node.optional(3 if simplified else 4)
    x = x if extra is None else pointwise(ops.add, x, extra)
    value, rebuilt = trailing(x, 1)
    epsilon = float(node.attribute("epsilon", 1e-12 if not simplified else 1e-6))
    if simplified:
        return rebuilt(ops.rms_norm(value, node.value(2), epsilon=epsilon)[0]), None, None, x
    bias = node.optional_value(3)
    return rebuilt(ops.layer_norm(value, node.value(2), bias, epsilon=epsilon)[0]), None, None, x


def _mean_variance(node: Node) -> Arranged:
    axes = list(node.attribute("axes", [0, 2, 3]))

    def function(v: Value, places: tuple[int, ...]) -> Value:
        return ops.mean(v, axis=places, keepdims=True)

    x = node.tensor(0)
    centred = pointwise(ops.sub, x, reduced(function, x, axes, keepdim=True))
    variance = reduced(function, pointwise(ops.square, centred), axes, keepdim=True)
    return pointwise(lambda c, v: c / (ops.sqrt(v) + 1e-9), centred, variance)


def _lp_normalization(node: Node) -> Arranged:
    x, p, axis = node.tensor(0), float(node.attribute("p", 2)), node.axis(default=-1)
    size = reduced(lambda v, axes: ops.norm(v, ord=p, axis=axes, keepdims=True), x, axis, keepdim=True)
    return pointwise(lambda v, n: v / ops.where(ops.equal(n, 0.0), n * 0.0 + 1.0, n), x, size)


def _response_norm(node: Node) -> Arranged:
    return first(
        ops.local_response_norm(
            last(node.tensor(0)),
            size=int(node.attribute("size")),
            alpha=float(node.attribute("alpha", 1e-4)),
            beta=float(node.attribute("beta", 0.75)),
            bias=float(node.attribute("bias", 1.0)),
        )
    )


def _dropout(node: Node) -> Any:
    """Return a dropout, which draws in training; the model as the file has it predicts."""
    x = node.tensor(0)
    if node.wants(1):
        return x, arranged(node.full([e.plain() for e in x.shape], 1, "bool"))
    given = node.constant(1).reshape(()) if node.version >= 12 and node.has(1) else node.attribute("ratio", 0.5)
    ratio = float(given)
    return pointwise(lambda v: ops.dropout(v, ratio=ratio), x) if 0 < ratio < 1 else x


def _along_axis(op_type: str) -> Export:
    """Return the mapping of a function along an axis, which the graph's tensor has where its order says."""

    def mapped(call: Call) -> Tensor:
        order = call.tensor(0).order
        axis = order.index(int(call.attributes["axis"]) % len(order))
        return call.result(call.add(op_type, call.ordered(0, order), axis=axis), order)

    return mapped


def batch_norm_out(call: Call) -> Tensor | None:
    """Return (x - mean) * (scale / sqrt(variance + epsilon)) + bias, in both of its forms, as a BatchNormalization."""
    product = call.made_by(0, "mul")
    apart = product.made_by(0, "sub") if product is not None else None
    share = product.made_by(1, "div", "mul") if product is not None else None
    root = share.made_by(1, "sqrt" if share.op_type == "div" else "rsqrt") if share is not None else None
    total = root.made_by(0, "add") if root is not None else None
    if apart is None or share is None or total is None:
        return None
    x, mean, scale, bias, variance = apart.tensor(0), apart.tensor(1), share.tensor(0), call.tensor(1), total.tensor(0)
    epsilon = total.tensor(1)
    statistics = (scale, bias, mean, variance)
    if x.rank < 2 or x.type != call.type or any(v.shape != x.shape[-1:] for v in statistics):
        return None
    if epsilon.array is None or epsilon.origins or epsilon.array.size != 1 or x.dtype != "float32":
        return None
    graph, order = call.graph, channels_first(x.rank)
    names = [graph.plain(v) for v in statistics]
    name = call.add("BatchNormalization", graph.ordered(x, order), *names, epsilon=float(epsilon.array.reshape(-1)[0]))
    return call.result(name, order)


def _layer_norm_out(call: Call) -> list[str]:
    axis, epsilon = int(call.attributes["axis"]) % call.tensor(0).rank, float(call.attributes["epsilon"])
    rank, dtype = call.tensor(0).rank, call.type.dtype
    scale = (
        call.plain(1) if call.has(1) else call.add("Expand", call.number(1.0), call.graph.shape(call.type.shape[axis:]))
    )
    bias = call.plain(2) if call.has(2) else ""
    if call.opset >= 17 and dtype == "float32":  # the operator computes statistics of doubles in float32
        operands = [name for name in (call.plain(0), scale, bias) if name]
        return call.graph.several(
            "LayerNormalization", *operands, count=3, hint=call.outputs[0], axis=axis, epsilon=epsilon
        )
    y, mean, inverse = _standardized(call, call.plain(0), tuple(range(axis, rank)), epsilon)
    y = call.add("Mul", y, scale)
    return [call.add("Add", y, bias) if bias else y, mean, inverse]


def _mean_of(call: Call, x: str, axes: Sequence[int]) -> str:
    if call.opset >= 18:
        return call.add("ReduceMean", x, call.integers(*axes), keepdims=1)
    return call.add("ReduceMean", x, axes=list(axes), keepdims=1)


def _standardized(call: Call, x: str, axes: Sequence[int], epsilon: float) -> list[str]:
    """Return a tensor with mean 0 and deviation 1 over axes, the mean, and 1 / deviation."""
    mean = _mean_of(call, x, axes)
    apart = call.add("Sub", x, mean)
    variance = _mean_of(call, call.add("Mul", apart, apart), axes)
    inverse = call.add("Reciprocal", call.add("Sqrt", call.add("Add", variance, call.number(epsilon))))
    return [call.add("Mul", apart, inverse), mean, inverse]


def _rms_norm_out(call: Call) -> list[str]:
    x, rank = call.plain(0), call.tensor(0).rank
    axis, epsilon = int(call.attributes["axis"]) % rank, float(call.attributes["epsilon"])
    alone = not call.walk.readers.get(call.outputs[1])
    if call.opset >= 23 and alone and call.has(1) and call.type.dtype == "float32":
        return [call.add("RMSNormalization", x, call.plain(1), axis=axis, epsilon=epsilon)]
    squares = _mean_of(call, call.add("Mul", x, x), tuple(range(axis, rank)))
    inverse = call.add("Reciprocal", call.add("Sqrt", call.add("Add", squares, call.number(epsilon))))
    y = call.add("Mul", x, inverse)
    return [call.add("Mul", y, call.plain(1)) if call.has(1) else y, inverse]


def _group_norm_out(call: Call) -> list[Any]:
    """Return a normalisation by groups of channels; its statistics are computed by nodes of their own if read."""
    x, groups, epsilon = call.tensor(0), int(call.attributes["groups"]), float(call.attributes["epsilon"])
    channels, order = int(x.shape[-1]), channels_first(x.rank)
    scale = call.plain(1) if call.has(1) else call.graph.constant(np.ones(channels), x.dtype)
    bias = call.plain(2) if call.has(2) else call.graph.constant(np.zeros(channels), x.dtype)
    if any(call.walk.readers.get(name) for name in call.outputs[1:]):
        return _grouped_by_nodes(call, groups, epsilon, scale, bias)
    held = call.graph.ordered(x, order)
    if call.opset >= 21 and x.rank > 2 and x.dtype == "float32":  # as for layers: statistics in float32
        names = (held, scale, bias)
        return [call.result(call.add("GroupNormalization", *names, num_groups=groups, epsilon=epsilon), order)]
    if x.rank > 2 and groups == channels:
        return [call.result(call.add("InstanceNormalization", held, scale, bias, epsilon=epsilon), order)]
    return _grouped_by_nodes(call, groups, epsilon, scale, bias)


def _grouped_by_nodes(call: Call, groups: int, epsilon: float, scale: str, bias: str) -> list[Any]:
    """Return a normalisation by groups and its statistics, channels last."""
    x, rank = call.tensor(0), call.tensor(0).rank
    shape = (*x.shape[:-1], groups, int(x.shape[-1]) // groups)
    parts = call.graph.reshaped(call.plain(0), shape)
    y, *statistics = _standardized(call, parts, (*range(1, rank - 1), rank), epsilon)
    y = call.add("Add", call.add("Mul", call.graph.reshaped(y, x.shape), scale), bias)
    return [y, *statistics]


IMPORTS: Final[dict[str, Mapping]] = {
    "BatchNormalization": _batch_norm,
    "InstanceNormalization": _instance_norm,
    "GroupNormalization": _group_norm,
    "LayerNormalization": _layer_norm,
    "RMSNormalization": _rms_norm,
    "SimplifiedLayerNormalization": _rms_norm,
    "com.microsoft.SkipLayerNormalization": _skip_layer_norm,
    "com.microsoft.SkipSimplifiedLayerNormalization": _skip_layer_norm,
    "MeanVarianceNormalization": _mean_variance,
    "LpNormalization": _lp_normalization,
    "LRN": _response_norm,
    "Softmax": _softmax(ops.softmax),
    "LogSoftmax": _softmax(ops.log_softmax),
    "Hardmax": _softmax(_hardmax),
    "Dropout": _dropout,
}

EXPORTS: Final[dict[str, Export]] = {
    "softmax": _along_axis("Softmax"),
    "log_softmax": _along_axis("LogSoftmax"),
    "layer_norm": _layer_norm_out,
    "rms_norm": _rms_norm_out,
    "group_norm": _group_norm_out,
}
