"""Losses and accuracy that have kernels of their own."""

from __future__ import annotations

from prograd_proto import TensorType
from prograd_proto.result_types.shapes import size_known
from registry.op import op
from registry.ops.activation import softplus
from registry.ops.fill import count_like
from registry.ops.index import one_hot
from registry.ops.norm import softmax
from registry.ops.pointwise import equal, sigmoid, where
from registry.ops.reduce import sum_to
from registry.ops.shape import reshape
from registry.traits import example, stops
from registry.value import Value


@stops
@example((2, 2), (2,))
@op
def softmax_cross_entropy(logits: Value, labels: Value, *, reduction: str = "mean") -> TensorType:
    """Return minus log softmax of the logits at the label over the last axis, reduced by `reduction`.

    Labels are int32 or int64, of the shape of the logits without the last axis; a label that is not in
    0 ... classes - 1 stops the run.
    """
    ...


@softmax_cross_entropy.gradient
def softmax_cross_entropy_gradient(logits: Value, labels: Value, dy: Value, *, reduction: str) -> tuple[Value, None]:
    hot = one_hot(labels, depth=size_known(logits.shape[-1], "the number of classes"), dtype=logits.dtype)
    if reduction == "none":
        share = reshape(dy, shape=(*dy.shape, 1))
    else:
        share = dy / count_like(logits, tuple(range(labels.rank))) if reduction == "mean" else dy
    return (softmax(logits) - hot) * share, None


@op
def squared_error(prediction: Value, target: Value, *, reduction: str = "mean") -> TensorType:
    """Return (prediction - target) ** 2 of two tensors of one type, reduced by `reduction`."""
    ...


@squared_error.gradient
def squared_error_gradient(prediction: Value, target: Value, dy: Value, *, reduction: str) -> tuple[Value, Value]:
    share = dy / count_like(prediction, tuple(range(prediction.rank))) if reduction == "mean" else dy
    dprediction = (prediction - target) * (share * 2.0)
    return dprediction, -dprediction


@op
def sigmoid_cross_entropy(logits: Value, target: Value, positive_weights: Value | None = None) -> TensorType:
    """Return the elementwise binary cross entropy (1 - t) * softplus(x) + t * softplus(-x) of sigmoid(x).

    The target t has the type of the logits x. `positive_weights`, which broadcast to it, multiply the second term. The
    result is accurate for logits of any size: a term that the target weights by 0 is 0, at infinity too.
    """
    ...


@sigmoid_cross_entropy.gradient
def sigmoid_cross_entropy_gradient(
    logits: Value, target: Value, positive_weights: Value | None, dy: Value
) -> tuple[Value, Value, Value | None]:
    if positive_weights is None:
        return dy * (sigmoid(logits) - target), -dy * logits, None
    no, yes = softplus(logits), softplus(-logits)
    dlogits = (1.0 - target) * sigmoid(logits) - target * positive_weights * sigmoid(-logits)
    share = target * where(equal(target, 0.0), 0.0, yes)
    return dy * dlogits, dy * (positive_weights * yes - no), sum_to(dy * share, positive_weights)


@example((2, 2), (2,))
@op(differentiable=False)
def accuracy(logits: Value, labels: Value) -> TensorType:
    """Return the share of rows whose first largest logit is at the label; float32. Rows with NaN count as wrong."""
    ...
