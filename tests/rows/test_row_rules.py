"""Row rules of all operators: where one holds, a row of a result depends on that row of the operands alone."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np
import pytest
from oracles.interpret import compute
from samples import SAMPLES
from samples.operands import sample
from subjects.cases import Case, build

from prograd_proto import attributes_of
from registry import OPS
from runtime.contract import CONTRACTS
from runtime.row_rules import RowOperand, each_operand, first_operand, pointwise

MORE = [sample("transpose", (3, 2, 4), axes=(0, 2, 1))]
WITH_RULE = [name for name in OPS if CONTRACTS[name].rows is not None and CONTRACTS[name].rule.inputs]


def choices(case: Case) -> Iterator[tuple[int, ...]]:
    """The operands that may have rows, in every combination for which the rule of the operator holds."""
    rule = CONTRACTS[case.desc.type].rows
    assert rule is not None
    inputs, result = case.inputs, case.made[0][0].static_shape
    long = [i for i, x in enumerate(inputs) if x is not None and x.shape[:1] == result[:1] > (1,)]
    for count in range(1, len(long) + 1):
        for with_rows in combinations(long, count):
            operands = [None if x is None else RowOperand(x.shape, i in with_rows) for i, x in enumerate(inputs)]
            if rule(operands, result, attributes_of(case.desc)):
                yield with_rows


@pytest.mark.parametrize("name", WITH_RULE)
def test_a_row_depends_on_no_other_row_where_the_rule_holds(name: str):
    tried = 0
    for case in (build(x) for x in (*SAMPLES, *MORE) if x.op == name):
        for with_rows in choices(case):
            whole = compute(case.desc, case.inputs)
            inputs = [None if x is None else x.copy() for x in case.inputs]
            for i in with_rows:
                inputs[i][0] = inputs[i][1]  # type: ignore[index]  # an operand with rows is present
            changed = compute(case.desc, inputs)
            for before, after in zip(whole, changed, strict=True):
                np.testing.assert_array_equal(after[1:], before[1:])
                if all(i in with_rows or not x.ndim for i, x in enumerate(inputs) if x is not None):
                    np.testing.assert_allclose(after[0].astype(float), after[1].astype(float), rtol=1e-6, atol=1e-9)
            tried += 1
    assert tried, f"no sample of {name} has rows"


def test_operators_that_mix_rows_have_no_rule():
    mixing = {"accuracy", "batch_norm", "outer_sum", "scatter_add", "bincount", "permutation", "sgd", "dropout"}
    assert mixing <= OPS.keys()
    assert mixing.isdisjoint(WITH_RULE)


@pytest.mark.parametrize(
    ("operands", "result", "holds"),
    [
        ([RowOperand((4, 3), True), RowOperand((3,))], (4, 3), True),
        ([RowOperand((4, 3), True), RowOperand((1, 3))], (4, 3), True),
        ([RowOperand((4, 3), True), RowOperand((4, 3))], (4, 3), False),
        ([RowOperand((4, 3), True), RowOperand((4, 3), has_equal_rows=True), None], (4, 3), True),
        ([RowOperand((4,), True), RowOperand((4, 4), True)], (4, 4), False),
        ([RowOperand(()), RowOperand((3,))], (4, 3), True),
        ([RowOperand(())], (), True),
        ([], (4, 3), True),
    ],
)
def test_pointwise_operands_have_rows_or_are_repeated(operands, result, holds):
    assert pointwise(operands, result, {}) is holds


def test_only_the_first_operand_has_rows_or_each_has():
    rows, shared, equal = RowOperand((4,), True), RowOperand((4,)), RowOperand((4,), has_equal_rows=True)
    assert first_operand([rows, shared, None], (4,), {})
    assert not first_operand([rows, rows], (4,), {})
    assert not first_operand([shared, shared], (4,), {})
    assert each_operand([rows, None, equal], (4,), {})
    assert not each_operand([rows, shared], (4,), {})
