"""Winograd's filtering against sums in float64; what is not finite against the reference kernel."""

from itertools import product
from typing import NamedTuple

import numpy as np
import pytest
from native.building import HERE
from native.made import Made
from native.staged import expected, op_of, staged

from prograd_proto import TensorType
from registry import OPS
from runtime.codegen.kernels.conv.winograd.convolution import Winograd
from runtime.codegen.kernels.conv.winograd.filter_gradient import WinogradFilterGradient
from runtime.codegen.kernels.op_types import OpTypes
from runtime.codegen.machine import target
from runtime.codegen.rules import RULES, CustomKernel

SAME = {"stride": (1, 1), "padding": (1, 1, 1, 1), "dilation": (1, 1), "groups": 1}
OPERATORS = ("conv2d", "conv2d_input_gradient", "conv2d_filter_gradient")


class Case(NamedTuple):
    """Images n, h, w; channels; the border."""

    image: tuple[int, int, int]
    deep: int
    wide: int
    padding: tuple[int, int, int, int] = (1, 1, 1, 1)


CASES = {
    "even": Case((2, 8, 8), 32, 32),
    "odd": Case((3, 7, 9), 24, 40),
    "uneven border": Case((1, 5, 6), 17, 33, (0, 2, 1, 0)),
    "no border": Case((2, 9, 9), 70, 19, (0, 0, 0, 0)),
    "a wide border": Case((1, 6, 5), 16, 16, (2, 2, 2, 2)),
    "few channels": Case((1, 13, 3), 5, 6),
    "one place": Case((1, 1, 1), 3, 18),
    "one tile": Case((1, 2, 2), 16, 16),
    "several blocks": Case((9, 10, 10), 130, 20),
    "units that share pixels": Case((3, 5, 7), 112, 200),
    "as deep as may be": Case((2, 5, 4), 640, 32),
}


def operands(case: Case) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Input, filter, gradient of the result."""
    rng = np.random.default_rng(0)
    n, h, w = case.image
    left, right = sum(case.padding[::2]), sum(case.padding[1::2])
    shapes = (n, h, w, case.deep), (3, 3, case.deep, case.wide), (n, h + left - 2, w + right - 2, case.wide)
    x, filters, dy = (rng.normal(size=shape).astype("float32") for shape in shapes)
    return x, filters, dy


def inputs_of(op: str, case: Case) -> tuple[list[np.ndarray], dict[str, object]]:
    x, w, dy = operands(case)
    attributes = {**SAME, "padding": case.padding}
    return {
        "conv2d": ([x, w], attributes),
        "conv2d_input_gradient": ([dy, w], {**attributes, "shape": x.shape}),
        "conv2d_filter_gradient": ([x, dy], {**attributes, "shape": w.shape}),
    }[op]


def exact(op: str, inputs: list[np.ndarray], attributes: dict[str, object]) -> np.ndarray:
    """Place by place, tap by tap, in float64."""
    source, w = (x.astype(float) for x in inputs)
    top, left, bottom, right = attributes["padding"]
    padded = np.pad(source, ((0, 0), (top, bottom), (left, right), (0, 0)))
    high, wide = padded.shape[1] - 2, padded.shape[2] - 2
    if op == "conv2d":
        return sum(padded[:, i : i + high, j : j + wide] @ w[i, j] for i in range(3) for j in range(3))
    if op == "conv2d_filter_gradient":
        taps = [[padded[:, i : i + high, j : j + wide] for j in range(3)] for i in range(3)]
        return np.array([[np.einsum("nhwc,nhwd->cd", seen, w) for seen in line] for line in taps])
    n, high, wide, _ = source.shape
    dx = np.zeros((n, high + 2, wide + 2, w.shape[2]))
    for i in range(3):
        for j in range(3):
            dx[:, i : i + high, j : j + wide] += source @ w[i, j].T
    _, h, w_, _ = attributes["shape"]
    return dx[:, top : top + h, left : left + w_]


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it costs."""
    for form in (Winograd, WinogradFilterGradient):
        monkeypatch.setattr(form, "cycles", 0.0)


@pytest.mark.sampled(6)
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize(("op", "number"), [*product(OPERATORS, range(len(CASES)))])
def test_every_place_is_near_the_sum_of_its_products(op: str, number: int):
    inputs, attributes = inputs_of(op, list(CASES.values())[number])
    wanted = exact(op, inputs, attributes)
    for name in (HERE[0], HERE[number % len(HERE)])[: 1 + (number % len(HERE) > 0)]:
        [made] = staged(target(name), op_of(op, inputs, attributes), inputs, end=number % 2 == 0)
        np.testing.assert_allclose(made, wanted, rtol=0, atol=2e-6 * np.abs(wanted).max())


@pytest.mark.thorough
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("case", ["several blocks", "units that share pixels"])
@pytest.mark.parametrize("op", OPERATORS)
def test_threads_change_no_bit(op: str, case: str):
    """Nor do they where something is not finite; scratch keeps what other units left there."""
    inputs, attributes = inputs_of(op, CASES[case])
    inputs[0][-1, 2, 3, 4] = np.inf
    block = op_of(op, inputs, attributes)
    made = [staged(target(HERE[0]), block, inputs, threads=threads)[0].tobytes() for threads in (1, 3)]
    assert made[0] == made[1]


