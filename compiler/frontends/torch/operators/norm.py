"""Normalisation and softmax."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from compiler.errors import CompileError
from compiler.frontends.arranged import (
    Arranged,
    arranged,
    ordered,
    permuted,
    plain,
    pointwise,
    trailing,
    with_broadcast,
)
from compiler.frontends.channels import first, last
from compiler.frontends.reductions import reduced
from compiler.frontends.torch.operators.call import Call, Mapping, along_axis
from registry import Value, ops


def _channel(call: Call, w: Arranged | None, x: Arranged, value: float) -> Value:
    """Return the weights of channels, or a tensor filled with a number if there are no weights."""
    if w is not None:
        return ordered(w, (0,))
    return ops.full.on(call.block)(shape=(x.shape[1].plain(),), value=value, dtype=x.value.dtype)


def _batch_norm(
    call: Call,
    x: Arranged,
    scale: Arranged | None,
    bias: Arranged | None,
    mean: Arranged,
    variance: Arranged,
    training: bool,
    momentum: float,
    epsilon: float,
) -> Any:
    """Return y, mean, deviation and the new running statistics, whose variance divides by one element less."""
    if not training:
        return (_frozen_batch_norm(call, x, scale, bias, mean, variance, epsilon), None, None, mean, variance)
    v, rebuilt = _with_channels_last(x)
    running = ordered(variance, (0,))
    y, new_mean, new_variance, *_ = ops.batch_norm(
        v,
        _channel(call, scale, x, 1.0),
        _channel(call, bias, x, 0.0),
        ordered(mean, (0,)),
        running,
        momentum=1.0 - momentum,
        epsilon=epsilon,
    )
    count = ops.size.on(call.block)(shape=v.shape[:-1], dtype=v.dtype)
    new_variance = ops.lerp(running * (1.0 - momentum), new_variance, count / (count - 1.0))
    if call.in_evaluation:  # the inference form would take the running statistics
        return (*_no_stats(call, x, scale, bias, training, epsilon), arranged(new_mean), arranged(new_variance))
    return (rebuilt(y), None, None, arranged(new_mean), arranged(new_variance))


def _with_channels_last(x: Arranged) -> tuple[Value, Callable[[Value], Arranged]]:
    """Return x with axis 1 at the end, and a function that arranges a result.

    An axis of 2 * batch elements stays split.
    """
    if all(extent.is_plain for extent in x.shape):
        return last(x), first
    order = (0, *range(2, x.rank), 1)
    inverse = [order.index(axis) for axis in range(x.rank)]
    v, rebuilt = trailing(with_broadcast(permuted(x, order), range(x.rank)), 1)
    return v, lambda y: permuted(rebuilt(y), inverse)


def _frozen_batch_norm(
    call: Call,
    x: Arranged,
    scale: Arranged | None,
    bias: Arranged | None,
    mean: Arranged,
    variance: Arranged,
    epsilon: float,
) -> Arranged:
    v, rebuilt = _with_channels_last(x)
    weights = ops.rsqrt(ordered(variance, (0,)) + epsilon)
    if scale is not None:
        weights = weights * ordered(scale, (0,))
    y = (v - ordered(mean, (0,))) * weights
    return rebuilt(y if bias is None else y + ordered(bias, (0,)))


def _no_stats(
    call: Call, x: Arranged, scale: Arranged | None, bias: Arranged | None, training: bool, *rest: float
) -> Any:
    """Return a batch normalisation without running statistics; the result in evaluation is that of training."""
    v, epsilon = last(x), rest[-1]
    places = tuple(range(v.rank - 1))
    centred = v - ops.mean(v, axis=places, keepdims=True)
    y = centred * ops.rsqrt(ops.mean(ops.square(centred), axis=places, keepdims=True) + epsilon)
    y = y if scale is None else y * ordered(scale, (0,))
    return (first(y if bias is None else y + ordered(bias, (0,))), None, None)


def _layer_norm(
    call: Call,
    x: Arranged,
    shape: Sequence[int],
    scale: Arranged | None = None,
    bias: Arranged | None = None,
    epsilon: float = 1e-5,
    *rest: Any,
) -> Arranged:
    value, rebuilt = trailing(x, len(shape))
    given = [None if w is None else plain(w) for w in (scale, bias)]
    return rebuilt(ops.layer_norm(value, *given, axis=-len(shape), epsilon=epsilon)[0])


def _rms_norm(
    call: Call, x: Arranged, shape: Sequence[int], scale: Arranged | None = None, epsilon: float | None = None
) -> Arranged:
    epsilon = {"float32": 2.0**-23, "float64": 2.0**-52}[x.dtype] if epsilon is None else epsilon
    value, rebuilt = trailing(x, len(shape))
    weights = None if scale is None else plain(scale)
    return rebuilt(ops.rms_norm(value, weights, axis=-len(shape), epsilon=epsilon)[0])


def _group_norm(
    call: Call,
    x: Arranged,
    groups: int,
    scale: Arranged | None = None,
    bias: Arranged | None = None,
    epsilon: float = 1e-5,
    *rest: Any,
) -> Arranged:
    given = [None if w is None else ordered(w, (0,)) for w in (scale, bias)]
    return first(ops.group_norm(last(x), *given, groups=groups, epsilon=epsilon)[0])


def _instance_norm(
    call: Call,
    x: Arranged,
    scale: Any,
    bias: Any,
    mean: Any,
    variance: Any,
    use_input: bool,
    momentum: float,
    epsilon: float,
    *rest: Any,
) -> Arranged:
    if mean is not None:
        raise CompileError(
            "torch.export loses the running statistics of InstanceNorm; make it with track_running_stats=False"
        )
    given = [None if w is None else ordered(w, (0,)) for w in (scale, bias)]
    return first(ops.instance_norm(last(x), *given, epsilon=epsilon))


def _vector_norm(
    call: Call, x: Arranged, ord: float = 2, dims: int | Sequence[int] | None = None, keepdim: bool = False, **more: Any
) -> Arranged:
    return reduced(lambda v, axes: ops.norm(v, ord=float(ord), axis=axes, keepdims=True), x, dims, keepdim)


def _pair_distance(
    call: Call, x: Arranged, y: Arranged, p: float = 2.0, epsilon: float = 1e-6, keepdim: bool = False
) -> Arranged:
    """Return the norms of the differences of rows, to each element of which PyTorch adds epsilon."""
    return _vector_norm(call, pointwise(lambda a, b: a - b + epsilon, x, y), p, [-1], keepdim)


def _weight_norm(call: Call, v: Arranged, g: Arranged, dim: int = 0) -> Arranged:
    others = [i for i in range(v.rank) if i != dim]
    if others:
        length = reduced(lambda w, axes: ops.norm(w, axis=axes, keepdims=True), v, others, True)
    else:  # each number of a vector has a length of its own
        length = pointwise(ops.abs, v)
    return pointwise(lambda w, n, s: w * (s / n), v, length, g)


OPERATORS: Final[dict[str, Mapping]] = {
    "aten.softmax.int": along_axis(ops.softmax),
    "aten._softmax.default": along_axis(ops.softmax),
    "aten._safe_softmax.default": along_axis(ops.softmax),
    "aten.log_softmax.int": along_axis(ops.log_softmax),
    "aten._log_softmax.default": along_axis(ops.log_softmax),
    "aten._native_batch_norm_legit_functional.default": _batch_norm,
    "aten._native_batch_norm_legit.no_stats": _no_stats,
    "aten._native_batch_norm_legit_no_training.default": lambda call, x, s, b, m, v, momentum, epsilon: (
        _frozen_batch_norm(call, x, s, b, m, v, epsilon),
        None,
        None,
    ),
    "aten.layer_norm.default": _layer_norm,
    "aten.native_layer_norm.default": lambda call, *operands: (_layer_norm(call, *operands), None, None),
    "aten.rms_norm.default": _rms_norm,
    "aten.group_norm.default": _group_norm,
    "aten.native_group_norm.default": lambda call, x, scale, bias, n, c, hw, groups, epsilon: (
        _group_norm(call, x, groups, scale, bias, epsilon),
        None,
        None,
    ),
    "aten.instance_norm.default": _instance_norm,
    "aten.linalg_vector_norm.default": _vector_norm,
    "aten.dist.default": lambda call, x, y, p=2.0: _vector_norm(call, pointwise(ops.sub, x, y), p),
    "aten.norm.ScalarOpt_dim": _vector_norm,
    "aten.norm.Scalar": _vector_norm,
    "aten.pairwise_distance.default": _pair_distance,
    "aten._weight_norm.default": _weight_norm,
}
