"""Losses of torch.nn as ops, with an input for the target."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from compiler.build.program import Program
from compiler.errors import CompileError
from compiler.frontends.arranged import Arranged, arranged, plain
from compiler.frontends.torch.operators.criteria import REDUCTIONS, binary_cross_entropy, cross_entropy, nll
from registry import Value, ops

TARGET: Final = "target"
"""Name of the input that a loss compares the module's result with."""


def append_loss(program: Program, loss: Any, x: Arranged, weights: Callable[[str, Any], Value]) -> Value:
    """Append a loss of torch.nn between a result of the module and a new input; return the scalar.

    Args:
        program: gets the input `target`: labels of classes, or a tensor like the result.
        loss: a module such as torch.nn.CrossEntropyLoss(label_smoothing=0.1).
        x: the result, with the axes of the module.
        weights: declares a buffer with that name and tensor as its initial value.

    Raises CompileError for another module, or a reduction to anything but a number.
    """
    name = type(loss).__name__
    if name in ELSEWHERE:
        raise CompileError(f"loss={name} {ELSEWHERE[name]}")
    if name not in LOSSES:
        known = ", ".join(LOSSES)
        raise CompileError(f"loss={loss!r} is none of {known}; give inputs= an example 'target', or build it with ops")
    if getattr(loss, "reduction", "mean") not in ("mean", "sum", "batchmean"):
        raise CompileError(f"loss={loss!r} is no number; use reduction='mean' or 'sum'")
    given = {
        key: weights(f"loss.{key}", tensor)
        for key in ("weight", "pos_weight")
        if (tensor := getattr(loss, key, None)) is not None
    }
    return LOSSES[name](program, loss, x, given)


def _labels(program: Program, loss: Any, x: Arranged, given: dict[str, Value]) -> Value:
    weights = arranged(given["weight"]) if given else None
    reduction = REDUCTIONS.index(loss.reduction)
    target = _classes(program, x)
    return plain(cross_entropy(None, x, target, weights, reduction, loss.ignore_index, loss.label_smoothing))  # type: ignore[arg-type]


def _log_labels(program: Program, loss: Any, x: Arranged, given: dict[str, Value]) -> Value:
    weights = arranged(given["weight"]) if given else None
    return plain(nll(None, x, _classes(program, x), weights, REDUCTIONS.index(loss.reduction), loss.ignore_index))  # type: ignore[arg-type]


def _classes(program: Program, x: Arranged) -> Arranged:
    """Return an input for the classes of a result [n, c, ...]; one without rows is [c]."""
    shape = [extent.plain() for axis, extent in enumerate(x.shape) if axis != min(1, x.rank - 1)]
    return arranged(program.input(TARGET, "int64", shape))


def _like_result(function: Any, **names: str) -> Callable[..., Value]:
    """Return a loss whose target has the type of the result; `names` are the attributes by their words in torch.nn."""

    def appended(program: Program, loss: Any, x: Arranged, given: dict[str, Value]) -> Value:
        values = plain(x)
        target = program.input(TARGET, values.dtype, values.shape)
        more = {ours: getattr(loss, theirs) for theirs, ours in names.items()}
        return function(values, target, *given.values(), reduction=loss.reduction, **more)

    return appended


def _with_logits(program: Program, loss: Any, x: Arranged, given: dict[str, Value]) -> Value:
    values = plain(x)
    target = program.input(TARGET, values.dtype, values.shape)
    return ops.binary_cross_entropy_with_logits(
        values, target, given.get("weight"), given.get("pos_weight"), reduction=loss.reduction
    )


def _divergence(program: Program, loss: Any, x: Arranged, given: dict[str, Value]) -> Value:
    values = plain(x)
    target = program.input(TARGET, values.dtype, values.shape)
    reduction = "batch_mean" if loss.reduction == "batchmean" else str(loss.reduction)
    return ops.kl_divergence(values, target, logarithmic=loss.log_target, reduction=reduction)


