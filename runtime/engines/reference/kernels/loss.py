"""Losses and accuracy."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from prograd_proto import TensorType
from runtime.engines.reference.kernels.activation import log1p_of_exp
from runtime.engines.reference.kernels.chunks import blocks, vectors
from runtime.engines.reference.kernels.index import check_range, count_up
from runtime.engines.reference.kernels.linalg import as_matrix
from runtime.engines.reference.kernels.windows import chunks, images_at_once
from runtime.kernel import Array, kernel
from runtime.row_rules import Operands, each_operand


def softmax_cross_entropy_scratch(logits: TensorType) -> list[TensorType]:
    rows, classes = prod(logits.static_shape[:-1]), logits.static_shape[-1]
    at_once = images_at_once(rows, classes, logits.dtype)
    types = ((logits.dtype, (at_once, classes)), (logits.dtype, (at_once,)), (logits.dtype, (rows,)))
    return [TensorType(dtype, shape) for dtype, shape in (*types, ("int64", (at_once,)))]


def loss_rows(operands: Operands, result: tuple[int, ...], attributes: Mapping[str, Any]) -> bool:
    return attributes["reduction"] == "none" and each_operand(operands, result, attributes)


@kernel(scratch=softmax_cross_entropy_scratch, rows=loss_rows)
def softmax_cross_entropy(logits: Array, labels: Array, *, reduction: str, out: Array, scratch: list[Array]) -> None:
    x, labels = as_matrix(logits), labels.reshape(-1)
    shifted, picked, loss, places = scratch
    check_range(labels, x.shape[1], "label", "classes")
    for rows in chunks(len(x), len(shifted)):
        count = len(x[rows])
        take_losses(x[rows], labels[rows], loss[rows], shifted[:count], picked[:count], places[:count])
    reduce_to(out, loss, reduction)


def take_losses(x: Array, labels: Array, loss: Array, shifted: Array, picked: Array, places: Array) -> None:
    """Write the loss of each row of logits x; the last three arrays are scratch."""
    np.maximum.reduce(x, axis=1, out=picked)
    np.subtract(x, picked[:, None], shifted)
    count_up(places, x.shape[1])
    np.add(places, labels, places)
    np.take(shifted.reshape(-1), places, None, picked, "clip")  # with "raise" it would fill a buffer first
    np.exp(shifted, shifted)
    np.add.reduce(shifted, axis=1, out=loss)
    np.log(loss, loss)
    np.subtract(loss, picked, loss)


def squared_error_scratch(prediction: TensorType) -> list[TensorType]:
    return [TensorType(prediction.dtype, (prod(prediction.static_shape),))]


@kernel(scratch=squared_error_scratch, rows=loss_rows)
def squared_error(prediction: Array, target: Array, *, reduction: str, out: Array, scratch: list[Array]) -> None:
    [square] = scratch
    np.subtract(prediction.reshape(-1), target.reshape(-1), square)
    np.square(square, square)
    reduce_to(out, square, reduction)


def sigmoid_cross_entropy_scratch(logits: TensorType) -> list[TensorType]:
    return vectors(logits, *[logits.dtype] * 4, "bool")


@kernel(scratch=sigmoid_cross_entropy_scratch, in_place=[(0, 0)])
def sigmoid_cross_entropy(
    logits: Array, target: Array, positive_weights: Array | None, *, out: Array, scratch: list[Array]
) -> None:
    """Compute (1 - t) * (max(x, 0) + c) + t * (max(-x, 0) + c) with c = log(1 + exp(-|x|))."""
    weights = [] if positive_weights is None else [positive_weights]
    for x, share, *more, to, curve, no, yes, room, mask in blocks([logits, target, *weights], out, scratch):
        np.absolute(x, curve)
        np.negative(curve, curve)
        log1p_of_exp(curve, no, yes)
        np.maximum(x, 0, out=no)
        np.minimum(x, 0, out=yes)
        np.negative(yes, yes)
        np.subtract(1, share, room)
        np.isinf(x, mask)
        if mask.any():
            drop(no, room, mask)
            drop(yes, share, mask)
        if more:
            np.add(no, curve, no)
            np.add(yes, curve, yes)
            np.multiply(yes, more[0], yes)
        np.multiply(no, room, no)
        np.multiply(yes, share, yes)
        np.add(no, yes, no)
        np.add(no, 0 if more else curve, to)


def accuracy_scratch(labels: TensorType) -> list[TensorType]:
    return [TensorType("int64", labels.shape), TensorType("bool", labels.shape)]


@kernel(scratch=accuracy_scratch)
def accuracy(logits: Array, labels: Array, *, out: Array, scratch: list[Array]) -> None:
    found, right = scratch
    np.argmax(logits, -1, found)
    np.equal(found, labels, right)
    highest = found.reshape(-1).view(logits.dtype)[: labels.size].reshape(labels.shape)  # memory that is free again
    np.max(logits, -1, highest)
    np.equal(highest, highest, right, where=right)  # NaN is no score
    out.fill(np.count_nonzero(right) / labels.size if labels.size else np.nan)


def drop(term: Array, factor: Array, mask: Array) -> None:
    """Set a term to 0 where its factor is 0, as infinity times 0 is NaN."""
    np.equal(factor, 0, mask)
    np.putmask(term, mask, 0)


def reduce_to(out: Array, loss: Array, reduction: str) -> None:
    """Write a vector of losses, its sum or its mean."""
    if reduction == "none":
        np.copyto(out.reshape(-1), loss)
        return
    np.add.reduce(loss, out=out)
    if reduction == "mean":
        np.divide(out, loss.size, out)
