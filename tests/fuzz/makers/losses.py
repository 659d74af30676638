"""Calls of losses."""

from __future__ import annotations

from fuzz.drawing import Draw
from fuzz.makers.table import maker

REDUCTIONS = ["mean", "sum", "none"]


@maker("softmax_cross_entropy", "accuracy")
def labelled(d: Draw) -> None:
    classes = d.int(1, 4)
    shape = d.shape(0, 2)
    logits = d.tensor((*shape, classes))
    labels = d.below(shape, classes)
    if d.chance(0.3):
        d.call("accuracy", logits, labels)
    else:
        d.call("softmax_cross_entropy", logits, labels, reduction=d.choice(REDUCTIONS))


@maker("cross_entropy", "nll")
def cross_entropy(d: Draw) -> None:
    classes = d.int(1, 4)
    shape = tuple(extent or 1 for extent in d.shape(1, 2))
    name = d.choice(["cross_entropy", "nll"])
    logits = d.tensor((*shape, classes), kind="logarithms" if name == "nll" else "normal")
    weights = d.tensor((classes,), logits.dtype, "positive") if d.chance(0.4) else None
    how: dict[str, object] = dict(reduction=d.choice(REDUCTIONS))
    if name == "cross_entropy":
        how["smoothing"] = d.choice([0.0, 0.0, 0.2])
    if name == "cross_entropy" and d.chance(0.4):
        d.call(name, logits, d.tensor(logits.shape, logits.dtype, "probability"), weights, **how)
        return
    if d.chance(0.4):
        how["ignored"] = 0
    d.call(name, logits, d.below(shape, classes), weights, **how)


@maker("linear_cross_entropy")
def linear_cross_entropy(d: Draw) -> None:
    classes, width = d.int(1, 4), d.int(1, 3)
    shape = tuple(extent or 1 for extent in d.shape(1, 2))
    x = d.tensor((*shape, width))
    how: dict[str, object] = dict(reduction=d.choice(REDUCTIONS), parts=d.choice([1, 2, 8]))
    if d.chance(0.4):
        how["ignored"] = 0
    d.call("linear_cross_entropy", x, d.tensor((classes, width), x.dtype), d.below(shape, classes), **how)


@maker("binary_cross_entropy", "binary_cross_entropy_with_logits")
def binary(d: Draw) -> None:
    x = d.any(filled=True)
    target = d.tensor(x.shape, x.dtype, "probability")
    weights = d.beside(x, "positive", into=True) if d.chance(0.3) else None
    reduction = d.choice(REDUCTIONS)
    if d.chance(0.4):
        p = target if d.chance(0.2) else d.tensor(x.shape, x.dtype, "probability")
        d.call("binary_cross_entropy", p, target, weights, reduction=reduction)
        return
    positive = d.beside(x, "positive", into=True) if d.chance(0.3) else None
    d.call("binary_cross_entropy_with_logits", x, target, weights, positive, reduction=reduction)


@maker("sigmoid_cross_entropy")
def sigmoid_cross_entropy(d: Draw) -> None:
    x = d.any()
    target = x if d.chance(0.1) else d.tensor(x.shape, x.dtype, d.choice(["probability", "normal"]))
    d.call("sigmoid_cross_entropy", x, target, d.beside(x, "positive", into=True) if d.chance(0.4) else None)


@maker("kl_divergence")
def kl_divergence(d: Draw) -> None:
    logarithms = d.any(low=1, kind="logarithms", filled=True)
    logarithmic = d.chance(0.4)
    target = d.tensor(logarithms.shape, logarithms.dtype, "normal" if logarithmic else "probability")
    d.call(
        "kl_divergence", logarithms, target, logarithmic=logarithmic, reduction=d.choice([*REDUCTIONS, "batch_mean"])
    )


@maker("squared_error", "absolute_error", "huber", "smooth_l1")
def distances(d: Draw) -> None:
    x = d.any(filled=True)
    y = x if d.chance(0.1) else d.tensor(x.shape, x.dtype)
    name = d.choice(["squared_error", "absolute_error", "huber", "smooth_l1"])
    how = {"huber": {"delta": d.number(0.3, 1.5)}, "smooth_l1": {"beta": d.choice([0.0, 0.4, 1.2])}}.get(name, {})
    d.call(name, x, y, reduction=d.choice(REDUCTIONS), **how)


@maker("hinge", "hinge_embedding", "cosine_embedding", "triplet")
def margins(d: Draw) -> None:
    x = d.any(low=1, filled=True)
    reduction = d.choice(REDUCTIONS)
    match d.int(0, 3):
        case 0:
            d.call("hinge", x, d.fresh(x.shape, x.dtype, "sign"), margin=d.number(0.3, 1.5), reduction=reduction)
        case 1:
            d.call(
                "hinge_embedding", x, d.fresh(x.shape, x.dtype, "sign"), margin=d.number(0.3, 1.5), reduction=reduction
            )
        case 2:
            y = d.tensor(x.shape, x.dtype)
            target = d.fresh(x.shape[:-1], x.dtype, "sign")
            d.call("cosine_embedding", x, y, target, margin=d.number(-0.3, 0.3), reduction=reduction)
        case _:
            y, z = (d.tensor(x.shape, x.dtype) for _ in range(2))
            how = dict(ord=d.choice([2.0, 1.0, 3.0]), swap=d.chance(0.4), margin=d.number(0.3, 1.5))
            d.call("triplet", x, y, z, reduction=reduction, **how)
