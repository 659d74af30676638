"""Estimators on frames as they are, quantiles, and decision functions."""

from __future__ import annotations

import datetime
import pickle
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from prograd.sklearn import Classifier, Regressor

RANDOM = np.random.default_rng(4)
ROWS = 400


def frame(rows: int = ROWS, seed: int = 1) -> tuple[pd.DataFrame, np.ndarray]:
    """Rows whose target follows a class, a date, a truth value and a number, each with gaps."""
    random = np.random.default_rng(seed)
    town = random.choice(["Aa", "Bb", "Cc"], rows)
    day = pd.Timestamp("2026-01-01") + pd.to_timedelta(random.integers(0, 365, rows), unit="D")
    is_new, size = random.random(rows) < 0.5, random.normal(50, 20, rows)
    score = (
        np.select([town == "Aa", town == "Bb"], [2.0, -1.0], 0.0) + (day.day_of_year > 180) * 1.5 - is_new + size / 20
    )
    table = pd.DataFrame({"town": town, "day": day, "new": is_new, "size": size})
    table.loc[::17, "town"] = None
    table.loc[::19, "size"] = np.nan
    return table, np.asarray(score)


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ["reference", "native"])
def test_a_frame_of_classes_dates_and_gaps_is_learned(engine: str):
    table, score = frame()
    table["town"] = table["town"].astype("category")
    model = Classifier((32,), learning_rate_init=0.01, max_iter=40, random_state=0, engine=engine)
    model.fit(table, score > 2.5)
    other, true = frame(seed=2)
    assert model.score(other, true > 2.5) > 0.85
    assert list(model.feature_names_in_) == ["town", "day", "new", "size"]
    assert model.n_features_in_ == 4
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict_proba(other), model.predict_proba(other))


def test_frames_of_pandas_and_polars_give_the_same_bits():
    table, score = frame(64)
    table["town"] = table["town"].astype("object").where(table["town"].notna(), None)
    fitted = [Regressor((8,), max_iter=3, random_state=0).fit(rows, score) for rows in (table, pl.from_pandas(table))]
    assert np.array_equal(*(each.predict(table) for each in fitted))
    assert np.array_equal(fitted[0].predict(pl.from_pandas(table)), fitted[0].predict(table))


def test_a_matrix_has_a_column_for_each_class_and_numbers_with_mean_0():
    table, score = frame()
    model = Classifier((8,), max_iter=1, random_state=0).fit(table, score > 2.5)
    assert model._columns is not None
    matrix = model._columns.matrix(table)
    assert matrix.shape == (ROWS, 3 + 4)  # day, new, size; three towns and the missing one
    assert np.allclose(np.nanmean(matrix[:, :3], axis=0), 0.0, atol=1e-9)
    assert np.allclose(np.nanstd(matrix[:, :3], axis=0), 1.0)
    assert np.array_equal(matrix[:, 3:].sum(axis=1), np.ones(ROWS))
    unknown = table.head(1).assign(town="Dd")
    with pytest.warns(UserWarning, match=r"^the column 'town' has 1 of 1 classes that the first rows lack"):
        assert np.array_equal(model._columns.matrix(unknown)[:, 3:], np.zeros((1, 4)))


def test_of_many_classes_the_rare_ones_share_a_column():
    names = [f"c{i}" for i in range(400)] * 2 + ["often"] * 200
    model = Classifier((4,), max_iter=1, random_state=0).fit(pd.DataFrame({"name": names}), np.arange(1000) % 2)
    assert model._columns is not None
    assert model._columns.matrix(pd.DataFrame({"name": ["often", "c1", "never seen"]})).shape == (3, 256)


def test_dates_of_python_are_days_and_time_zones_are_left_out():
    zone = datetime.timezone(datetime.timedelta(hours=2))
    days = [datetime.datetime(2026, 1, 1 + i % 28, 12, tzinfo=zone) for i in range(56)]
    target = np.array([day.day for day in days], float)
    by_days = Regressor((16,), max_iter=5, random_state=0).fit(pd.DataFrame({"day": days}), target)
    plain = pd.DataFrame({"day": [day.replace(tzinfo=None) for day in days]})
    assert np.array_equal(by_days.predict(pd.DataFrame({"day": days})), by_days.predict(plain))


def test_a_frame_of_numbers_is_a_matrix_as_before():
    x, y = RANDOM.normal(size=(64, 5)), RANDOM.normal(size=64)
    of_frame = Regressor((8,), max_iter=3, random_state=0).fit(pd.DataFrame(x, columns=list("abcde")), y)
    assert of_frame._columns is None
    assert np.array_equal(of_frame.predict(pd.DataFrame(x, columns=list("abcde"))), _bare(x, y))


