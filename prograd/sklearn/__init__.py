"""Estimators for scikit-learn: networks with `fit` and `predict`, for pipelines and searches; they need scikit-learn.

    from prograd.sklearn import Classifier

    Classifier((64, 32), early_stopping=True, random_state=1).fit(x, y).predict_proba(x)

classifier   classes from numbers
regressor    numbers from numbers
frames       columns of classes and dates as numbers
parameters   the parameters that both have
estimator    what both do: training, states
networks     the program of an estimator: its own, or that of a function
sparse_rows  sparse rows as positions and values
"""

try:
    import sklearn  # noqa: F401 # pyright: ignore[reportMissingTypeStubs, reportUnusedImport]: only to see if it is there
except ModuleNotFoundError as error:
    if error.name != "sklearn":
        raise
    from prograd_proto.wording import install_hint

    raise ModuleNotFoundError(
        f"prograd.sklearn needs the package scikit-learn: {install_hint('sklearn')}", name="sklearn"
    ) from None

from prograd.found_packages import require_visible

require_visible("compiler")

from prograd.sklearn.classifier import Classifier as Classifier
from prograd.sklearn.regressor import Regressor as Regressor

__all__ = ["Classifier", "Regressor"]
