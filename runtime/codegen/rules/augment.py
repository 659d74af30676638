"""The choice between training and prediction, which is a copy in entries that train."""

from __future__ import annotations

from runtime.codegen.ir import Value
from runtime.codegen.rules.rule import ALL_DTYPES, pointwise


def when_training(training: Value, prediction: Value) -> Value:
    return training


pointwise("when_training", when_training, ALL_DTYPES)