def _bare(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return Regressor((8,), max_iter=3, random_state=0).fit(x, y).predict(x)


def broken(change: Any) -> str:
    table, score = frame(48)
    model = Classifier((4,), max_iter=1, random_state=0).fit(table, score > 2.5)
    with pytest.raises(ValueError, match=" ") as caught:
        model.predict(change(table))
    return str(caught.value)


def test_rows_that_do_not_fit_are_one_sentence():
    assert broken(lambda t: t.drop(columns="day")) == (
        "X has no column 'day'; give a frame with the columns of the first rows"
    )
    assert broken(lambda t: t.to_numpy()) == "X has no column 'town'; give a frame with the columns of the first rows"
    assert broken(lambda t: t.assign(size="large")) == (
        "the column 'size' has numbers in the first rows, and no number here"
    )
    assert broken(lambda t: t.assign(day=3.0)) == "the column 'day' has dates in the first rows, and none here"
    with pytest.raises(ValueError, match=" ") as caught:
        Classifier().fit(pd.DataFrame({"a": [{1}, {2}], "b": ["x", "y"]}), [0, 1])
    assert str(caught.value) == "the column 'a' has set, and not numbers, dates or classes"


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_quantiles_have_their_shares_of_the_targets_below_them(engine: str):
    random = np.random.default_rng(0)
    x = random.uniform(-1, 1, (2000, 1))
    y = 2 * x[:, 0] + random.normal(0, 0.2 + 0.3 * (x[:, 0] > 0), 2000)
    shares = (0.1, 0.5, 0.9)
    model = Regressor((32,), quantiles=shares, learning_rate_init=0.01, max_iter=60, random_state=0, engine=engine)
    found = model.fit(x, y).predict_quantiles(x)
    assert found.shape == (2000, 3)
    assert np.all(np.diff(found, axis=1) >= 0)
    assert np.mean(y[:, None] <= found, axis=0) == pytest.approx(shares, abs=0.05)
    wide = found[:, 2] - found[:, 0]
    assert wide[x[:, 0] > 0.2].mean() > 1.5 * wide[x[:, 0] < -0.2].mean()
    assert np.array_equal(model.predict(x), found[:, 1])
    two = Regressor((8,), quantiles=(0.25, 0.75), max_iter=2, random_state=0).fit(x, np.stack([y, -y], axis=1))
    assert two.predict_quantiles(x[:5]).shape == (5, 2, 2)
    assert two.predict(x[:5]).shape == (5, 2)


def test_what_are_no_quantiles_is_refused():
    x = np.zeros((4, 1))
    for given in ((0.5, 0.1), (0.0, 0.5), (0.5, 0.5)):
        with pytest.raises(ValueError, match=" ") as caught:
            Regressor(quantiles=given).fit(x, [0, 1, 2, 3])
        assert str(caught.value) == (f"quantiles={given!r} are not numbers between 0 and 1, each above the one before")
    with pytest.raises(ValueError, match=" ") as caught:
        Regressor(max_iter=1).fit(x, [0, 1, 2, 3]).predict_quantiles(x)
    assert str(caught.value) == (
        "predict_quantiles: the estimator predicts means; fit Regressor(quantiles=(0.1, 0.5, 0.9))"
    )


@pytest.mark.parametrize("kinds", [2, 4, 0])
def test_a_decision_function_orders_rows_as_their_probabilities(kinds: int):
    x = RANDOM.normal(size=(96, 8))
    y = RANDOM.integers(0, 2, (96, 3)) if not kinds else (x[:, 0] * 2 + 10).astype(int) % kinds
    model = Classifier((16,), max_iter=20, random_state=0).fit(x, y)
    scores, probabilities = model.decision_function(x), model.predict_proba(x)
    if kinds == 2:
        assert scores.shape == (96,)
        assert np.array_equal(model.predict(x), model.classes_[(scores > 0).astype(int)])
        assert scores == pytest.approx(np.log(probabilities[:, 1] / probabilities[:, 0]), abs=1e-4)
    elif kinds:
        assert np.array_equal(model.predict(x), model.classes_[scores.argmax(axis=1)])
    else:
        assert np.array_equal(model.predict(x), (scores > 0).astype(int))


def test_classes_that_the_first_rows_lack_are_told():
    table = pd.DataFrame({"code": ["1", "2"] * 32, "size": np.arange(64.0)})
    model = Classifier((16,), max_iter=2, random_state=0).fit(table, [0, 1] * 32)
    told = (
        r"^the column 'code' has 2 of 2 classes that the first rows lack, the first is '1\.0'; "
        r"the network sees none in their rows$"
    )
    with pytest.warns(UserWarning, match=told):
        model.predict(pd.DataFrame({"code": [1.0, 2.0], "size": [1.0, 2.0]}))
    model.predict(pd.DataFrame({"code": [1, 2], "size": [1.0, 2.0]}))
    many = pd.DataFrame({"code": [str(i) for i in range(300)] * 2, "size": np.arange(600.0)})
    model.fit(many, [0, 1] * 300).predict(many.assign(code="other"))  # the rare ones share a column


def test_names_of_columns_may_be_numbers_beside_texts_and_a_column_may_be_empty():
    table = pd.DataFrame({0: ["a", "b"] * 32, 1: np.arange(64.0), 2: pd.array([None] * 64, dtype="Int64")})
    model = Classifier((16,), max_iter=2, random_state=0).fit(table, [0, 1] * 32)
    assert model.predict(table).shape == (64,)


@pytest.mark.parametrize(
    ("kind", "y", "sentence"),
    [
        (Classifier, ["a", 1], "y has 32 texts beside other values, such as 1; classes are of one kind"),
        (
            Classifier,
            ["a", None],
            "y has 32 missing values; leave their rows out, or give them a class of their own",
        ),
        (
            Regressor,
            np.array(["2026-01-01", "2026-01-02"], "datetime64[D]"),
            "y has dates or times, and a Regressor predicts numbers, such as the days since a date",
        ),
    ],
)
def test_targets_of_another_kind_are_one_sentence(kind: Any, y: Any, sentence: str):
    targets = np.array(list(y) * 32, object if isinstance(y, list) else None)
    with pytest.raises(ValueError, match=r"^y has") as caught:
        kind(max_iter=2).fit(np.zeros((64, 3)), targets)
    assert str(caught.value) == sentence


def test_a_column_of_spans_of_time_is_named():
    table = pd.DataFrame({"span": pd.to_timedelta(np.arange(64), unit="h")})
    with pytest.raises(
        ValueError, match=r"^the column 'span' has timedelta64\[\w+\], and not numbers, dates or classes$"
    ):
        Classifier(max_iter=2).fit(table, [0, 1] * 32)
