"""Classifier: classes from numbers, by a network that ends in a softmax; or several labels, by one of sigmoids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self, cast

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import column_or_1d

from prograd.sklearn.estimator import Estimator
from prograd_proto.printable import shown
from runtime.dtypes import Array
from runtime.memory.shortage import limited_by_memory


@dataclass(eq=False, repr=False)
class Classifier(ClassifierMixin, Estimator):
    """A network for classification.

    It is trained by AdamW on the cross entropy. Scale the columns first, as in
    `make_pipeline(StandardScaler(), Classifier())`.

    Args:
        class_weight: "balanced", a weight by class, or the weights in the order of the classes; they multiply those of
            the rows.

    The other parameters are those of `prograd.sklearn.parameters.Parameters`. The entry `predict` of a `program` has
    probabilities.

    Attributes:
        classes_: the classes.
        n_iter_: number of epochs that were made.
        loss_curve_: loss of each epoch; `loss_` is the last.
        history_: the table of epochs of the last training; see `prograd.TrainingResult`.
        engine_: name of the engine.
        run_: the `prograd.Run` with the program and its states.
    """

    _: KW_ONLY
    class_weight: Any = None

    _kind = "classes"

    @limited_by_memory
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # noqa: N803 - the name that scikit-learn gives it
        """Train on rows and their classes; weights multiply the losses of their rows."""
        again = self.warm_start and hasattr(self, "program_")
        x, labels = self._checked(X, y, reset=not again)
        if not again:
            self.classes_ = np.arange(labels.shape[1]) if labels.ndim == 2 else np.unique(labels)
        return self._trained(x, labels, sample_weight, epochs=self.max_iter, more=again)

    @limited_by_memory
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:  # noqa: N803 - as fit
        """Train one epoch on further rows; the first call names all classes."""
        begun = hasattr(self, "program_")
        x, labels = self._checked(X, y, reset=not begun)
        if not begun:
            if classes is None and labels.ndim == 1:
                raise ValueError("classes: the first call of partial_fit names all classes that later rows may have")
            self.classes_ = np.arange(labels.shape[1]) if labels.ndim == 2 else np.unique(cast(Any, classes))
        elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(f"classes={classes!r} are not those of the first call, {self.classes_!r}")
        return self._trained(x, labels, sample_weight, epochs=1, more=True)

    @limited_by_memory
    def predict_proba(self, X: Any) -> Array:  # noqa: N803 - as fit
        """Return the probabilities of the classes [rows, classes]; of several labels, that of each."""
        found = self._predicted(X).astype(np.float64)
        if found.ndim != 2 or found.shape[1] != len(self.classes_):
            raise ValueError(
                f"program: its entry 'predict' gives {list(found.shape)}, "
                f"and an estimator takes probabilities [rows, {len(self.classes_)}]"
            )
        return found if self._kind == "labels" else found / found.sum(axis=1, keepdims=True)

    @limited_by_memory
    def predict_log_proba(self, X: Any) -> Array:  # noqa: N803 - as fit
        """Return the logarithms of the probabilities."""
        return np.log(self.predict_proba(X))

    @limited_by_memory
    def decision_function(self, X: Any) -> Array:  # noqa: N803 - as fit
        """Return log odds: of the second of two classes [rows], of each label, or of each class against the rest.

        A row belongs to a class, or has a label, where the score is largest, or above 0.
        """
        least = np.finfo(np.float32).tiny
        probabilities = np.clip(self.predict_proba(X), least, 1.0)
        odds = np.log(probabilities) - np.log(np.maximum(1.0 - probabilities, least))
        return odds[:, 1] if self._kind == "classes" and len(self.classes_) == 2 else odds

    @limited_by_memory
    def predict(self, X: Any) -> Array:  # noqa: N803 - as fit
        """Return the most likely class of each row; of several labels, 1 for each that is more likely than not."""
        probabilities = self.predict_proba(X)
        if self._kind == "labels":
            return (probabilities > 0.5).astype(np.int64)
        return self.classes_[probabilities.argmax(axis=1)]

    def __sklearn_tags__(self) -> Tags:
        """Return the tags: several labels of a row are possible."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def _trained(self, x: Array, labels: Array, sample_weight: Any, *, epochs: int, more: bool) -> Self:
        weights = sample_weight
        if self.class_weight is not None:
            of_classes = compute_sample_weight(self._weights_by_class(), labels)
            weights = of_classes if sample_weight is None else of_classes * np.asarray(sample_weight, np.float64)
        y = labels.astype(np.float32) if labels.ndim == 2 else self._numbers(labels)
        return self._fit(x, y, len(self.classes_), weights, epochs=epochs, more=more)

    def _weights_by_class(self) -> Any:
        """Return `class_weight` as scikit-learn takes it; a list or an array has them in the order of the classes."""
        given = self.class_weight
        if isinstance(given, Mapping) or (isinstance(given, str) and given == "balanced"):
            return given
        is_list = isinstance(given, Iterable) and not isinstance(given, str)
        weights = np.asarray(given, np.float64) if is_list else np.zeros(0)
        if self._kind == "labels" or weights.shape != self.classes_.shape:
            raise ValueError(f"class_weight={shown(given)} is not 'balanced', a mapping, or a weight for each class")
        return dict(zip(self.classes_.tolist(), weights.tolist(), strict=True))

    def _checked(self, x: Any, y: Any, *, reset: bool) -> tuple[Array, Array]:
        rows, labels = self._rows(x, y, reset=reset, multi_output=True)
        _require_one_kind(labels)
        kind = "labels" if type_of_target(labels) == "multilabel-indicator" else "classes"
        if not reset and kind != self._kind:
            raise ValueError(f"y has {kind}, and the rows of the first call had {self._kind}")
        self._kind = kind
        if kind == "labels":
            return rows, cast(Array, labels.toarray() if hasattr(labels, "toarray") else labels)
        labels = cast(Array, column_or_1d(labels, warn=True))
        check_classification_targets(labels)
        return rows, labels

    def _numbers(self, labels: Array) -> Array:
        """Return the number of each class; raise ValueError for a class that was not there at first."""
        unknown = np.setdiff1d(labels, self.classes_)
        if len(unknown):
            raise ValueError(f"y has the class {unknown[0]!r}, which is none of {self.classes_.tolist()}")
        return np.searchsorted(self.classes_, labels).astype(np.int64)


def _require_one_kind(labels: Any) -> None:
    """Raise ValueError for labels that cannot be sorted: missing ones, or texts beside numbers."""
    if not isinstance(labels, np.ndarray) or labels.dtype.kind != "O" or labels.ndim != 1:
        return
    values = labels.tolist()
    if missing := sum(value is None or value != value for value in values):
        raise ValueError(f"y has {missing} missing values; leave their rows out, or give them a class of their own")
    texts = sum(isinstance(value, str) for value in values)
    if 0 < texts < len(values):
        odd = next(value for value in values if not isinstance(value, str))
        raise ValueError(f"y has {texts} texts beside other values, such as {odd!r}; classes are of one kind")
