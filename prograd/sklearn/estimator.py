"""The common part of both estimators: training by a program, and the states that they keep."""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from numbers import Integral, Real
from tempfile import gettempdir
from typing import Any, Final, Self, cast

import numpy as np
from scipy.sparse import csr_matrix, issparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import _check_sample_weight, check_array, check_is_fitted, check_X_y, validate_data  # pyright: ignore[reportPrivateUsage]: as estimators of other packages do

from compiler import Program
from compiler.build.compiled import Compiled
from prograd.sklearn.frames import FrameColumns, is_mixed
from prograd.sklearn.networks import (
    ACTIVATIONS,
    RATE,
    Kind,
    Scale,
    compiled,
    dense_network,
    engine_for,
    feeds_of,
)
from prograd.sklearn.parameters import Parameters
from prograd.sklearn.sparse_rows import SparseRows, lengths_for
from prograd_proto import program_pb2 as pb
from prograd_proto.printable import shown
from prograd_proto.spelling import closest
from runtime import Run
from runtime.dtypes import Array
from runtime.errors import NonFinite
from runtime.runs.standing import Standing
from runtime.runs.watching.judged import EarlyStopping

_ACCEPTED: Final[dict[str, Any]] = {"dtype": np.float64, "accept_sparse": "csr", "ensure_all_finite": "allow-nan"}
"""Rows that an estimator takes: numbers, sparse or not, and NaN for a missing one."""

_WITHOUT_PICKLE: Final = "_run"

_COMPILED: Final = (
    "hidden_layer_sizes",
    "activation",
    "dropout",
    "alpha",
    "batch_size",
    "quantiles",
    "program",
    "engine",
    "threads",
)
"""Parameters that take a new program or a new run; all others act at the next training."""