def _of_elements(function: Callable[[Value, Value, Any], Value]) -> Callable[..., Value]:
    """Return a loss that is the mean or sum of a function of each element of the result and the target."""

    def appended(program: Program, loss: Any, x: Arranged, given: dict[str, Value]) -> Value:
        values = plain(x)
        target = program.input(TARGET, values.dtype, values.shape)
        return _reduced(function(values, target, loss), loss)

    return appended


def _reduced(rows: Value, loss: Any) -> Value:
    return ops.sum(rows) if loss.reduction == "sum" else ops.mean(rows)


def _poisson(x: Value, target: Value, loss: Any) -> Value:
    """Return the negative log likelihood of counts; `full` adds Stirling's formula of log(target!) above 1."""
    made = ops.exp(x) - target * x if loss.log_input else x - target * ops.log(x + loss.eps)
    if not loss.full:
        return made
    large = ops.where(target > 1.0, target, 1.0)
    factorial = large * ops.log(large) - large + 0.5 * ops.log(2.0 * math.pi * large)
    return made + ops.where(target > 1.0, factorial, 0.0)


def _many_labels(program: Program, loss: Any, x: Arranged, given: dict[str, Value]) -> Value:
    """Return the mean over classes, the last axis, of binary cross entropies of logits."""
    values = plain(x)
    target = program.input(TARGET, values.dtype, values.shape)
    each = ops.softplus(values) - target * values
    each = each * given["weight"] if given else each
    return _reduced(ops.mean(each, axis=(-1,)), loss)


def _margins(program: Program, loss: Any, x: Arranged, given: dict[str, Value]) -> Value:
    """Return the mean over classes of max(0, margin - right + other) ** p; the right class counts nothing."""
    values = plain(x)
    labels = program.input(TARGET, "int64", values.shape[:-1])
    is_right = ops.equal(ops.one_hot(labels, depth=x.shape[-1].number), 1)
    right = ops.sum(ops.where(is_right, values, 0.0), axis=(-1,), keepdims=True)
    above = ops.relu(loss.margin - right + values)
    above = above if loss.p == 1 else ops.square(above)
    if given:
        above = above * ops.unsqueeze(ops.gather(given["weight"], labels, axis=0), axis=(-1,))
    return _reduced(ops.mean(ops.where(is_right, 0.0, above), axis=(-1,)), loss)


ELSEWHERE: Final = {
    **dict.fromkeys(
        ("CosineEmbeddingLoss", "MarginRankingLoss", "TripletMarginLoss", "TripletMarginWithDistanceLoss",
         "LinearCrossEntropyLoss"),
        "compares several tensors; call it inside the module, whose result is then the loss",
    ),
    "GaussianNLLLoss": "compares results with a target and variances; build it from the results with ops",
    "CTCLoss": "needs lengths of rows; build it from program['output'] with ops.ctc_loss",
    "AdaptiveLogSoftmaxWithLoss": "has weights of its own and picks rows by data; use torch.nn.CrossEntropyLoss",
    "MultiLabelMarginLoss": "has labels of unequal number in a row; use torch.nn.MultiLabelSoftMarginLoss",
}  # fmt: skip
"""For each class of torch.nn, the reason why the loss cannot compare one result with one target, and a remedy."""

LOSSES: Final[dict[str, Callable[..., Value]]] = {
    "CrossEntropyLoss": _labels,
    "NLLLoss": _log_labels,
    "MSELoss": _like_result(ops.squared_error),
    "L1Loss": _like_result(ops.absolute_error),
    "SmoothL1Loss": _like_result(ops.smooth_l1, beta="beta"),
    "HuberLoss": _like_result(ops.huber, delta="delta"),
    "BCELoss": _like_result(binary_cross_entropy),
    "BCEWithLogitsLoss": _with_logits,
    "KLDivLoss": _divergence,
    "PoissonNLLLoss": _of_elements(_poisson),
    "SoftMarginLoss": _of_elements(lambda x, target, loss: ops.softplus(-target * x)),
    "HingeEmbeddingLoss": _like_result(ops.hinge_embedding, margin="margin"),
    "MultiLabelSoftMarginLoss": _many_labels,
    "MultiMarginLoss": _margins,
}
"""By class of torch.nn, the function that appends its ops."""
