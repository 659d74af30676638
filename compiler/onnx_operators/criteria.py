"""Losses."""

# pyright: basic
# onnx is imported by name and has no types here, nor have the lambdas of a table.

from __future__ import annotations

from typing import Any, Final

from compiler.frontends.onnx.node import Mapping, Node, cast, on_plain
from registry import Value, ops


def _cross_entropy(node: Node, scores: Value, labels: Value, weights: Value | None = None) -> Any:
    """Return the loss of classes along axis 1, and the logarithms of the probabilities."""
    is_softmax = node.operator == "SoftmaxCrossEntropyLoss"
    logs = ops.log_softmax(scores, axis=1) if is_softmax else scores
    last = ops.transpose(logs, axis=(0, *range(2, logs.rank), 1)) if logs.rank > 2 else logs
    labels = cast(labels, "int64")
    ignored = node.attribute("ignore_index")
    counts: Value | None = None
    if ignored is not None:
        kept = ops.not_equal(labels, node.new(ignored, "int64"))
        labels, counts = ops.where(kept, labels, node.new(0, "int64")), cast(kept, scores.dtype)
    chosen = ops.take_along_axis(last, ops.unsqueeze(labels, axis=(-1,)), axis=-1)
    loss = -ops.squeeze(chosen, axis=(-1,))
    if weights is not None:
        own = ops.gather(weights, labels)
        counts = own if counts is None else own * counts
    loss = loss if counts is None else loss * counts
    match node.attribute("reduction", "mean"):
        case "sum":
            loss = ops.sum(loss)
        case "mean":
            loss = ops.mean(loss) if counts is None else ops.sum(loss) / ops.sum(counts)
        case _:
            pass
    return (loss, logs) if is_softmax else loss


IMPORTS: Final[dict[str, Mapping]] = {
    "SoftmaxCrossEntropyLoss": on_plain(_cross_entropy),
    "NegativeLogLikelihoodLoss": on_plain(_cross_entropy),
}
