"""Warnings of values that a server replaces: each column tells of the first, and then of ten times as many."""

import logging

import numpy as np
import pytest

from runtime.rows.encoding.column import Column
from runtime.serving.rare_warnings import rare_warnings

CITY = Column("city", "class", values=("Oslo", "Rome"), fill="Rome")
WHAT = "'city' has values that the packed rows lack, '100 %' the first, in 1 of 1 rows; they are taken as 'Rome'"


@pytest.fixture(autouse=True)
def warnings(caplog):
    caplog.set_level(logging.WARNING, "prograd")


def test_few_of_many_warnings_of_unknown_values_pass_with_their_total(caplog):
    with rare_warnings():
        for _ in range(250):
            CITY.encode(np.array(["100 %"], object))
        logging.getLogger("prograd").warning("another")
    assert caplog.messages == [WHAT, f"{WHAT}; so far in 10 rows", f"{WHAT}; so far in 100 rows", "another"]


def test_each_column_is_counted_by_itself_and_outside_of_a_server_all_are_said(caplog):
    town = Column("town", "class", values=("Oslo",), fill="Oslo")
    with rare_warnings():
        for column in (CITY, CITY, town):
            column.encode(np.array(["100 %"], object))
    assert [message[:6] for message in caplog.messages] == ["'city'", "'town'"]
    caplog.clear()
    for _ in range(3):
        CITY.encode(np.array(["100 %"], object))
    assert caplog.messages == [WHAT] * 3
