"""Losses and accuracy."""

from __future__ import annotations

from math import prod

import numpy as np

from prograd_proto import TensorType
from prograd_proto.dtypes import FLOATS
from runtime.errors import ExecutionError
from runtime.kernel import Array, Types, kernel, require, types
from runtime.kernels.index import count_up
from runtime.kernels.linalg import as_matrix


def softmax_cross_entropy_rule(logits: TensorType, labels: TensorType, *, reduction: str) -> Types:
    require(logits.dtype in FLOATS, f"the logits are {logits}; they must be of a float dtype")
    require_labels(logits, labels)
    rows = (prod(labels.static_shape),)
    vectors = [TensorType(logits.dtype, rows), TensorType(logits.dtype, rows), TensorType("int64", rows)]
    y = TensorType(logits.dtype, reduced(labels, reduction))
    return types(y, scratch=[logits, *vectors])


@kernel(softmax_cross_entropy_rule)
def softmax_cross_entropy(logits: Array, labels: Array, *, reduction: str, out: Array, scratch: list[Array]) -> None:
    x, labels, shifted = as_matrix(logits), labels.reshape(-1), as_matrix(scratch[0])
    _, picked, loss, places = scratch
    check_labels(labels, x.shape[1])
    np.maximum.reduce(x, axis=1, out=picked)
    np.subtract(x, picked[:, None], shifted)
    count_up(places, x.shape[1])
    np.add(places, labels, places)
    np.take(shifted.reshape(-1), places, None, picked, "clip")  # with "raise" it would fill a buffer first
    np.exp(shifted, shifted)
    np.add.reduce(shifted, axis=1, out=loss)
    np.log(loss, loss)
    np.subtract(loss, picked, loss)
    reduce_to(out, loss, reduction)


def squared_error_rule(prediction: TensorType, target: TensorType, *, reduction: str) -> Types:
    require(prediction.dtype in FLOATS, f"the prediction is {prediction}; it must be of a float dtype")
    require(prediction == target, f"the target is {target}, not {prediction}")
    flat = TensorType(prediction.dtype, (prod(prediction.static_shape),))
    return types(TensorType(prediction.dtype, reduced(prediction, reduction)), scratch=[flat])


@kernel(squared_error_rule)
def squared_error(prediction: Array, target: Array, *, reduction: str, out: Array, scratch: list[Array]) -> None:
    [square] = scratch
    np.subtract(prediction.reshape(-1), target.reshape(-1), square)
    np.square(square, square)
    reduce_to(out, square, reduction)


def accuracy_rule(logits: TensorType, labels: TensorType) -> Types:
    require_labels(logits, labels)
    scratch = [TensorType("int64", labels.shape), TensorType("bool", labels.shape)]
    return types(TensorType("float32", ()), scratch=scratch)


@kernel(accuracy_rule)
def accuracy(logits: Array, labels: Array, *, out: Array, scratch: list[Array]) -> None:
    found, right = scratch
    np.argmax(logits, -1, found)
    np.equal(found, labels, right)
    out.fill(np.count_nonzero(right) / labels.size if labels.size else np.nan)


def reduced(x: TensorType, reduction: str) -> tuple[int | str, ...]:
    """The shape of a loss with one element for each of x."""
    require(reduction in ("mean", "sum", "none"), f"reduction {reduction!r} is not mean, sum or none")
    return x.shape if reduction == "none" else ()


def reduce_to(out: Array, loss: Array, reduction: str) -> None:
    """Write a vector of losses, its sum or its mean."""
    if reduction == "none":
        np.copyto(out.reshape(-1), loss)
        return
    np.add.reduce(loss, out=out)
    if reduction == "mean":
        np.divide(out, loss.size, out)


def require_labels(logits: TensorType, labels: TensorType) -> None:
    """Raise ProgramError unless there is an integer label for each row of the logits."""
    require(labels.dtype in ("int32", "int64"), f"labels is {labels}; it must be int32 or int64")
    require(logits.rank >= 1 and logits.static_shape[-1] > 0, f"the logits are {logits}, which has no classes")
    require(labels.shape == logits.shape[:-1], f"labels is {labels}, the logits are {logits}")


def check_labels(labels: Array, classes: int) -> None:
    """Raise ExecutionError unless every label is in 0 ... classes - 1."""
    if not labels.size:
        return
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= classes:
        raise ExecutionError(f"label {low if low < 0 else high} is out of range: there are {classes} classes, from 0")
