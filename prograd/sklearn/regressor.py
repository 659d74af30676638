# pyright: basic, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# scikit-learn has no types, and its estimators get attributes when they are fitted
"""Regressor: numbers from numbers, by a network whose squared error is least."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from prograd.sklearn.estimator import Estimator
from prograd.sklearn.networks import Kind
from runtime.dtypes import Array
from runtime.memory.shortage import limited_by_memory


class Regressor(RegressorMixin, Estimator):
    """A network for regression, of one number or of several.

    It is trained by AdamW on the mean squared error. Scale the columns, and targets far from 1, as in
    `TransformedTargetRegressor(make_pipeline(StandardScaler(), Regressor()), transformer=StandardScaler())`.

    Parameters and attributes are those of `Classifier`, without the classes. The function `program` gets the numbers of
    features and of outputs; the input `y` is float32 [rows, outputs], and the entry `predict` has values of that shape.
    """

    _kind: Kind = "numbers"

    @limited_by_memory
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # noqa: N803 - the name that scikit-learn gives it
        """Train on rows and their numbers [rows] or [rows, outputs]; weights multiply the losses of their rows."""
        again = self.warm_start and hasattr(self, "program_")
        x, targets = self._checked(X, y, reset=not again)
        return self._fit(x, targets, targets.shape[1], sample_weight, epochs=self.max_iter, more=again)

    @limited_by_memory
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # noqa: N803 - as fit
        """Train one epoch on further rows."""
        x, targets = self._checked(X, y, reset=not hasattr(self, "program_"))
        return self._fit(x, targets, targets.shape[1], sample_weight, epochs=1, more=True)

    @limited_by_memory
    def predict(self, X: Any) -> Array:  # noqa: N803 - as fit
        """Return the predicted numbers, of the shape of the targets."""
        check_is_fitted(self, "program_")
        found = self._predicted(X).astype(np.float64)
        return found.reshape(len(found)) if self._is_flat else found

    def __sklearn_tags__(self) -> Tags:
        """Return the tags: several outputs are possible."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _checked(self, x: Any, y: Any, *, reset: bool) -> tuple[Array, Array]:
        rows, targets = self._rows(x, y, reset=reset, multi_output=True, y_numeric=True)
        if reset:
            self._is_flat = targets.ndim == 1
        return rows, targets.astype(np.float32).reshape(len(targets), -1)
