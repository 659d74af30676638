"""Reductions of ATen as ops, appended without PyTorch."""

from typing import Any

import numpy as np
import pytest
from subjects.evaluate import evaluate

from compiler.frontends.arranged import arranged, permuted, plain
from compiler.frontends.extents import Extent
from compiler.frontends.torch.operators.call import Call, Result
from compiler.frontends.torch.operators.reduce import OPERATORS
from registry import Value

X = np.linspace(-1, 1, 24, dtype=np.float32).reshape(2, 3, 4)
"""An array whose elements differ."""


@pytest.mark.parametrize(
    ("name", "dtype", "wanted"),
    [
        ("aten.mean.dim", "float32", X.mean(axis=1)),
        ("aten.sum.dim_IntList", "float32", X.sum(axis=1)),
        ("aten.amax.default", "float32", X.max(axis=1)),
        ("aten.prod.dim_int", "float32", X.prod(axis=1)),
        ("aten.any.dim", "bool", X.any(axis=1)),
        ("aten.var.correction", "float32", X.var(axis=1, ddof=1)),
        ("aten.max.dim", "float32", X.max(axis=1)),
        ("aten.argmin.default", "int64", X.argmin(axis=1)),
    ],
)
def test_a_reduction_is_along_the_axis_of_the_model(name: str, dtype: str, wanted: np.ndarray):
    def imported(x: Value) -> Value:
        call = Call(x.block, (Result(dtype, (Extent(2), Extent(4))),), in_evaluation=False, store=pytest.fail)
        made: Any = OPERATORS[name](call, permuted(arranged(x), (1, 2, 0)), 1)
        result: Any = made[0] if name == "aten.max.dim" else made
        return plain(result)

    np.testing.assert_allclose(evaluate(imported, X.transpose(2, 0, 1)), wanted, rtol=1e-5)
