"""Losses of torch.nn as ops, with an input for the target."""

# pyright: basic
# PyTorch is imported by name and has no types here, nor have the lambdas of a table.

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from compiler.build.program import Program
from compiler.errors import CompileError
from compiler.frontends.arranged import Arranged, arranged, plain
from compiler.frontends.torch.operators.criteria import cross_entropy
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
    if name not in LOSSES:
        raise CompileError(f"loss={loss!r} is none of {', '.join(LOSSES)}; build it from program['output'] with ops")
    if getattr(loss, "reduction", "mean") not in ("mean", "sum", "batchmean"):
        raise CompileError(f"loss={loss!r} is no number; use reduction='mean' or 'sum'")
    given = {
        key: weights(f"loss.{key}", tensor)
        for key in ("weight", "pos_weight")
        if (tensor := getattr(loss, key, None)) is not None
    }
    return LOSSES[name](program, loss, x, given)


def _labels(program: Program, loss: Any, x: Arranged, given: dict[str, Value]) -> Value:
    shape = [extent.plain() for axis, extent in enumerate(x.shape) if axis != min(1, x.rank - 1)]
    target = arranged(program.input(TARGET, "int64", shape))
    weights = arranged(given["weight"]) if given else None
    reduction = ("none", "mean", "sum").index(loss.reduction)
    return plain(cross_entropy(None, x, target, weights, reduction, loss.ignore_index, loss.label_smoothing))  # type: ignore[arg-type]


def _log_labels(program: Program, loss: Any, x: Arranged, given: dict[str, Value]) -> Value:
    values = plain(x)
    target = program.input(TARGET, "int64", values.shape[:-1])
    return ops.nll(values, target, given.get("weight"), ignored=loss.ignore_index, reduction=loss.reduction)


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


LOSSES: Final[dict[str, Callable[..., Value]]] = {
    "CrossEntropyLoss": _labels,
    "NLLLoss": _log_labels,
    "MSELoss": _like_result(ops.squared_error),
    "L1Loss": _like_result(ops.absolute_error),
    "SmoothL1Loss": _like_result(ops.smooth_l1, beta="beta"),
    "HuberLoss": _like_result(ops.huber, delta="delta"),
    "BCELoss": _like_result(ops.binary_cross_entropy),
    "BCEWithLogitsLoss": _with_logits,
    "KLDivLoss": _divergence,
}
"""By class of torch.nn, the function that appends its ops."""
