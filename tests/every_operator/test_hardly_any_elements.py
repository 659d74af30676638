"""Every operator with operands of rank 0, of one element and of none: it computes and has a gradient, or refuses.

Types are the oracle's: `interpret` looks at the type of every result. What the values are, other tests know.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from oracles.interpret import interpret
from samples import SAMPLES
from samples.operands import Sample
from subjects.cases import build, differentiated
from subjects.evaluate import evaluate, gradient

from registry import OPS, OpError, ops
from runtime.errors import ExecutionError

SHAPES = [(), (0,), (1,), (0, 1), (1, 0), (1, 1), (0, 2, 3), (1, 1, 1), (0, 1, 1, 1), (1, 0, 1, 1), (1, 1, 1, 0)]
MADE_OF_SOME = {"given", "regular", "definite"}
"""Operands whose elements do not follow a shape."""


def small(name: str) -> Iterator[Sample]:
    """Samples of an operator with other shapes, and attributes that were as long as the axes cut to fit."""
    seen: set[str] = set()
    for sample in SAMPLES:
        if sample.op != name or any(x is not None and x.kind in MADE_OF_SOME for x in sample.operands):
            continue
        for shape in SHAPES:
            operands = tuple(None if x is None else replace(x, shape=shape) for x in sample.operands)
            for attributes in (sample.attributes, {k: cut(v, len(shape)) for k, v in sample.attributes.items()}):
                made = Sample(name, operands, attributes, sample.order)
                if str(made) not in seen:
                    seen.add(str(made))
                    yield made


def cut(value: Any, rank: int) -> Any:
    return value[:rank] if isinstance(value, tuple) else value


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", OPS)
def test_an_operator_computes_hardly_anything_or_refuses(name: str):
    for sample in small(name):
        try:
            case = build(sample)
        except OpError:
            continue
        if sample.order:
            differentiated(case)
        try:
            interpret(case.block.desc, case.feeds)
        except ExecutionError:  # an index out of range, a matrix that is not positive
            continue


def test_a_number_is_padded_and_sliced_by_nothing():
    x = np.array(3.0)
    for function in (lambda x: ops.pad(x, before=(), after=()), lambda x: x[...], lambda x: x[()]):
        y = evaluate(function, x)
        assert (y.shape, y) == ((), 3)
        np.testing.assert_array_equal(gradient(function, x)[0], 1)


def test_queries_of_no_size_need_a_scale():
    q = np.zeros((1, 1, 2, 0))
    with pytest.raises(OpError) as error:
        evaluate(lambda q: ops.scaled_dot_product_attention(q, q, q), q)
    kind = "float64[1, 1, 2, 0]"
    assert str(error.value) == (
        f"scaled_dot_product_attention(q: {kind}, k: {kind}, v: {kind}): "
        "queries of the size 0 have no scale of their own; give scale"
    )
    assert evaluate(lambda q: ops.scaled_dot_product_attention(q, q, q, scale=1.0), q).shape == q.shape