class Estimator(Parameters):
    """Training and prediction.

    Subclasses turn targets into the feed `y`; `_kind` is the kind of the targets. `_lengths` are the numbers of
    elements to which sparse rows are padded; none for dense rows.
    """

    _kind: Kind
    _lengths: tuple[int, ...]
    _is_sparse: bool
    _columns: FrameColumns | None = None
    _scale: Scale | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the parameters and results without the run, which is made anew from the program and its states."""
        state = dict(cast(Mapping[str, Any], super().__getstate__()))
        run = state.pop(_WITHOUT_PICKLE, None)
        if run is not None:
            state["states_"] = {name: run.state[name] for name in run.state}
        return state

    @property
    def run_(self) -> Run:
        """The run with the program and its states: `estimator.run_.save("trained.safetensors")`."""
        check_is_fitted(self, "program_")
        if not hasattr(self, _WITHOUT_PICKLE):
            self._run = self._new_run(Compiled(pb.ProgramDesc.FromString(self.program_)))
            for name, array in self.states_.items():
                self._run.state[name] = array
        return self._run

    def _new_run(self, program: Compiled) -> Run:
        return Run(program, gettempdir(), engine=cast(Any, self.engine_), threads=self.threads)

    def _fit(self, x: Array, y: Array, outputs: int, sample_weight: Any, *, epochs: int, more: bool = False) -> Self:
        """Train on checked rows; with `more`, go on with the states of an earlier call."""
        self._require_parameters()
        weight = _check_sample_weight(sample_weight, x, dtype=np.float64, ensure_non_negative=True)
        feeds: dict[str, Any] = {"x": x, "y": y, "weight": scaled(weight)}
        seed = int(check_random_state(self.random_state).randint(1 << 31))
        going_on = more and hasattr(self, "program_")
        if not going_on:
            self._lengths = lengths_for(x.longest) if isinstance(x, SparseRows) else ()
            self._begin(x, outputs, seed, epochs, weighted=sample_weight is not None)
            self.n_iter_, self.loss_curve_, self._calls = 0, [], 0
        elif self._compiled_with != self._to_compile() or self._is_longer(x):
            self._begin_again(x, outputs, seed, epochs, weighted=sample_weight is not None)
        run = self.run_
        run.standing = Standing()  # the states go on, and epochs count anew
        if going_on:
            run.state["seed"] = np.int64(seed + self._calls)  # other orders of rows
        if self.program is None:
            run.set(**{RATE: float(self.learning_rate_init)})
        self._calls += 1
        asked = ["x" if name == "positions" else name for name in self._feeds if name != "values"]
        self._train(run, {name: feeds[name] for name in asked}, epochs, judges=epochs > 1)
        return self

    def _is_longer(self, x: Array | SparseRows) -> bool:
        """Return True, and note the length, if a sparse row has more elements than the program is compiled for."""
        if not isinstance(x, SparseRows) or x.longest <= self._lengths[-1]:
            return False
        self._lengths = lengths_for(x.longest)
        return True

    def _begin(self, x: Array | SparseRows, outputs: int, seed: int, epochs: int, *, weighted: bool) -> None:
        """Build and compile the program, and give its states their initial values."""
        rows = len(x)
        self._outputs = outputs
        program = self._built(x.shape[1], outputs)
        self._feeds = feeds_of(program)
        self._require_feeds(program, weighted=weighted)
        program.seed = seed
        batch = min(200 if self.batch_size == "auto" else int(self.batch_size), rows)
        made = compiled(program, rows - self._validated(rows), batch, self._lengths)
        self.batch_ = batch
        density = x.density if isinstance(x, SparseRows) else 1.0
        self.engine_ = self.engine or engine_for(program, rows, batch, epochs, density)
        self.program_ = made.desc.SerializeToString(deterministic=True)
        self._run = self._new_run(made)
        self._compiled_with = self._to_compile()

    def _begin_again(self, x: Array | SparseRows, outputs: int, seed: int, epochs: int, *, weighted: bool) -> None:
        """Compile the program for changed parameters, and go on with the states; raise ValueError if they do not fit.

        After an error, the estimator is as it was before.
        """
        before, states = dict(self.__dict__), {name: self.run_.state[name] for name in self.run_.state}
        try:
            self._begin(x, outputs, seed, epochs, weighted=weighted)
            if _shapes(states) != _shapes({name: self._run.state[name] for name in self._run.state}):
                changed = [
                    name for name, value in self._to_compile().items() if value != before["_compiled_with"][name]
                ]
                raise ValueError(
                    f"{changed[0]}={getattr(self, changed[0])!r} makes other weights than those of the last fit, which "
                    "warm_start and partial_fit go on with; fit a new estimator, or set it back"
                )
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise
        for name, array in states.items():
            self._run.state[name] = array

    def _to_compile(self) -> dict[str, Any]:
        """Return the parameters that the compiled program and its run depend on."""
        return {name: getattr(self, name, None) for name in _COMPILED}

    def _validated(self, rows: int) -> int:
        """Return the number of rows that early stopping evaluates on."""
        return math.ceil(rows * self.validation_fraction - 1e-9) if self.early_stopping else 0

    def _built(self, features: int, outputs: int) -> Program:
        if self.program is not None:
            program = self.program(features, outputs)
            if not isinstance(program, Program):  # pyright: ignore[reportUnnecessaryIsInstance]: users may not check types
                raise ValueError(f"program: the function returned {type(program).__name__}, and not a Program")
            return program
        sizes = self.hidden_layer_sizes
        return dense_network(
            features,
            outputs,
            kind=self._kind,
            hidden=(int(sizes),) if isinstance(sizes, Integral) else tuple(int(size) for size in cast(Any, sizes)),
            activation=self.activation,
            dropout=float(self.dropout),
            rate=float(self.learning_rate_init),
            decay=float(self.alpha),
            is_sparse=bool(self._lengths),
            quantiles=self._quantiles(),
            scale=self._scale,
        )

    def _quantiles(self) -> tuple[float, ...]:
        """Return the quantiles that a regressor predicts; none for means and classes."""
        return ()

    def _require_feeds(self, program: Program, *, weighted: bool) -> None:
        """Raise ValueError unless the program of a function has the inputs that an estimator feeds."""
        for name in self._feeds:
            if name not in ("x", "y", "weight", *(("positions", "values") if self._lengths else ())):
                raise ValueError(
                    f"program: the input {name!r} is none of x, y and weight, which an estimator feeds"
                    f"{closest(name, ('x', 'y', 'weight'))}"
                )
        for name in ("values" if self._lengths else "x", "y"):
            if name not in self._feeds:
                raise ValueError(f"program: there is no input {name!r}; an estimator feeds x, y and, if asked, weight")
        if weighted and "weight" not in self._feeds:
            raise ValueError("sample_weight: the program has no input 'weight', float32 by rows, to weight its loss by")
        if not program.symbols:
            raise ValueError("program: its inputs have no symbol for the number of rows, as in ('batch', features)")

    def _train(self, run: Run, feeds: Mapping[str, Array], epochs: int, *, judges: bool) -> None:
        """Train for a number of epochs, or until the loss does not fall any more."""
        callbacks = list(self.callbacks)
        options: dict[str, Any] = {}
        if self.early_stopping and judges:
            feeds, held = self._held_out(feeds, int(run.state["seed"]))
            options["validation_data"] = _fed(held)
        if judges:
            callbacks.append(
                EarlyStopping(
                    monitor="loss",
                    patience=int(self.n_iter_no_change),
                    min_delta=max(float(self.tol), 0.0),
                    mode="min",
                    restore_best=self.early_stopping,
                )
            )
        with no_messages(verbose=self.verbose):
            try:
                result = run.train(
                    data=_fed(feeds),
                    epochs=epochs,
                    shuffle=self.shuffle,
                    callbacks=callbacks,
                    progress=bool(self.verbose),
                    **options,
                )
            except NonFinite as error:
                result = run.result
                if not error.is_restored or result is None:
                    raise
                warnings.warn(f"fit: {error}", ConvergenceWarning, stacklevel=4)
        self.history_ = dict(result.history)
        self.loss_curve_ = self.loss_curve_ + result.history["loss"]
        self.loss_ = self.loss_curve_[-1]
        self.n_iter_ += len(result.history["loss"])

    def _held_out(self, feeds: Mapping[str, Array], seed: int) -> tuple[dict[str, Array], dict[str, Array]]:
        """Return the rows to train on, and the rows that early stopping evaluates on: the same share of each class."""
        rows = len(feeds["x"])
        classes = feeds["y"] if self._kind == "classes" else np.zeros(rows, np.int64)
        held = stratified(classes, self._validated(rows), np.random.default_rng(seed))
        return (
            {name: array[~held] for name, array in feeds.items()},
            {name: array[held] for name, array in feeds.items()},
        )

    def _rows(self, x: Any, y: Any, *, reset: bool, **options: Any) -> tuple[Any, Any]:
        """Return checked rows without NaN, and the targets.

        Rows stay sparse for the estimator's own network if the rows of the first `fit` were sparse.
        """
        checked, targets = self._validated_data(x, y, reset=reset, **options)
        if reset:
            self._is_sparse = issparse(checked) and self.program is None
        rows = self._in_form(checked)
        if reset and isinstance(rows, SparseRows):
            self._means = rows.means()
        elif reset:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # a column without any number has no mean
                self._means = np.nan_to_num(np.nanmean(rows, axis=0))
        return self._filled(rows), targets

    def _validated_data(self, x: Any, *y: Any, reset: bool, **options: Any) -> Any:
        """Return rows as numbers, with the targets `y` if there are any.

        A frame with columns of other kinds is encoded as the first one was.
        """
        if reset:
            self._columns = FrameColumns(x) if is_mixed(x) else None
        if self._columns is None:
            return validate_data(self, x, *y, reset=reset, **_ACCEPTED, **options)
        matrix = self._columns.matrix(x)
        validate_data(self, x, *y, reset=reset, skip_check_array=True)
        return check_X_y(matrix, *y, **_ACCEPTED, **options) if y else check_array(matrix, **_ACCEPTED)

    def _in_form(self, rows: Any) -> Any:
        """Return checked rows, dense or sparse like the rows of the first `fit`."""
        return SparseRows(csr_matrix(rows)) if self._is_sparse else _dense(rows)

    def _filled(self, rows: Any) -> Any:
        """Return rows as float32, with the mean of the first training rows in place of NaN."""
        if isinstance(rows, SparseRows):
            return rows.filled(self._means)
        missing = np.isnan(rows)
        return (np.where(missing, self._means, rows) if missing.any() else rows).astype(np.float32, copy=False)

    def __sklearn_tags__(self) -> Tags:
        """Return the tags: rows may be sparse, and may have NaN."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.allow_nan = True
        return tags

    def _predicted(self, x: Any) -> Array:
        """Return the only result of the entry `predict` for rows."""
        check_is_fitted(self, "program_")
        rows = self._filled(self._in_form(self._validated_data(x, reset=False)))
        if self._is_longer(rows):
            self._lengthen(rows)
        group = rows.length_numbers(self._lengths) if isinstance(rows, SparseRows) else np.zeros(len(rows), np.int64)
        order, places = whole_steps(group, self.batch_)
        with no_messages(verbose=self.verbose):
            found = self.run_.predict(_fed({"x": rows[order]}))
        array = next(iter(found.values()))
        if array.shape[:1] != order.shape:
            raise ValueError(f"program: its entry 'predict' gives {list(array.shape)}, and not a result for each row")
        results = array[places]
        _require_numbers(results)
        return results

    def _lengthen(self, rows: SparseRows) -> None:
        """Compile the program for longer rows, with the states that it has."""
        states = {name: self.run_.state[name] for name in self.run_.state}
        made = compiled(self._built(rows.shape[1], self._outputs), self.batch_, self.batch_, self._lengths)
        self.program_ = made.desc.SerializeToString(deterministic=True)
        self._run = self._new_run(made)
        for name, array in states.items():
            self._run.state[name] = array

    def _require_kinds(self) -> None:
        """Raise ValueError for a program that is no function, or callbacks that are no list."""
        if self.program is not None and not callable(self.program):
            kind = type(self.program).__name__
            raise ValueError(f"program is a {kind}, and not a function of the numbers of features and outputs")
        if not isinstance(self.callbacks, list | tuple):
            raise ValueError(f"callbacks={shown(self.callbacks)} is no list; give callbacks=[…]")

    def _require_parameters(self) -> None:
        """Raise ValueError for an invalid parameter."""
        for name, least in (("alpha", 0.0), ("tol", -math.inf), ("dropout", 0.0)):
            _require(name, getattr(self, name), Real, least)
        _require("learning_rate_init", self.learning_rate_init, Real, 0.0, above=True)
        for name in ("max_iter", "n_iter_no_change"):
            _require(name, getattr(self, name), Integral, 1)
        if self.batch_size != "auto":
            _require("batch_size", self.batch_size, Integral, 1)
        is_list = isinstance(self.hidden_layer_sizes, Iterable) and not isinstance(self.hidden_layer_sizes, str)
        sizes = self.hidden_layer_sizes if is_list else [self.hidden_layer_sizes]
        for size in cast(Sequence[object], sizes):
            _require("hidden_layer_sizes", size, Integral, 1)
        self._require_kinds()
        given = cast(object, self.activation)
        if not isinstance(given, str) or given not in ACTIVATIONS:
            hint = closest(self.activation, ACTIVATIONS)
            raise ValueError(f"activation={shown(self.activation)} is none of {', '.join(ACTIVATIONS)}{hint}")
        _require("validation_fraction", self.validation_fraction, Real, 0.0, above=True)
        for name in ("dropout", "validation_fraction"):
            if not getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)!r} is not below 1")


