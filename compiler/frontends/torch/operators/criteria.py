"""Losses."""

from __future__ import annotations

from typing import Any, Final

from compiler.frontends.arranged import Arranged, arranged, ordered, plain, viewed
from compiler.frontends.elements import cast_to, without_products
from compiler.frontends.torch.operators.call import Call, Mapping
from registry import Value, ops

REDUCTIONS: Final = ("none", "mean", "sum")
"""PyTorch's numbers of reductions."""


def cross_entropy(
    call: Call,
    logits: Arranged,
    target: Arranged,
    weights: Arranged | None = None,
    reduction: int = 1,
    ignored: int = -100,
    smoothing: float = 0.0,
) -> Arranged:
    """Return the cross entropy of logits [n, c, ...], whose classes are axis 1."""
    scores = _classes_last(logits)
    given = _classes_last(target) if target.rank == logits.rank else plain(without_products(target))
    if target.rank == logits.rank:
        given = ops.cast(given, dtype=scores.dtype) if given.dtype != scores.dtype else given
    y = ops.cross_entropy(
        scores,
        given,
        None if weights is None else plain(weights),
        smoothing=smoothing,
        ignored=ignored,
        reduction=REDUCTIONS[reduction],
    )
    return _result(call, y, reduction)


def _result(call: Call, y: Value, reduction: int) -> Arranged:
    """Return a number, or the losses of all rows in the shape that PyTorch gives them."""
    return arranged(y) if reduction else viewed(arranged(y), call.shape)


def _classes_last(x: Arranged) -> Value:
    """Return [n, c, ...] as [n, ..., c]; rows [2 * batch, c] of merged axes are [batch, 2, c]."""
    return plain(without_products(x)) if x.rank <= 2 else ordered(x, (0, *range(2, x.rank), 1))


def nll(
    call: Call, x: Arranged, target: Arranged, weights: Any = None, reduction: int = 1, ignored: int = -100
) -> Arranged:
    """Return the negative logarithms of the classes' probabilities, of logarithms [n, c, ...]."""
    given = None if weights is None else plain(weights)
    labels = plain(without_products(target))
    y = ops.nll(_classes_last(x), labels, given, ignored=ignored, reduction=REDUCTIONS[reduction])
    return _result(call, y, reduction)


def _distance(function: Any, *names: str) -> Mapping:
    """Return the mapping of a loss of a prediction and a target; `names` are attributes behind the reduction."""

    def mapped(call: Call, x: Arranged, target: Arranged, reduction: int = 1, *rest: float) -> Arranged:
        given = dict(zip(names, rest, strict=False))
        y = function(plain(x), plain(cast_to(target, x.dtype)), reduction=REDUCTIONS[reduction], **given)
        return arranged(y)

    return mapped


def _binary(call: Call, x: Arranged, target: Arranged, weights: Any = None, reduction: int = 1) -> Arranged:
    given = None if weights is None else plain(weights)
    return arranged(binary_cross_entropy(plain(x), plain(target), given, reduction=REDUCTIONS[reduction]))


def binary_cross_entropy(x: Value, target: Value, weights: Value | None = None, *, reduction: str = "mean") -> Value:
    """Return the cross entropy of probabilities with PyTorch's gradient, (x - target) / max((1 - x) x, 1e-12).

    The logarithms are cut at -100, so their own gradient would be 0 where a probability is 0 or 1.
    """
    p = ops.stop_gradient(x)
    yes, no = ops.maximum(ops.log(p), -100.0), ops.maximum(ops.log1p(-p), -100.0)
    slope = ops.stop_gradient((p - target) / ops.maximum((1.0 - p) * p, 1e-12))
    made = -(target * yes + (1.0 - target) * no) + (x - p) * slope
    made = made if weights is None else made * weights
    if reduction == "none":
        return made
    return ops.sum(made) if reduction == "sum" else ops.mean(made)


def _binary_with_logits(
    call: Call, x: Arranged, target: Arranged, weights: Any = None, positive: Any = None, reduction: int = 1
) -> Arranged:
    given = [None if w is None else plain(w) for w in (weights, positive)]
    y = ops.binary_cross_entropy_with_logits(plain(x), plain(target), *given, reduction=REDUCTIONS[reduction])
    return arranged(y)


def _kl(call: Call, x: Arranged, target: Arranged, reduction: int = 1, *, log_target: bool = False) -> Arranged:
    y = ops.kl_divergence(plain(x), plain(target), logarithmic=log_target, reduction=REDUCTIONS[reduction])
    return arranged(y)


REMEDIES: Final = dict.fromkeys(
    ["aten._ctc_loss.Tensor", "aten._ctc_loss.default", "aten.ctc_loss.Tensor", "aten.ctc_loss.IntList"],
    "leave the loss out of forward, and build it from the module's result with ops.ctc_loss",
)
"""Remedies for losses without a counterpart."""

OPERATORS: Final[dict[str, Mapping]] = {
    "aten.cross_entropy_loss.default": cross_entropy,
    "aten.nll_loss.default": nll,
    "aten.nll_loss_nd.default": nll,
    "aten.nll_loss_forward.default": lambda call, *operands: (nll(call, *operands), None),
    "aten.mse_loss.default": _distance(ops.squared_error),
    "aten.l1_loss.default": _distance(ops.absolute_error),
    "aten.smooth_l1_loss.default": _distance(ops.smooth_l1, "beta"),
    "aten.huber_loss.default": _distance(ops.huber, "delta"),
    "aten.binary_cross_entropy.default": _binary,
    "aten.binary_cross_entropy_with_logits.default": _binary_with_logits,
    "aten.kl_div.default": _kl,
}
