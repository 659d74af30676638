"""Losses."""

from __future__ import annotations

from typing import Any, Final

from compiler.exporters.onnx.call import Call, Export, aligned
from compiler.exporters.onnx.tensors import Tensor, channels_first
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


def _labelled_loss(call: Call) -> str:
    """Return a cross entropy at labels; classes are the second axis there."""
    x, rank, reduction = call.tensor(0), call.tensor(0).rank, str(call.attributes["reduction"])
    if rank == 1:
        logits = call.add("Unsqueeze", call.plain(0), call.integers(0))
        labels = call.add("Unsqueeze", call.plain(1), call.integers(0))
        y = call.add("SoftmaxCrossEntropyLoss", logits, labels, reduction=reduction)
        return call.add("Squeeze", y, call.integers(0)) if reduction == "none" else y
    order = channels_first(rank) if rank > 2 else (0, 1)
    return call.add("SoftmaxCrossEntropyLoss", call.graph.ordered(x, order), call.plain(1), reduction=reduction)


def _squared_error_out(call: Call) -> str:
    apart = call.add("Sub", call.plain(0), call.plain(1))
    y = call.add("Mul", apart, apart)
    word = {"mean": "ReduceMean", "sum": "ReduceSum"}.get(str(call.attributes["reduction"]))
    return call.add(word, y, keepdims=0) if word and call.tensor(0).rank else y


def _sigmoid_loss(call: Call) -> Tensor:
    """Return (1 - t) * softplus(x) + t * softplus(-x), which is 0 where the target weights a term by 0."""
    names, order = aligned(call)
    x, target, *weights = names
    one, zero = call.number(1), call.number(0)
    no, yes = (call.add("Softplus", each) for each in (x, call.add("Neg", x)))
    yes = call.add("Mul", yes, weights[0]) if weights else yes
    rest = call.add("Sub", one, target)
    parts = [
        call.add("Where", call.add("Equal", share, zero), zero, call.add("Mul", share, term))
        for share, term in ((rest, no), (target, yes))
    ]
    return call.result(call.add("Add", *parts), order)


def _accuracy_out(call: Call) -> str:
    best = call.add("ArgMax", call.plain(0), axis=-1, keepdims=0)
    hits = call.add("Equal", best, call.plain_in(1, "int64"))
    return call.add("ReduceMean", call.cast(hits, "float32"), keepdims=0)


IMPORTS: Final[dict[str, Mapping]] = {
    "SoftmaxCrossEntropyLoss": on_plain(_cross_entropy),
    "NegativeLogLikelihoodLoss": on_plain(_cross_entropy),
}

EXPORTS: Final[dict[str, Export]] = {
    "softmax_cross_entropy": _labelled_loss,
    "squared_error": _squared_error_out,
    "sigmoid_cross_entropy": _sigmoid_loss,
    "accuracy": _accuracy_out,
}