def whole_steps(group: Array, batch: int) -> tuple[Array, Array]:
    """Return an order of rows in which each group fills whole steps of `batch` rows, and the place of each row in it.

    The last row of a group is repeated to do so: all steps have one size, so no row depends on others.
    """
    order: list[Array] = []
    places, count = np.empty(len(group), np.int64), 0
    for number in np.unique(group):
        own = np.flatnonzero(group == number)
        places[own] = count + np.arange(len(own))
        padded = -(-len(own) // batch) * batch
        order.append(own[np.minimum(np.arange(padded), len(own) - 1)])
        count += padded
    return np.concatenate(order), places


def stratified(classes: Array, count: int, rng: np.random.Generator) -> Array:
    """Return a mask of `count` random rows with the same share of each class.

    A class of one row keeps it for training.
    """
    held = np.zeros(len(classes), bool)
    numbers, sizes = np.unique(classes, return_counts=True)
    wanted = sizes * count / len(classes)
    shares = np.minimum(np.floor(wanted).astype(np.int64), sizes - 1)
    while shares.sum() < count:
        room = np.where(shares < sizes - 1, wanted - shares, -np.inf)
        if not np.isfinite(room).any():
            break
        shares[room.argmax()] += 1
    for number, share in zip(numbers, shares, strict=True):
        held[rng.permutation(np.flatnonzero(classes == number))[:share]] = True
    return held


def _fed(feeds: Mapping[str, Any]) -> dict[str, Any]:
    """Return rows as a run takes them."""
    made = dict(feeds)
    rows = made.pop("x")
    return made | (rows.feeds() if isinstance(rows, SparseRows) else {"x": rows})


def _dense(rows: Any) -> Array:
    return cast(Array, rows.toarray() if issparse(rows) else rows)


def _shapes(states: Mapping[str, Array]) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in states.items()}


