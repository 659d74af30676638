"""Estimators: scikit-learn's own checks, its pipelines and searches, and the sentences for what does not fit."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator, estimator_checks_generator

import prograd
from prograd import Program, layers, ops, sgd
from prograd.callbacks import Callback
from prograd.sklearn import Classifier, Regressor
from prograd.sklearn.estimator import stratified
from prograd_proto.wording import install_hint

NOT_PASSED = dict.fromkeys(
    ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"),
    "rows of weight 0 and repeated rows change the order of float32 sums, and the rows of each step",
)
"""The checks that an estimator does not pass, each with its reason."""

IN_CI = {
    "check_classifiers_train",
    "check_regressors_train",
    "check_regressors_int",
    "check_classifiers_classes",
    "check_classifiers_one_label",
    "check_estimators_pickle",
    "check_fit2d_1sample",
    "check_fit_idempotent",
    "check_methods_subset_invariance",
    "check_estimator_sparse_tag",
    "check_estimators_nan_inf",
    "check_n_features_in_after_fitting",
    "check_parameters_default_constructible",
    "check_dont_overwrite_attributes",
    "check_estimators_unfitted",
    "check_sample_weights_pandas_series",
}
SMALL: dict[str, Any] = {"hidden_layer_sizes": (16,), "max_iter": 60, "learning_rate_init": 0.02}
ESTIMATORS = [Classifier, Regressor]
X, Y = load_iris(return_X_y=True)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ESTIMATORS)
def test_an_estimator_passes_most_checks_of_scikit_learn(kind: Any):
    estimator, made = kind(engine="reference", **SMALL), 0
    for each, check in estimator_checks_generator(estimator, expected_failed_checks=NOT_PASSED, mark="skip"):
        name = check.func.__name__ if hasattr(check, "func") else ""
        if name in IN_CI:
            check(each)
            made += 1
    assert made >= 12


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("kind", ESTIMATORS)
def test_an_estimator_passes_all_checks_of_scikit_learn(kind: Any, engine: str):
    results = check_estimator(kind(engine=engine), expected_failed_checks=NOT_PASSED, on_skip=None)
    assert len(results) > 55
    assert {result["check_name"] for result in results if result["status"] == "xfail"} <= {*NOT_PASSED}


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_a_classifier_in_a_pipeline_is_cross_validated(engine: str):
    model = make_pipeline(
        StandardScaler(), Classifier((32,), max_iter=40, learning_rate_init=0.02, random_state=0, engine=engine)
    )
    scores = cross_val_score(model, X, Y, cv=3)
    assert scores.mean() > 0.92


def test_a_search_over_a_grid_finds_parameters_of_a_pipeline():
    model = make_pipeline(StandardScaler(), Classifier((16,), max_iter=25, random_state=0))
    grid = {"classifier__learning_rate_init": [1e-5, 0.03], "classifier__hidden_layer_sizes": [(8,), (16, 8)]}
    search = GridSearchCV(model, grid, cv=2).fit(X, Y)
    assert search.best_params_["classifier__learning_rate_init"] == 0.03
    assert search.best_score_ > 0.85


def test_a_regressor_explains_the_progress_of_a_disease():
    x, y = load_diabetes(return_X_y=True)
    y = (y - y.mean()) / y.std()
    model = make_pipeline(StandardScaler(), Regressor((32,), max_iter=60, early_stopping=True, random_state=0))
    assert cross_val_score(model, x, y, cv=3).mean() > 0.3
    both = Regressor((16,), max_iter=5, random_state=0).fit(x, np.stack([y, -y], axis=1))
    assert both.predict(x).shape == (442, 2)


@pytest.mark.parametrize("given", [{}, {"quantiles": (0.2, 0.5, 0.8)}])
def test_targets_may_have_any_unit(given: Any):
    y = np.stack([X[:, 0], X[:, 1] * X[:, 2]], axis=1)
    there = np.array([1000.0, -3.0]) + np.array([250.0, 1e-3]) * y
    network = Regressor((8,), max_iter=5, random_state=0, **given)
    of_each = [clone(network).fit(X, targets).predict(X) for targets in (y, there)]
    assert (of_each[1] - [1000.0, -3.0]) / [250.0, 1e-3] == pytest.approx(of_each[0], abs=2e-3)
    same = Regressor((8,), max_iter=40, batch_size=10, random_state=0, **given).fit(X, np.full(len(X), 7.0))
    assert np.abs(same.predict(X) - 7.0).mean() < 0.5


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ["reference", "native"])
def test_equal_seeds_give_equal_bits_and_a_pickle_predicts_and_trains_on(engine: str):
    def made() -> Classifier:
        return Classifier((64,), dropout=0.2, max_iter=5, batch_size=32, random_state=3, engine=engine)

    one, other = made().fit(X, Y), clone(made()).fit(X, Y)
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))
    copy = pickle.loads(pickle.dumps(one))
    np.testing.assert_array_equal(copy.predict_proba(X), one.predict_proba(X))
    for each in (one, copy):
        each.partial_fit(X[:50], Y[:50])
    np.testing.assert_array_equal(copy.predict_proba(X), one.predict_proba(X))
    assert one.n_iter_ == 6
    assert not np.array_equal(one.predict_proba(X), other.predict_proba(X))
    different = made().set_params(random_state=4).fit(X, Y)
    assert not np.array_equal(different.predict_proba(X), other.predict_proba(X))


def test_words_are_classes_and_frames_are_rows():
    pandas = pytest.importorskip("pandas")
    names = np.array(["setosa", "versicolor", "virginica"])[Y]
    frame = pandas.DataFrame(X, columns=["a", "b", "c", "d"])
    model = Classifier((16,), max_iter=40, learning_rate_init=0.03, random_state=0).fit(frame, pandas.Series(names))
    assert model.classes_.tolist() == ["setosa", "versicolor", "virginica"]
    assert model.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    assert model.score(frame, names) > 0.9
    np.testing.assert_allclose(model.predict_proba(frame).sum(axis=1), 1.0)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(frame)), model.predict_proba(frame))


def test_part_after_part_is_learned():
    model = Classifier((16,), learning_rate_init=0.02, random_state=0)
    order = np.random.default_rng(0).permutation(150)
    for _ in range(12):
        for start in range(0, 150, 40):
            part = order[start : start + 40]
            model.partial_fit(X[part], Y[part], classes=[0, 1, 2])
    assert model.score(X, Y) > 0.9
    assert model.n_iter_ == 48


def test_weights_count_rows_as_if_they_were_repeated():
    x, y = np.array([[0.0], [0.0], [1.0]]), np.array([0.0, 1.0, 2.0])
    weighted = Regressor((), max_iter=600, learning_rate_init=0.05, alpha=0.0, n_iter_no_change=600, random_state=0)
    weighted.fit(x, y, sample_weight=[1.0, 3.0, 2.0])
    np.testing.assert_allclose(weighted.predict([[0.0], [1.0]]), [0.75, 2.0], atol=0.01)


def test_early_stopping_restores_the_best_states():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((120, 20)), rng.integers(0, 2, 120)
    model = Classifier(
        (64,),
        max_iter=200,
        learning_rate_init=0.05,
        early_stopping=True,
        validation_fraction=0.3,
        n_iter_no_change=4,
        random_state=1,
    )
    model.fit(x, y)
    assert model.n_iter_ < 30
    losses = model.history_["evaluate.loss"]
    assert model.run_.position.best_metric == min(losses)
    assert len(losses) - 1 - int(np.argmin(losses)) <= 4


class Count(Callback):
    epochs = 0

    def on_epoch_end(self, event: prograd.EpochEnd) -> None:
        self.epochs += 1


def test_warm_start_goes_on_and_callbacks_are_called():
    count = Count()
    model = Classifier((16,), max_iter=3, warm_start=True, random_state=0, callbacks=[count])
    first = model.fit(X, Y).loss_
    assert model.fit(X, Y).loss_ < first
    assert (model.n_iter_, count.epochs, len(model.loss_curve_)) == (6, 6, 6)


def own(features: int, classes: int) -> Program:
    program = Program("own")
    x, y = program.input("x", "float32", ("rows", features)), program.input("y", "int64", ("rows",))
    scores = layers.dense(x, "out", classes)
    program.minimize(ops.softmax_cross_entropy(scores, y), sgd(0.3))
    program.outputs(probabilities=ops.softmax(scores))
    return program


def test_a_program_of_ones_own_is_an_estimator():
    model = make_pipeline(StandardScaler(), Classifier(program=own, max_iter=60, random_state=0))
    assert cross_val_score(model, X, Y, cv=3).mean() > 0.85
    with pytest.raises(ValueError, match="the program has no input 'weight', float32 by rows, to weight its loss by"):
        Classifier(program=own).fit(X, Y, sample_weight=np.ones(150))


def with_other_input(features: int, outputs: int) -> Program:
    program = own(features, outputs)
    program.metrics(mean=ops.mean(program.input("image", "float32", ("rows", 3))))
    return program


REFUSED: list[tuple[Any, str]] = [
    (
        lambda: Classifier(activation="rely").fit(X, Y),
        "activation='rely' is none of relu, tanh, logistic, gelu, silu, identity; did you mean 'relu'?",
    ),
    (lambda: Classifier((0,)).fit(X, Y), "hidden_layer_sizes=0 is not a whole number from 1 on"),
    (lambda: Classifier(max_iter=1.5).fit(X, Y), "max_iter=1.5 is not a whole number from 1 on"),  # type: ignore[arg-type]
    (lambda: Classifier(dropout=1.0).fit(X, Y), "dropout=1.0 is not below 1"),
    (lambda: Classifier(learning_rate_init=0).fit(X, Y), "learning_rate_init=0 is not a number above 0"),
    (lambda: Classifier(batch_size="all").fit(X, Y), "batch_size='all' is not a whole number from 1 on"),
    (
        lambda: Classifier().partial_fit(X, Y),
        "classes: the first call of partial_fit names all classes that later rows may have",
    ),
    (
        lambda: Classifier(max_iter=1).fit(X[:100], Y[:100]).partial_fit(X, Y),
        "y has the class np.int64(2), which is none of [0, 1]",
    ),
    (lambda: Classifier(program=lambda *sizes: 3).fit(X, Y), "program: the function returned int, and not a Program"),  # type: ignore[arg-type, return-value]
    (
        lambda: Classifier(program=with_other_input).fit(X, Y),
        "program: the input 'image' is none of x, y and weight, which an estimator feeds",
    ),
]


@pytest.mark.parametrize(("call", "sentence"), REFUSED, ids=[sentence[:40] for _, sentence in REFUSED])
def test_what_does_not_fit_is_one_sentence(call: Any, sentence: str):
    with pytest.raises(ValueError, match=r".") as caught:
        call()
    assert str(caught.value) == sentence


def test_what_scikit_learn_refuses_is_refused_in_its_words():
    with pytest.raises(ValueError, match="Input X contains infinity"):
        Classifier().fit(np.where(X > 5, np.inf, X), Y)
    with pytest.raises(ValueError, match="Input y contains NaN"):
        Regressor().fit(X, np.where(Y == 0, np.nan, Y))
    with pytest.raises(NotFittedError):
        Classifier().predict(X)


def test_without_scikit_learn_the_import_says_how_to_install_it():
    code = "import sys; sys.modules['sklearn'] = None; import prograd.sklearn"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert done.stderr.splitlines()[-1] == (
        f"ModuleNotFoundError: prograd.sklearn needs the package scikit-learn: {install_hint('sklearn')}"
    )


@pytest.mark.thorough
def test_the_page_about_estimators_runs(tmp_path: Path):
    page = (Path(__file__).parents[2] / "docs/estimators.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    done = subprocess.run([sys.executable, "-c", "\n".join(blocks)], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.split()[-1]) > 0.8
    assert (tmp_path / "iris.safetensors").exists()
    for name in NOT_PASSED:
        assert f"| `{name}` |" in page


class _Leap(Callback):
    """Raises the rate after an epoch, so that the next one diverges."""

    def on_epoch_end(self, event):
        if event.epoch == 3:
            self.run.set(learning_rate=1e38)


def test_a_fit_that_diverges_keeps_the_best_states_or_raises():
    best = Classifier(early_stopping=True, callbacks=[_Leap()], engine="reference", random_state=0, **SMALL)
    with pytest.warns(ConvergenceWarning, match=r"fit: .*; the run ends with the states of epoch 3, step 3, which"):
        best.fit(X, Y)
    assert np.isfinite(best.predict_proba(X)).all()
    assert best.n_iter_ == len(best.loss_curve_) == 4
    last = Classifier(callbacks=[_Leap()], engine="reference", random_state=0, **SMALL)
    with pytest.raises(prograd.NonFinite):
        last.fit(X, Y)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_a_result_that_is_nan_is_refused_and_counted(kind: Any):
    estimator = kind(engine="reference", random_state=0, **SMALL).fit(X, Y)
    estimator.run_.state["output.b"] = np.full_like(estimator.run_.state["output.b"], np.nan)
    told = (
        "predict: 4 of 4 rows have the result NaN, the first is row 0; scale the columns, "
        "or train with a lower learning_rate_init"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(told)}$"):
        estimator.predict(X[:4])


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_warm_start_honours_what_was_changed(kind: Any):
    options = {**SMALL, "warm_start": True, "random_state": 0, "max_iter": 2, "engine": "reference", "tol": -1.0}
    going, anew = kind(**options).fit(X, Y), kind(**options).fit(X, Y)
    changed = {"batch_size": 10, "alpha": 0.9, "dropout": 0.5, "activation": "tanh", "learning_rate_init": 1e-9}
    before = going.run_.state["hidden1.w"]
    going.set_params(**changed).fit(X, Y)
    assert (going.batch_, going.n_iter_, len(going.loss_curve_)) == (10, 4, 4)
    np.testing.assert_allclose(going.run_.state["hidden1.w"], before, atol=1e-6)  # at so low a rate
    kinds = {op.type for block in going.run_.program.blocks for op in block.ops}
    assert {"dropout", "tanh"} <= kinds or "tanh" in kinds
    anew.set_params(alpha=0.9).fit(X, Y)
    assert not np.array_equal(anew.run_.state["hidden1.w"], before)


@pytest.mark.parametrize("change", [{"hidden_layer_sizes": (16, 16)}, {"hidden_layer_sizes": 8}])
def test_warm_start_refuses_what_has_other_weights(change: Any):
    estimator = Classifier(**SMALL, warm_start=True, random_state=0, engine="reference").fit(X, Y)
    predicted = estimator.predict_proba(X)
    [(name, value)] = change.items()
    told = (
        f"{name}={value!r} makes other weights than those of the last fit, which warm_start and partial_fit go on "
        "with; fit a new estimator, or set it back"
    )
    estimator.set_params(**change)
    for again in (estimator.fit, estimator.partial_fit):
        with pytest.raises(ValueError, match=f"^{re.escape(told)}$"):
            again(X, Y)
        np.testing.assert_array_equal(estimator.predict_proba(X), predicted)
    estimator.set_params(hidden_layer_sizes=SMALL["hidden_layer_sizes"]).fit(X, Y)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.parametrize("form", ["csr_matrix", "csc_array", "coo_array"])
def test_sparse_rows_are_those_of_dense_ones(kind: Any, form: str):
    estimator, rows = kind(engine="reference", random_state=0, **SMALL), np.where(X > 2, X, 0)
    dense = clone(estimator).fit(rows, Y).predict(rows)
    sparse = getattr(scipy.sparse, form)(rows)
    np.testing.assert_allclose(estimator.fit(sparse, Y).predict(sparse), dense, atol=1e-5)
    np.testing.assert_array_equal(estimator.predict(rows), estimator.predict(sparse))


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_a_missing_number_is_the_mean_of_its_column(kind: Any):
    rng = np.random.default_rng(0)
    rows = np.where(rng.random(X.shape) < 0.1, np.nan, X)
    means = np.nanmean(rows, axis=0)
    filled = np.where(np.isnan(rows), means, rows)
    estimator = kind(engine="reference", random_state=0, **SMALL)
    expected = clone(estimator).fit(filled, Y).predict(filled)
    np.testing.assert_array_equal(estimator.fit(rows, Y).predict(rows), expected)
    alone = np.full((1, X.shape[1]), np.nan)  # the means are those of the training rows
    np.testing.assert_array_equal(estimator.predict(alone), estimator.predict(means[None]))
    nothing = np.where(np.arange(X.shape[1]) == 1, np.nan, X)
    assert np.isfinite(kind(engine="reference", **SMALL).fit(nothing, Y).predict(nothing)).all()


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_several_labels_of_a_row_are_learned(engine: str):
    labels = np.stack([X[:, 0] > 5.8, X[:, 2] > 4, X[:, 1] > 3], axis=1).astype(int)
    model = Classifier(engine=engine, random_state=0, **(SMALL | {"max_iter": 200})).fit(X, labels)
    found = model.predict_proba(X)
    assert found.shape == labels.shape
    assert model.predict(X).dtype == np.int64
    assert (model.predict(X) == labels).mean() > 0.9
    np.testing.assert_array_equal(model.predict(X), found > 0.5)
    assert model.classes_.tolist() == [0, 1, 2]
    sparse = scipy.sparse.csr_matrix(labels)
    np.testing.assert_array_equal(clone(model).fit(X, sparse).predict_proba(X), found)
    with pytest.raises(ValueError, match=r"^y has classes, and the rows of the first call had labels$"):
        model.partial_fit(X, Y)


@pytest.mark.parametrize("form", [list, np.array, lambda weights: dict(zip("abc", weights, strict=True))])
def test_weights_of_classes_are_weights_of_rows(form: Any):
    names = np.array(["a", "b", "c"])[Y]
    weights = [1.0, 4.0, 0.5]
    model = Classifier(engine="reference", random_state=0, **SMALL)
    expected = clone(model).fit(X, names, sample_weight=np.array(weights)[Y]).predict_proba(X)
    found = clone(model).set_params(class_weight=form(weights)).fit(X, names).predict_proba(X)
    np.testing.assert_array_equal(found, expected)


def test_balanced_weights_are_inverse_to_the_numbers_of_rows():
    few = np.flatnonzero((Y != 1) | (np.arange(len(Y)) % 10 == 0))
    model = Classifier(engine="reference", random_state=0, class_weight="balanced", **SMALL).fit(X[few], Y[few])
    counts = np.bincount(Y[few])
    weights = (len(few) / (3 * counts))[Y[few]]
    plain = Classifier(engine="reference", random_state=0, **SMALL)
    np.testing.assert_array_equal(model.predict_proba(X), plain.fit(X[few], Y[few], weights).predict_proba(X))
    with pytest.raises(
        ValueError, match=r"^class_weight=\[1\] is not 'balanced', a mapping, or a weight for each class$"
    ):
        Classifier(class_weight=[1], engine="reference").fit(X, Y)


def test_early_stopping_holds_out_the_same_share_of_each_class():
    classes = np.array([0] * 90 + [1] * 9 + [2])
    held = stratified(classes, 10, np.random.default_rng(0))
    assert np.bincount(classes[held], minlength=3).tolist() == [9, 1, 0]
    assert stratified(np.arange(5), 2, np.random.default_rng(0)).sum() == 0  # each class has one row, to train on
    assert stratified(np.zeros(10, int), 3, np.random.default_rng(0)).sum() == 3
    seen: list[int] = []

    class Seen(Callback):
        def on_train_begin(self) -> None:
            seen.append(self.run.position.rows)

    rare = np.where(np.arange(len(Y)) % 25 == 0, 1, 0)
    model = Classifier(early_stopping=True, engine="reference", random_state=0, callbacks=[Seen()], **SMALL).fit(
        X, rare
    )
    assert seen == [135]
    assert {"evaluate.loss"} <= model.history_.keys()
