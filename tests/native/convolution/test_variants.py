"""Variants of convolutions: the cheapest that applies is taken, and depends on shape and instruction set only."""

from dataclasses import replace

import numpy as np
import pytest
from native.building import HERE
from native.made import check

from prograd_proto import TensorType
from registry import OPS
from runtime.codegen.ir import FLOAT32
from runtime.codegen.kernels.conv.axes import forward_axis
from runtime.codegen.kernels.conv.filter_plan import FilterAxis, FilterGradient
from runtime.codegen.kernels.conv.plan import ConvShape, plan_convolution
from runtime.codegen.kernels.conv.variants import (
    CONVOLUTIONS,
    FILTER_GRADIENTS,
    convolution_variant,
    filter_gradient_variant,
)
from runtime.codegen.machine import INSTRUCTION_SETS, target
from runtime.codegen.rules.conv import shape_of

CONVOLUTION_CASES = {
    "Direct": (32, 16, 64, 64, 1, 1),
    "Folded": (32, 28, 1, 6, 5, 1),
    "OneChannelGroups": (32, 16, 96, 96, 3, 96),
    "Streamed": (1, 7, 512, 512, 3, 1),
    "Winograd": (32, 16, 128, 128, 3, 1),
}
"""Images, their size, channels of source and result, window, and groups, by the variant for AVX-512."""

GRADIENT_CASES = {
    "DirectFilterGradient": (32, 8, 24, 64, 5, 1),
    "FilterGradient1x1": (32, 16, 64, 64, 1, 1),
    "LineFilterGradient": (32, 28, 1, 6, 5, 1),
    "OneChannelFilterGradient": (32, 16, 96, 96, 3, 96),
    "WinogradFilterGradient": (32, 16, 64, 64, 3, 1),
}


def convolution_of(images: int, size: int, deep: int, wide: int, window: int, groups: int) -> ConvShape:
    axis = forward_axis(size, window, 1, window // 2, 1, size)
    return ConvShape(images, axis, axis, groups, deep // groups, wide // groups, (window, window), False)


def gradient_of(images: int, size: int, deep: int, wide: int, window: int, groups: int, lanes: int) -> FilterGradient:
    axis = FilterAxis(size, size, window, 1, window // 2, 1)
    return FilterGradient(FLOAT32, images, axis, axis, groups, deep // groups, wide // groups, lanes)


@pytest.mark.parametrize("name", CONVOLUTION_CASES)
def test_a_convolution_takes_its_variant(name: str):
    found = convolution_variant(target("avx512"), FLOAT32, convolution_of(*CONVOLUTION_CASES[name]))
    assert type(found).__name__ == name


@pytest.mark.parametrize("name", GRADIENT_CASES)
def test_a_filter_gradient_takes_its_variant(name: str):
    found = filter_gradient_variant(target("avx512"), gradient_of(*GRADIENT_CASES[name], 16))
    assert type(found).__name__ == name


def test_every_variant_is_taken_by_a_case():
    assert {variant.__name__ for variant in CONVOLUTIONS} == set(CONVOLUTION_CASES)
    assert {variant.__name__ for variant in FILTER_GRADIENTS} == set(GRADIENT_CASES)


@pytest.mark.parametrize("instructions", INSTRUCTION_SETS)
def test_no_variant_that_applies_is_cheaper_and_caches_do_not_matter(instructions: str):
    nominal = target("avx512" if target(instructions).fma else instructions)
    for l2_bytes in (256 << 10, 4 << 20):
        machine = replace(target(instructions), l2_bytes=l2_bytes)
        for case in CONVOLUTION_CASES.values():
            shape = convolution_of(*case)
            found = type(convolution_variant(machine, FLOAT32, shape))
            prices = [v(nominal, FLOAT32, shape).cycles for v in CONVOLUTIONS if v.applies(nominal, FLOAT32, shape)]
            assert found(nominal, FLOAT32, shape).cycles == min(prices)
        for case in GRADIENT_CASES.values():
            gradient = gradient_of(*case, nominal.lanes())
            cheapest = type(filter_gradient_variant(machine, gradient_of(*case, machine.lanes())))
            prices = [v(nominal, gradient).cycles for v in FILTER_GRADIENTS if v.applies(nominal, gradient)]
            assert cheapest(nominal, gradient).cycles == min(prices)


@pytest.mark.parametrize("instructions", HERE)
def test_a_channel_that_makes_several_vectors_is_convolved_in_tiles(instructions: str):
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(2, 12, 12, 2)).astype("f4"), rng.normal(size=(1, 1, 1, 258)).astype("f4")
    here = target(instructions)
    shape = convolution_of(2, 12, 2, 258, 1, 2)
    assert type(convolution_variant(here, FLOAT32, shape)).__name__ == "Direct"
    check(lambda x, w: OPS["conv2d"](x, w, groups=2), [x, w], here)


def test_a_column_of_pixels_is_a_row_of_pixels():
    attributes = {"stride": (1, 1), "padding": (0, 0, 0, 0), "dilation": (1, 1), "groups": 1}
    column = [TensorType("float32", shape) for shape in ((1, 512, 1, 64), (5, 1, 64, 32), (1, 508, 1, 32))]
    row = [TensorType("float32", shape) for shape in ((1, 1, 512, 64), (1, 5, 64, 32), (1, 1, 508, 32))]
    assert shape_of(*column, attributes) == shape_of(*row, attributes)


@pytest.mark.parametrize(
    ("images", "extents", "wide", "lines"),
    [
        (1, (14, 14), 512, (1, 196)),
        (1, (14, 14), 256, (2, 98)),
        (1, (14, 14), 128, (4, 49)),
        (1, (14, 14), 64, (14, 14)),  # lines for eight items would be short
        (2, (14, 14), 64, (4, 49)),
        (1, (13, 13), 256, (13, 13)),  # no equal lines
        (1, (3, 5), 512, (1, 15)),
        (4, (14, 14), 64, (1, 196)),
    ],
)
def test_few_images_under_a_1x1_filter_are_long_lines_for_several_threads(
    images: int, extents: tuple[int, int], wide: int, lines: tuple[int, int]
):
    attributes = {"stride": (1, 1), "padding": (0, 0, 0, 0), "dilation": (1, 1), "groups": 1}
    shapes = ((images, *extents, 96), (1, 1, 96, wide), (images, *extents, wide))
    found = shape_of(*[TensorType("float32", shape) for shape in shapes], attributes)
    assert (found.rows.pixels, found.columns.pixels) == lines


@pytest.mark.parametrize(("wide", "packs"), [(512, True), (1024, True), (528, False)])
def test_a_1x1_filter_whose_rows_conflict_is_packed(wide: int, packs: bool):
    assert plan_convolution(target("avx512"), 32, convolution_of(1, 14, 320, wide, 1, 1)).packs == packs


@pytest.mark.parametrize("instructions", HERE)
@pytest.mark.parametrize(("images", "extents"), [(1, (14, 14)), (2, (9, 11)), (3, (7, 7))])
def test_few_images_under_a_1x1_filter_have_their_results(instructions: str, images: int, extents: tuple[int, int]):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(images, *extents, 130)).astype("f4")
    w = rng.normal(size=(1, 1, 130, 512)).astype("f4")
    check(OPS["conv2d"], [x, w], target(instructions))