def _require(name: str, value: object, kind: type, least: float, *, above: bool = False) -> None:
    number = cast(Any, value)
    if isinstance(value, bool) or not isinstance(value, kind) or not (number > least if above else number >= least):
        what = "a whole number" if kind is Integral else "a number"
        raise ValueError(
            f"{name}={shown(value)} is not {what} {'above' if above else 'from'} {least:g}{'' if above else ' on'}"
        )


def _require_numbers(results: Array) -> None:
    """Raise ValueError if a row of results has NaN, which is no class and no score."""
    missing = np.isnan(results).reshape(len(results), -1).any(axis=1)
    if missing.any():
        raise ValueError(
            f"predict: {int(missing.sum())} of {len(results)} rows have the result NaN, the first is row "
            f"{int(missing.argmax())}; scale the columns, or train with a lower learning_rate_init"
        )


def scaled(weight: Array) -> Array:
    """Return weights with the mean 1, as float32; raise ValueError if all of them are 0."""
    mean = float(weight.mean())
    if mean == 0:
        raise ValueError("sample_weight: all weights are 0, so there is nothing to train on")
    return (weight / mean).astype(np.float32)


@contextmanager
def no_messages(*, verbose: bool) -> Generator[None]:
    """Keep the notes of a run from the log, unless the user asked for them."""
    logger = logging.getLogger("prograd")
    before = logger.level
    if not verbose:
        logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(before)