@pytest.mark.sampled(12)
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("worst", [np.nan, -np.inf])
@pytest.mark.parametrize("number", [0, 1], ids=["source", "filter"])
@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize("name", HERE)
def test_what_is_not_finite_is_where_the_reference_has_it(name: str, op: str, number: int, worst: float):
    inputs, attributes = inputs_of(op, Case((2, 6, 7), 20, 37))
    inputs[number][1, 2, 3, 4] = worst
    block = op_of(op, inputs, attributes)
    [wanted] = expected(block.ops[0], inputs)
    [made] = staged(target(name), block, inputs)
    np.testing.assert_array_equal(np.isfinite(made), np.isfinite(wanted))
    np.testing.assert_array_equal(made[~np.isfinite(made)], wanted[~np.isfinite(made)])
    np.testing.assert_allclose(made, wanted, rtol=0, atol=3e-5)
    assert 0 < np.isfinite(made).sum() < made.size


@pytest.mark.usefixtures("always")
def test_sums_of_large_pixels_are_not_too_large():
    """Four of them are more than a float32 holds, what the filter makes of them is not."""
    x, w = np.full((1, 6, 6, 16), 2e38, "float32"), np.zeros((3, 3, 16, 16), "float32")
    w[1, 1] = np.eye(16)
    x[:, ::2] *= -1
    [made] = staged(target(HERE[0]), op_of("conv2d", [x, w], SAME), [x, w])
    np.testing.assert_array_equal(made, x)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("worst", [1.0, np.inf])
def test_what_follows_it_sees_each_place_as_it_is_at_last(worst: float):
    """A bias, an activation and a residual, at odd sizes; made again where the source is not finite."""
    rng = np.random.default_rng(0)
    shapes = (2, 7, 9, 20), (3, 3, 20, 24), (24,), (2, 7, 9, 24)
    operands = [rng.normal(size=shape).astype("float32") for shape in shapes]
    operands[0][1, 3, 3, 3] = worst

    def write(x, w, b, r):
        return [OPS["add"](OPS["relu"](OPS["add"](OPS["conv2d"](x, w, **SAME), b)), r)]

    made = Made(write, operands)
    assert made.groups(target(HERE[0])) == ["conv2d+add+relu+add"]
    for threads in (1, 3):
        [found], [wanted] = made.native(target(HERE[0]), threads), made.wanted
        np.testing.assert_allclose(found, wanted, rtol=0, atol=3e-5)


@pytest.mark.parametrize("name", HERE)
def test_the_form_is_chosen_by_shapes_where_it_saves_time(name: str):
    """Its first scratch has 16 elements for 9 of the filter."""

    def is_chosen(n: int, side: int, deep: int, wide: int, dtype: str = "float32", **others: object) -> bool:
        form = RULES["conv2d"]
        assert isinstance(form, CustomKernel)
        types = [
            TensorType(dtype, shape) for shape in ((n, side, side, deep), (3, 3, deep, wide), (n, side, side, wide))
        ]
        stages = form.plan(target(name), OpTypes(types[:2], types[2:], {**SAME, **others}))
        return bool(stages.shared_scratch) and stages.shared_scratch[0] == 16 * deep * wide * 4

    assert all(is_chosen(32, side, c, c) for side, c in ((32, 64), (16, 128), (8, 256), (4, 512)))
    assert is_chosen(1, 32, 64, 64)
    assert is_chosen(1, 16, 128, 128)
    assert not is_chosen(1, 8, 256, 256)
    assert not is_chosen(1, 4, 512, 512)
    assert not is_chosen(32, 32, 16, 64, dtype="float64")
    assert not is_chosen(32, 28, 1, 32)
    assert not is_chosen(32, 4, 768, 768)


@pytest.mark.parametrize("name", HERE)
def test_gradients_of_filters_take_it_where_it_saves_time(name: str):
    """Its scratch has the sums of 16 positions for each part, or all that is transformed."""

    def scratch(n: int, side: int, channels: int, dtype: str = "float32") -> tuple[int, ...]:
        form = RULES["conv2d_filter_gradient"]
        assert isinstance(form, CustomKernel)
        image, filters = (n, side, side, channels), (3, 3, channels, channels)
        types = [TensorType(dtype, shape) for shape in (image, image, filters)]
        op = OpTypes(types[:2], types[2:], {**SAME, "shape": filters})
        return form.plan(target(name), op).shared_scratch

    assert scratch(32, 32, 64) == (8 * 16 * 64 * 64 * 4,)
    assert scratch(32, 16, 128) == (4 * 16 * 128 * 128 * 4,)
    pixels, gradients = scratch(32, 8, 256)
    assert 1 <= pixels / (16 * 512 * 256 * 4) < 1.01
    assert 1 <= gradients / (16 * 512 * 256 * 4) < 1.1
    assert scratch(32, 32, 64, "float64") != (8 * 16 * 64 * 64 * 8,)
