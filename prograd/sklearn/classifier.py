# pyright: basic, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# scikit-learn has no types, and its estimators get attributes when they are fitted
"""Classifier: classes from numbers, by a network that ends in a softmax."""

from __future__ import annotations

from typing import Any, Self, cast

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from prograd.sklearn.estimator import Estimator
from runtime.dtypes import Array


class Classifier(ClassifierMixin, Estimator):
    """A network for classification.

    It is trained by AdamW on the cross entropy. Scale the columns first, as in
    `make_pipeline(StandardScaler(), Classifier())`.

    Args:
        hidden_layer_sizes: width of each hidden layer; a number for one layer.
        activation: "relu", "tanh", "logistic", "gelu", "silu" or "identity".
        dropout: share of the hidden units that a training step leaves out.
        alpha: decoupled weight decay; biases do not decay.
        batch_size: rows of a step; "auto" for min(200, rows).
        learning_rate_init: learning rate.
        max_iter: upper bound on the epochs.
        shuffle: take the rows in another order each epoch.
        random_state: seed of initial values, orders and dropout: a number, a RandomState, or None for another one.
        tol: the loss must fall by more than this within `n_iter_no_change` epochs.
        n_iter_no_change: epochs without improvement that end the training.
        early_stopping: judge the loss of `validation_fraction` of the rows, and restore the best states.
        validation_fraction: share of the rows that are held out by `early_stopping`.
        warm_start: `fit` goes on with the states of the last one.
        callbacks: callbacks of the training; see `prograd.callbacks`.
        program: a function of the numbers of features and classes that returns a Program, in place of the dense
            network: its inputs are `x`, `y` and optionally `weight`, and its entry `predict` has probabilities.
        engine: engine that runs the steps, "native" or "reference"; by default the one that takes less time to train,
            where the native one has to compile first.
        threads: number of threads, by default one for each usable core.
        verbose: show the progress.

    Attributes:
        classes_: the classes.
        n_iter_: number of epochs that were made.
        loss_curve_: loss of each epoch; `loss_` is the last.
        history_: the table of epochs of the last training; see `prograd.TrainingResult`.
        engine_: name of the engine.
        run_: the `prograd.Run` with the program and its states.
    """

    classifies = True

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # noqa: N803 - the name that scikit-learn gives it
        """Train on rows and their classes; weights multiply the losses of their rows."""
        again = self.warm_start and hasattr(self, "program_")
        x, labels = self._checked(X, y, reset=not again)
        if not again:
            self.classes_ = np.unique(labels)
        return self._fit(x, self._numbers(labels), len(self.classes_), sample_weight, epochs=self.max_iter, more=again)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:  # noqa: N803 - as fit
        """Train one epoch on further rows; the first call names all classes."""
        begun = hasattr(self, "program_")
        x, labels = self._checked(X, y, reset=not begun)
        if not begun:
            if classes is None:
                raise ValueError("classes: the first call of partial_fit names all classes that later rows may have")
            self.classes_ = np.unique(classes)
        elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(f"classes={classes!r} are not those of the first call, {self.classes_!r}")
        return self._fit(x, self._numbers(labels), len(self.classes_), sample_weight, epochs=1, more=True)

    def predict_proba(self, X: Any) -> Array:  # noqa: N803 - as fit
        """Return the probabilities of the classes [rows, classes]."""
        found = self._predicted(X).astype(np.float64)
        if found.ndim != 2 or found.shape[1] != len(self.classes_):
            raise ValueError(
                f"program: its entry 'predict' gives {list(found.shape)}, "
                f"and an estimator takes probabilities [rows, {len(self.classes_)}]"
            )
        return found / found.sum(axis=1, keepdims=True)

    def predict_log_proba(self, X: Any) -> Array:  # noqa: N803 - as fit
        """Return the logarithms of the probabilities."""
        return np.log(self.predict_proba(X))

    def predict(self, X: Any) -> Array:  # noqa: N803 - as fit
        """Return the most likely class of each row."""
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]

    def _checked(self, x: Any, y: Any, *, reset: bool) -> tuple[Array, Array]:
        rows, labels = cast(
            tuple[Array, Array], validate_data(self, x, y, reset=reset, dtype=np.float64, multi_output=True)
        )
        labels = cast(Array, column_or_1d(labels, warn=True))
        check_classification_targets(labels)
        return rows, labels

    def _numbers(self, labels: Array) -> Array:
        """Return the number of each class; raise ValueError for a class that was not there at first."""
        unknown = np.setdiff1d(labels, self.classes_)
        if len(unknown):
            raise ValueError(f"y has the class {unknown[0]!r}, which is none of {self.classes_.tolist()}")
        return np.searchsorted(self.classes_, labels).astype(np.int64)
