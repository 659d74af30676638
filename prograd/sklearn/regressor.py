"""Regressor: numbers from numbers, by a network whose squared error is least."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from prograd.sklearn.estimator import Estimator
from prograd_proto.printable import shown
from runtime.dtypes import Array
from runtime.memory.shortage import limited_by_memory


@dataclass(eq=False, repr=False)
class Regressor(RegressorMixin, Estimator):
    """A network for regression, of one number or of several.

    It is trained by AdamW on the mean squared error of targets with mean 0 and deviation 1 over the first rows, as
    Holzmüller, Grinsztajn and Steinwart (2024) recommend; predictions are in the units of the targets. Scale the
    columns, as in `make_pipeline(StandardScaler(), Regressor())`.

    With `quantiles`, as in (0.05, 0.5, 0.95), it is trained on the pinball loss instead. `predict_quantiles` has the
    values below which these shares of the targets are, and `predict` that of the share nearest to a half.

    Args:
        quantiles: shares of the targets, each above the one before; none for means.

    The other parameters are those of `prograd.sklearn.parameters.Parameters`, and attributes those of `Classifier`
    without the classes. The input `y` of a `program` is float32 [rows, outputs], and its entry `predict` has values of
    that shape.
    """

    _: KW_ONLY
    quantiles: Sequence[float] = ()

    _kind = "numbers"

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
        if shares := self._quantiles():
            middle = int(np.abs(np.asarray(shares) - 0.5).argmin())
            found = np.sort(found.reshape(len(found), -1, len(shares)), axis=2)[..., middle]
        return found.reshape(len(found)) if self._is_flat else found

    @limited_by_memory
    def predict_quantiles(self, X: Any) -> Array:  # noqa: N803 - as fit
        """Return the values at the quantiles, in order: [rows, quantiles] or [rows, outputs, quantiles].

        Raises ValueError for an estimator without quantiles.
        """
        check_is_fitted(self, "program_")
        shares = self._quantiles()
        if not shares:
            raise ValueError(
                "predict_quantiles: the estimator predicts means; fit Regressor(quantiles=(0.1, 0.5, 0.9))"
            )
        found = np.sort(self._predicted(X).astype(np.float64).reshape(len(X), -1, len(shares)), axis=2)
        return found[:, 0] if self._is_flat else found

    def _quantiles(self) -> tuple[float, ...]:
        try:
            return tuple(float(share) for share in np.atleast_1d(np.asarray(self.quantiles, np.float64)))
        except (TypeError, ValueError):
            return (math.nan,)

    def _require_parameters(self) -> None:
        super()._require_parameters()
        shares = self._quantiles()
        if not all(0 < share < 1 for share in shares) or sorted(set(shares)) != list(shares):
            raise ValueError(
                f"quantiles={shown(self.quantiles)} are not numbers between 0 and 1, each above the one before"
            )
        if shares and self.program is not None:
            raise ValueError("quantiles are for an estimator's own network; a program of yours has a loss of its own")

    def __sklearn_tags__(self) -> Tags:
        """Return the tags: several outputs are possible."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _checked(self, x: Any, y: Any, *, reset: bool) -> tuple[Array, Array]:
        if np.asarray(y).dtype.kind in "SU":
            raise ValueError("y has texts, and a Regressor predicts numbers; a Classifier predicts classes of texts")
        if np.asarray(y).dtype.kind in "mM":
            raise ValueError("y has dates or times, and a Regressor predicts numbers, such as the days since a date")
        rows, targets = self._rows(x, y, reset=reset, multi_output=True, y_numeric=True)
        numbers = targets.reshape(len(targets), -1)
        if reset:
            self._is_flat = targets.ndim == 1
            deviations = numbers.std(axis=0, dtype=np.float64)
            deviations[deviations < np.finfo(np.float32).tiny] = 1.0
            self._scale = tuple(numbers.mean(axis=0, dtype=np.float64).tolist()), tuple(deviations.tolist())
        return rows, numbers.astype(np.float32)
