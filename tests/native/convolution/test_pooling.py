"""Pools and their gradients against the reference kernels, unit by unit, between forbidden pages."""

from typing import NamedTuple

import numpy as np
import pytest
from native.building import HERE
from native.staged import expected, op_of, staged

from runtime.codegen.machine import target


class Case(NamedTuple):
    """A pool of images n, h, w, channels."""

    image: tuple[int, int, int, int]
    window: tuple[int, int] = (2, 2)
    stride: tuple[int, int] = (2, 2)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    dtype: str = "float32"


CASES = {
    "halves": Case((2, 6, 8, 20)),
    "what is left over": Case((2, 7, 9, 3)),
    "gaps": Case((2, 9, 10, 18), (2, 1), (3, 4), dtype="float64"),
    "overlapping": Case((2, 7, 8, 33), (3, 3), (2, 2), (1, 1, 1, 1)),
    "uneven border": Case((1, 5, 6, 7), (3, 4), (1, 2), (0, 3, 2, 1), "float64"),
    "large window": Case((2, 9, 8, 5), (9, 8), (1, 1)),
    "large window with a border": Case((1, 6, 6, 16), (5, 5), (3, 3), (4, 2, 2, 4)),
    "one channel": Case((3, 4, 4, 1)),
}
OPS = ["max_pool2d", "max_pool2d_select", "max_pool2d_input_gradient", "avg_pool2d", "avg_pool2d_input_gradient"]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("number", range(len(CASES)), ids=list(CASES))
@pytest.mark.parametrize(("op", "counts_border"), [(op, False) for op in OPS] + [(op, True) for op in OPS[-2:]])
def test_a_pool_computes_what_its_kernel_does(op: str, number: int, counts_border: bool):
    case = list(CASES.values())[number]
    rng = np.random.default_rng(number)
    x, z = (rng.integers(-3, 3, case.image).astype(case.dtype) for _ in range(2))  # with equal maxima
    attributes: dict[str, object] = {name: getattr(case, name) for name in ("window", "stride", "padding")}
    if op.startswith("avg"):
        attributes["count_include_pad"] = counts_border
    else:
        x.reshape(-1)[:: 11 + number] = np.nan
        x.reshape(-1)[5 :: 13 + number] = -np.inf
    forwards = op.partition("_input_gradient")[0].partition("_select")[0]
    [y] = expected(op_of(forwards, [x], attributes).ops[0], [x])
    dy = rng.normal(size=y.shape).astype(case.dtype)
    inputs, more = {
        "max_pool2d_select": ([x, z], {}),
        "max_pool2d_input_gradient": ([x, dy], {}),
        "avg_pool2d_input_gradient": ([dy], {"shape": x.shape}),
    }.get(op, ([x], {}))
    block = op_of(op, inputs, {**attributes, **more})
    [wanted] = expected(block.ops[0], inputs)
    for name in dict.fromkeys((HERE[0], HERE[number % len(HERE)])):
        [made] = staged(target(name), block, inputs, end=number % 2 == 0)
        tolerance = {"float32": 1e-6, "float64": 1e-15}[case.dtype] if "gradient" in op else 0
        np.testing.assert_allclose(made, wanted, rtol=0, atol=tolerance * 20)
