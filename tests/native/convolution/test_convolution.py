"""Convolutions and their gradients against the reference kernels, unit by unit, between forbidden pages."""

from typing import NamedTuple

import numpy as np
import pytest
from native.building import HERE, every_target
from native.staged import expected, op_of, staged

from runtime.codegen.machine import Target, target

TOLERANCE = {"float32": 2e-6, "float64": 1e-13}
"""Relative to the largest element: sums are added in another order than NumPy's."""


class Case(NamedTuple):
    """A convolution: images n, h, w; channels of a group of the input and the result; the window and how it goes."""

    image: tuple[int, int, int]
    deep: int = 5
    wide: int = 6
    window: tuple[int, int] = (3, 3)
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (1, 1, 1, 1)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    dtype: str = "float32"


CASES = {
    "same": Case((2, 7, 9)),
    "one place": Case((3, 1, 1), window=(1, 1), padding=(0, 0, 0, 0)),
    "a product": Case((5, 6, 7), 20, 33, window=(1, 1), padding=(0, 0, 0, 0), dtype="float64"),
    "every other pixel": Case((2, 7, 8), window=(1, 1), stride=(2, 2), padding=(0, 0, 0, 0)),
    "strides of a border": Case((3, 9, 8), 8, 40, stride=(2, 2)),
    "uneven border": Case((2, 5, 6), 3, 17, (2, 4), (3, 2), (0, 3, 2, 1)),
    "dilation": Case((2, 12, 11), 4, 9, (3, 2), (1, 1), (2, 0, 1, 3), (3, 2)),
    "strides and dilation": Case((1, 13, 14), 2, 5, (3, 3), (2, 3), (3, 2, 2, 1), (3, 2), dtype="float64"),
    "nothing but border": Case((2, 2, 2), 5, 5, (2, 2), (3, 3), (3, 3, 3, 3)),
    "groups": Case((2, 6, 5), 3, 7, groups=4),
    "groups with strides": Case((2, 6, 5), 2, 19, (3, 2), (2, 1), groups=3),
    "channels by themselves": Case((3, 6, 7), 1, 1, groups=20),
    "by themselves with strides": Case((2, 9, 8), 1, 1, (3, 2), (2, 3), (1, 0, 1, 2), groups=35, dtype="float64"),
    "by themselves, dilated": Case((1, 11, 12), 1, 1, (5, 4), (2, 1), (3, 2, 2, 4), (2, 3), groups=16),
    "channels that make several": Case((3, 6, 7), 1, 3, groups=20),
    "that make two, with strides": Case((2, 9, 8), 1, 2, (3, 2), (2, 3), (1, 0, 1, 2), groups=35, dtype="float64"),
    "that make many, one place": Case((9, 3, 3), 1, 19, padding=(0, 0, 0, 0), groups=2),
    "by themselves, one place": Case((9, 3, 3), 1, 1, padding=(0, 0, 0, 0), groups=17),
    "one channel": Case((9, 10, 11), 1, 16, (5, 3), padding=(2, 1, 2, 1)),
    "to one channel": Case((2, 8, 8), 17, 1),
    "many images": Case((16, 4, 4), 19, 48),
    "deep": Case((2, 3, 4), 700, 5, (3, 2)),
    "wide": Case((2, 3, 3), 6, 280),
    "long lines": Case((1, 3, 130), 9, 24),
    "a product of many places": Case((20, 14, 19), 20, 70, window=(1, 1), padding=(0, 0, 0, 0)),
    "a product of many images": Case((70, 9, 9), 19, 5, window=(1, 1), padding=(0, 0, 0, 0), dtype="float64"),
    "every other of many pixels": Case((40, 21, 49), 17, 33, (1, 1), (2, 3), (0, 0, 0, 0)),
    "a column of pixels": Case((2, 30, 1), 5, 40, (3, 1), padding=(1, 0, 1, 0)),
    "a column beside a border": Case((3, 12, 1), 6, 20, (3, 1), (2, 2), (1, 1, 1, 0), dtype="float64"),
    "panels of one tile": Case((1, 4, 3), 24, 150),
    "panels of many tiles": Case((20, 3, 3), 6, 280),
    "few from rows below each other": Case((3, 9, 21), 7, 3, (4, 5), (2, 1), (1, 2, 3, 0)),
    "few without a border": Case((9, 7, 9), 5, 2, (3, 5), padding=(0, 0, 0, 0), dtype="float64"),
    "some vectors of channels": Case((2, 6, 16), 17, 40),
    "vectors of channels, cut": Case((2, 5, 8), 250, 70, (3, 3)),
    "of which units are panels": Case((3, 2, 8), 300, 70, (3, 2), padding=(2, 1, 1, 1)),
    "a filter that is read once": Case((1, 4, 3), 70, 200),
    "once, row by row": Case((2, 5, 4), 150, 136, (3, 2), (2, 1), dtype="float64"),
    "once, by parts of its channels": Case((1, 3, 4), 700, 72, (3, 2)),
    "once, without a border": Case((1, 8, 7), 67, 200, (1, 1), (2, 3), (0, 0, 0, 0)),
    "to few of several images": Case((8, 13, 13), 3, 6, (5, 5), padding=(2, 2, 2, 2)),
    "tall": Case((1, 70, 3), 2, 20, (3, 3), (1, 1), (0, 1, 0, 1)),
}


