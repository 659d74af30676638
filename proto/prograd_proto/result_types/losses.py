"""Losses and accuracy that have kernels of their own."""

from __future__ import annotations

from prograd_proto.errors import require
from prograd_proto.result_types.rule import rule
from prograd_proto.result_types.shapes import broadcast_type, require_float, show_shape, size_known
from prograd_proto.tensor_types import TensorType

REDUCTIONS = ("mean", "sum", "none")


@rule
def softmax_cross_entropy(logits: TensorType, labels: TensorType, *, reduction: str) -> TensorType:
    require_float(logits)
    _require_labels(logits, labels)
    return TensorType(logits.dtype, _reduced(labels.shape, reduction))


@rule
def squared_error(prediction: TensorType, target: TensorType, *, reduction: str) -> TensorType:
    require_float(prediction)
    require(prediction == target, f"the target is {target}, not {prediction}")
    return TensorType(prediction.dtype, _reduced(prediction.shape, reduction))


@rule
def sigmoid_cross_entropy(
    logits: TensorType, target: TensorType, positive_weights: TensorType | None = None
) -> TensorType:
    require_float(logits)
    require(logits == target, f"the target is {target}, not {logits}")
    if positive_weights is not None:
        y = broadcast_type(logits, positive_weights)
        require(y == logits, f"the positive weights do not broadcast to {logits} but make it {y}")
    return logits


@rule
def accuracy(logits: TensorType, labels: TensorType) -> TensorType:
    _require_labels(logits, labels)
    return TensorType("float32", ())


@rule
def ctc(
    logarithms: TensorType,
    labels: TensorType,
    input_lengths: TensorType | None = None,
    label_lengths: TensorType | None = None,
    *,
    blank: int,
) -> TensorType:
    _require_sequences(logarithms, labels, input_lengths, label_lengths, blank)
    return TensorType(logarithms.dtype, logarithms.shape[:1])


@rule
def ctc_gradient(
    logarithms: TensorType,
    labels: TensorType,
    dy: TensorType,
    input_lengths: TensorType | None = None,
    label_lengths: TensorType | None = None,
    *,
    blank: int,
) -> TensorType:
    _require_sequences(logarithms, labels, input_lengths, label_lengths, blank)
    require(dy == TensorType(logarithms.dtype, logarithms.shape[:1]), f"dy is {dy}")
    return logarithms


def _reduced(shape: tuple[int | str, ...], reduction: str) -> tuple[int | str, ...]:
    require(reduction in REDUCTIONS, f"reduction={reduction!r} is not one of {', '.join(REDUCTIONS)}")
    return shape if reduction == "none" else ()


def _require_labels(logits: TensorType, labels: TensorType) -> None:
    require(labels.dtype in ("int32", "int64"), f"labels are int32 or int64, not {labels.dtype}")
    require(logits.rank >= 1, "the logits have no axis of classes")
    require(_classes(logits) > 0, "there are no classes")
    require(
        labels.shape == logits.shape[:-1],
        f"labels have the shape {show_shape(labels.shape)}, not {show_shape(logits.shape[:-1])}",
    )


def _classes(logits: TensorType) -> int:
    return size_known(logits.shape[-1], "the number of classes")


def _require_sequences(
    x: TensorType, labels: TensorType, input_lengths: TensorType | None, label_lengths: TensorType | None, blank: int
) -> None:
    require_float(x)
    require(x.rank == 3, f"the logarithms are {show_shape(x.shape)}, not [rows, steps, classes]")
    classes = size_known(x.shape[2], "the number of classes")
    require(0 <= blank < classes, f"blank={blank} is not among the classes 0 ... {classes - 1}")
    require(labels.dtype in ("int32", "int64"), f"labels are int32 or int64, not {labels.dtype}")
    require(
        labels.rank == 2 and labels.shape[0] == x.shape[0],
        f"labels have the shape {show_shape(labels.shape)}, not [{x.shape[0]}, labels]",
    )
    for name, lengths in (("input_lengths", input_lengths), ("label_lengths", label_lengths)):
        if lengths is not None:
            require(lengths.dtype in ("int32", "int64"), f"{name} are int32 or int64, not {lengths.dtype}")
            found, wanted = show_shape(lengths.shape), show_shape(x.shape[:1])
            require(lengths.shape == x.shape[:1], f"{name} have the shape {found}, not {wanted}")
