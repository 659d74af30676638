"""The kernel that selects the value of training; the other functions of the family are composed of operators."""

from __future__ import annotations

import numpy as np

from prograd_proto import TensorType
from runtime.kernel import Array, Types, kernel, require, types
from runtime.row_rules import pointwise


def when_training_rule(training: TensorType, prediction: TensorType) -> Types:
    require(prediction == training, f"training is {training}, prediction {prediction}; both have one type")
    return types(training)


@kernel(when_training_rule, in_place=[(0, 0)], halves=True, rows=pointwise)
def when_training(training: Array, prediction: Array, *, out: Array) -> None:
    """Copy `training`: entries that do not train have the inference form, which is the other operand."""
    np.copyto(out, training)
