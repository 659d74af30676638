"""Means and deviations of training rows: columns that are constant are centred, and not scaled by a rounding."""

import logging

import numpy as np
import pytest
from safetensors.numpy import load_file

import prograd
from compiler.data.scales import is_constant


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    caplog.set_level(logging.WARNING, "prograd")


def packed(table, **options):
    prograd.data.pack(table, "rows.safetensors", force=True, **options)
    return load_file("rows.safetensors")


def encoded(**columns):
    return prograd.data.encode(columns, "rows.safetensors")


@pytest.mark.parametrize("value", [0.1, 14.62, 1 / 3, 5.0, -0.7, 0.0, 1e20])
@pytest.mark.parametrize("rows", [1, 10, 1000])
def test_a_constant_column_has_the_deviation_1(value, rows, caplog):
    assert not packed({"fee": [value] * rows}, standardise=["fee"])["fee"].any()
    later = encoded(fee=[value, value + 0.5])["fee"]
    np.testing.assert_array_equal(later, np.float32([0, value + 0.5 - value]))
    assert caplog.messages == [
        "'fee' is constant in the training rows, so it is centred and not scaled; drop=['fee'] leaves it out"
    ]


def test_numbers_that_differ_by_roundings_are_constant():
    assert is_constant(np.array([0.3, 0.1 + 0.2]))
    assert is_constant(np.array([0.0, 0.0]))
    assert not is_constant(np.array([1e9, 1e9 + 1e-3]))
    assert not is_constant(np.array([0.0, 1e-300]))


def test_a_column_that_varies_is_scaled_however_little(caplog):
    rows = packed({"clock": [1e9, 1e9 + 1e-3, 1e9, 1e9 + 1e-3]}, standardise=["clock"])
    np.testing.assert_allclose(rows["clock"], [-1, 1, -1, 1], rtol=1e-3)
    assert caplog.messages == []


def test_a_column_that_is_constant_in_the_training_rows_alone_is_not_scaled():
    table = {"day": [1, 2, 3, 4], "fee": [0.1, 0.1, 0.1, 7.1]}
    rows = packed(table, standardise=["fee"], split={"train": 0.75}, by="time", of="day")
    np.testing.assert_array_equal(rows["fee"], np.float32([0, 0, 0, 7]))


def test_a_constant_part_of_a_date_is_not_scaled(caplog):
    packed({"d": ["2024-03-01T10:07"] * 100}, date={"d": ["days", "hour"]}, standardise=["d"])
    later = encoded(d=["2024-03-01T10:07", "2024-03-02T11:07"])["d"]
    np.testing.assert_allclose(later, [[0, 0], [1 + 1 / 24, 1]], rtol=1e-6)
    assert caplog.messages == [
        f"'d.{part}' is constant in the training rows, so it is centred and not scaled; leave this part of the date out"
        for part in ("days", "hour")
    ]


def test_lists_logarithms_and_joined_columns_have_the_same_floor():
    packed({"l": [[0.1], [0.1, 0.1]] * 150}, standardise=["l"])
    assert [row.tolist() for row in encoded(l=[[0.1, 0.6], [0.1]])["l"]] == [[0, 0.5], [0]]
    packed({"g": [0.1] * 300, "h": [0.3] * 300}, log=["g"], standardise=["g", "h"], join={"x": ["g", "h"]})
    np.testing.assert_allclose(encoded(g=[0.1, 0.2], h=[0.3, 0.4])["x"], [[0, 0], [np.log1p(0.2) - np.log1p(0.1), 0.1]])


def test_a_constant_label_is_decoded_in_its_units():
    packed({"y": [14.62] * 30}, standardise=["y"])
    assert prograd.data.decode(np.float32([0.0, 1.0]), "y", "rows.safetensors").tolist() == [14.62, 15.62]
