"""Softmax, log_softmax and batch normalisation."""

from __future__ import annotations

from prograd_proto import TensorType
from registry.op import op
from registry.ops.fill import count_like
from registry.ops.pointwise import exp, sqrt
from registry.ops.reduce import broadcast_to, sum
from registry.traits import example, follows
from registry.value import Value


@op
def softmax(x: Value, *, axis: int = -1) -> TensorType:
    """Return exp(x), scaled to sum to 1 along `axis`."""
    ...


@softmax.gradient
def softmax_gradient(y: Value, dy: Value, *, axis: int) -> Value:
    return y * (dy - sum(y * dy, axis=(axis,), keepdims=True))


@op
def log_softmax(x: Value, *, axis: int = -1) -> TensorType:
    """Return the logarithm of softmax, accurate where softmax is close to 0."""
    ...


@log_softmax.gradient
def log_softmax_gradient(y: Value, dy: Value, *, axis: int) -> Value:
    return dy - exp(y) * sum(dy, axis=(axis,), keepdims=True)


@follows("x")
@example((2, 2), (2,), (2,), (2,), (2,))
@op(
    "y",
    "new_mean",
    "new_variance",
    "mean",
    "inverse_deviation",
    no_gradient=("running_mean", "running_variance", "new_mean", "new_variance"),
)
def batch_norm(
    x: Value,
    scale: Value,
    bias: Value,
    running_mean: Value,
    running_variance: Value,
    *,
    momentum: float = 0.9,
    epsilon: float = 1e-5,
) -> tuple[TensorType, TensorType, TensorType, TensorType, TensorType]:
    """Return x with each channel of the last axis normalised over the batch, times scale, plus bias.

    A channel gets mean 0 and deviation 1 over all other axes, with inverse_deviation = 1 / sqrt(variance + epsilon);
    the variance is the population variance. The new running statistics are momentum * running + (1 - momentum) * those
    of the batch, as in ONNX. Outside training the running statistics replace the batch's. Ioffe and Szegedy, 2015.
    """
    ...


@batch_norm.gradient
def batch_norm_gradient(
    x: Value,
    scale: Value,
    mean: Value,
    inverse_deviation: Value,
    dy: Value | None,
    dmean: Value | None,
    dinverse_deviation: Value | None,
) -> tuple[Value | None, Value | None, Value | None, None, None]:
    rows = tuple(range(x.rank - 1))
    count = count_like(x, rows)
    unit = (x - mean) * inverse_deviation
    dx = dscale = dbias = None
    if dy is not None:
        dbias, dscale = sum(dy, axis=rows), sum(dy * unit, axis=rows)
        dx = scale * inverse_deviation * (dy - (dbias + unit * dscale) / count)
    if dinverse_deviation is not None:
        through = unit * (-inverse_deviation * inverse_deviation * dinverse_deviation / count)
        dx = through if dx is None else dx + through
    if dmean is not None:
        through = dmean / count
        dx = broadcast_to(through, shape=x.shape) if dx is None else dx + through
    return dx, dscale, dbias, None, None


@batch_norm.inference
def batch_norm_inference(
    x: Value, scale: Value, bias: Value, running_mean: Value, running_variance: Value, *, epsilon: float
) -> tuple[Value, Value, Value, None, None]:
    y = (x - running_mean) * (scale / sqrt(running_variance + epsilon)) + bias
    return y, running_mean, running_variance, None, None
