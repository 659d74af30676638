"""NaN, infinities, -0.0 and denormals in every operand of every operator: both engines agree but for a table.

Tiny samples here, and operands of some ten thousand elements; `python tests/odd_numbers.py` tries all samples.
"""

from itertools import groupby

import pytest
from samples import LARGE, SAMPLES, Sample
from subjects.odd_numbers import ODD, as_known, in_data, is_float, listed, of_dtype, unlisted

from registry import OPS

FLOATING = [sample for sample in SAMPLES if any(map(is_float, sample.operands))]
OPERATORS = {name: list(samples) for name, samples in groupby(sorted(FLOATING, key=lambda s: s.op), lambda s: s.op)}
ORDINARY = {sample.op: sample for sample in reversed(LARGE) if any(map(is_float, sample.operands))}
CHAOTIC = {"rnn_layer", "rnn_layer_gradient", "lstm_layer", "lstm_layer_gradient", "gru_layer", "gru_layer_gradient"}
"""Layers whose large samples let roundings grow; tests/native/odd/test_odd_layers.py has ordinary weights."""


def test_the_table_names_operators_and_differences():
    table = listed()
    assert table.keys() <= OPS.keys()
    assert set().union(*table.values()) == {"NaN", "sign of zero"}


@pytest.mark.sampled(9)
@pytest.mark.parametrize("name", OPERATORS)
def test_odd_elements(name: str):
    samples: list[Sample] = OPERATORS[name][:3]
    for sample in samples:
        assert unlisted(list(in_data(of_dtype(sample, "float32"), list(ODD)))) == []


@pytest.mark.sampled(9)
@pytest.mark.parametrize("name", OPERATORS)
def test_odd_known_numbers(name: str):
    sample = of_dtype(OPERATORS[name][0], "float32")
    assert unlisted(list(as_known(sample, ["NaN", "inf", "-0"]))) == []


@pytest.mark.sampled(18)
@pytest.mark.parametrize("name", sorted(ORDINARY.keys() - CHAOTIC))
def test_odd_elements_of_ordinary_sizes(name: str):
    assert unlisted(list(in_data(of_dtype(ORDINARY[name], "float32"), ["NaN", "-inf"]))) == []
