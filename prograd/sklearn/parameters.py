"""The parameters that both estimators have, and sentences for others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from inspect import Signature, signature
from typing import Any, Final

from sklearn.base import BaseEstimator

from prograd.sklearn.networks import Build
from prograd_proto.spelling import closest

_OTHER_NAMES: Final = {
    "batch": "batch_size",
    "device": "engine",
    "epochs": "max_iter",
    "layers": "hidden_layer_sizes",
    "learning_rate": "learning_rate_init",
    "lr": "learning_rate_init",
    "patience": "n_iter_no_change",
    "seed": "random_state",
    "weight_decay": "alpha",
}
"""Parameters by the names that other packages give them."""


class _Parameters(type):
    """The type of estimators, which answers unknown parameters with known ones."""

    @property
    def __signature__(cls) -> Signature:
        """The parameters of the constructor, for `help`."""
        own = signature(cls.__init__)
        return own.replace(parameters=list(own.parameters.values())[1:])

    def __call__(cls, *given: Any, **options: Any) -> Any:
        known = list(cls.__signature__.parameters)
        odd = next((name for name in options if name not in known), None)
        if odd is None:
            return super().__call__(*given, **options)
        if odd in ("solver", "optimizer"):
            raise TypeError(f"{cls.__name__} has no parameter {odd!r}: it trains by AdamW, and a program= by any other")
        other = _OTHER_NAMES.get(odd)
        hint = f"; write {other}" if other else closest(odd, known) or f"; it has {', '.join(known)}"
        raise TypeError(f"{cls.__name__} has no parameter {odd!r}{hint}")


@dataclass(eq=False, repr=False)
class Parameters(BaseEstimator, metaclass=_Parameters):
    """The common parameters, with the names of scikit-learn's networks where possible.

    Args:
        hidden_layer_sizes: width of each hidden layer; a number for one layer.
        activation: "relu", "tanh", "logistic", "gelu", "silu" or "identity".
        dropout: share of the hidden units that a training step leaves out.
        alpha: decoupled weight decay, by default that of Holzmüller, Grinsztajn and Steinwart (2024); biases do not
            decay.
        batch_size: rows of a step; "auto" for min(200, rows).
        learning_rate_init: learning rate.
        max_iter: upper bound on the epochs.
        shuffle: take the rows in another order each epoch.
        random_state: seed of initial values, orders and dropout: a number, a RandomState, or None for another one.
        tol: the loss must fall by more than this within `n_iter_no_change` epochs.
        n_iter_no_change: epochs without improvement that end the training.
        early_stopping: judge the loss of `validation_fraction` of the rows, and restore the best states.
        validation_fraction: share of the rows that are held out by `early_stopping`, the same share of each class.
        warm_start: `fit` goes on with the states of the last one.
        callbacks: callbacks of the training; see `prograd.callbacks`.
        program: a function of the numbers of features and outputs that returns a Program, in place of the dense
            network: its inputs are `x`, `y` and optionally `weight`.
        engine: engine that runs the steps, "native" or "reference"; by default the one that takes less time to train,
            where the native one has to compile first.
        threads: number of threads, by default one for each usable core.
        verbose: show the progress.
    """

    hidden_layer_sizes: int | Sequence[int] = (100,)
    activation: str = "relu"
    _: KW_ONLY
    dropout: float = 0.0
    alpha: float = 0.02
    batch_size: int | str = "auto"
    learning_rate_init: float = 0.001
    max_iter: int = 200
    shuffle: bool = True
    random_state: Any = None
    tol: float = 1e-4
    n_iter_no_change: int = 10
    early_stopping: bool = False
    validation_fraction: float = 0.1
    warm_start: bool = False
    callbacks: Sequence[Any] = ()
    program: Build | None = None
    engine: str | None = None
    threads: int | None = None
    verbose: bool = False