def operands(case: Case) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, object]]:
    """Input, filter, gradient of the result, attributes."""
    rng = np.random.default_rng(0)
    attributes = {name: getattr(case, name) for name in ("stride", "padding", "dilation", "groups")}
    x = rng.normal(size=(*case.image, case.groups * case.deep)).astype(case.dtype)
    w = rng.normal(size=(*case.window, case.deep, case.groups * case.wide)).astype(case.dtype)
    [y] = expected(op_of("conv2d", [x, w], attributes).ops[0], [x, w])
    return x, w, rng.normal(size=y.shape).astype(case.dtype), attributes


@pytest.mark.sampled(24)
@pytest.mark.parametrize("number", range(len(CASES)), ids=list(CASES))
@pytest.mark.parametrize("op", ["conv2d", "conv2d_input_gradient", "conv2d_filter_gradient"])
def test_a_convolution_computes_what_its_kernel_does(op: str, number: int):
    case = list(CASES.values())[number]
    x, w, dy, attributes = operands(case)
    inputs, more = {
        "conv2d": ([x, w], {}),
        "conv2d_input_gradient": ([dy, w], {"shape": x.shape}),
        "conv2d_filter_gradient": ([x, dy], {"shape": w.shape}),
    }[op]
    block = op_of(op, inputs, {**attributes, **more})
    [wanted] = expected(block.ops[0], inputs)
    for name in (HERE[0], HERE[number % len(HERE)])[: 1 + (number % len(HERE) > 0)]:
        [made] = staged(target(name), block, inputs, end=number % 2 == 0)
        np.testing.assert_allclose(made, wanted, rtol=0, atol=TOLERANCE[case.dtype] * np.abs(wanted).max(initial=1))


@every_target
@pytest.mark.parametrize("columns", [7, 13, 17])
def test_tiles_of_a_split_depth_add_to_every_pixel_once(target: Target, columns: int):
    """Lines of these lengths have tiles of several sizes on some instruction set."""
    x, w, _, attributes = operands(Case((1, 3, columns), 214, 64, dtype="float64"))
    block = op_of("conv2d", [x, w], attributes)
    [wanted], [made] = expected(block.ops[0], [x, w]), staged(target, block, [x, w])
    np.testing.assert_allclose(made, wanted, rtol=0, atol=TOLERANCE["float64"] * np.abs(wanted).max())


def test_a_row_of_a_filter_beside_the_border_reads_no_border():
    """NaN at every place that a tap sees spreads to it, and to no other."""
    x, w = np.zeros((1, 4, 20, 3), "float32"), np.ones((3, 3, 3, 4), "float32")
    x[0, 1, 7, 2] = np.nan
    attributes = {"stride": (1, 1), "padding": (1, 1, 1, 1), "dilation": (1, 1), "groups": 1}
    [made] = staged(target(HERE[0]), op_of("conv2d", [x, w], attributes), [x, w])
    seen = np.zeros((1, 4, 20, 4), bool)
    seen[:, 0:3, 6:9] = True
    np.testing.assert_array_equal(np.isnan(made), seen)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", ["uneven border", "every other of many pixels", "once, row by row"])
@pytest.mark.parametrize("op", ["conv2d", "conv2d_input_gradient", "conv2d_filter_gradient"])
def test_threads_change_no_bit(op: str, case: str):
    """Units are shared out in two ways, to one thread and to three, whose scratch keeps what other units left there."""
    x, w, dy, attributes = operands(CASES[case])
    inputs, more = {
        "conv2d": ([x, w], {}),
        "conv2d_input_gradient": ([dy, w], {"shape": x.shape}),
        "conv2d_filter_gradient": ([x, dy], {"shape": w.shape}),
    }[op]
    block = op_of(op, inputs, {**attributes, **more})
    made = [staged(target(HERE[0]), block, inputs, threads=threads)[0].tobytes() for threads in (1, 3)]
    assert made[0] == made[1]
