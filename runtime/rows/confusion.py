"""Arrays that count predictions by label and class."""

from __future__ import annotations

from runtime.dtypes import Array


def is_confusion(array: Array) -> bool:
    """Return True for an array that may be a confusion matrix: whole numbers[classes, classes]."""
    return array.ndim == 2 and array.shape[0] == array.shape[1] >= 2 and array.dtype.kind in "iu"
