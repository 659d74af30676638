"""Products of bytes by the tiles of AMX, whose instructions are emulated where the CPU lacks them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from native.bound import lowered
from native.integers.test_integer_products import CONVOLUTIONS, PRODUCTS, drawn
from native.integers.test_random_networks import network
from native.made import Made
from oracles import integers

from registry import OPS
from runtime.codegen.assemble import Assembly
from runtime.codegen.kernels.integers import sums
from runtime.codegen.machine import INSTRUCTION_SETS, target
from runtime.engines.native.cpu import usable

Count = Callable[[], int]


@pytest.fixture
def chosen_always(monkeypatch: pytest.MonkeyPatch):
    """Products of any shape by tiles, also those that vectors compute faster; their code is not kept."""
    monkeypatch.setenv("PROGRAD_CACHE", "off")
    for name in ("MIN_MATRIX_ROWS", "MIN_MATRIX_WORDS", "MIN_MATRIX_PRODUCTS"):
        monkeypatch.setattr(sums, name, 1)


def agrees(made: Made, wanted: list[Any], products: Count) -> None:
    """Compare the results on one thread and on two with those that are wanted, by tiles."""
    before = products()
    for threads in (1, 2):
        for found, each in zip(made.native(target("amx_int8"), threads), wanted, strict=True):
            np.testing.assert_array_equal(found, each)
    assert products() > before or before < 0


@pytest.mark.usefixtures("chosen_always")
@pytest.mark.sampled(3)
@pytest.mark.parametrize("has_many_zeros", [False, True])
@pytest.mark.parametrize(("left", "right"), [*PRODUCTS, ((70, 200), (200, 90))], ids=str)
def test_a_product_is_exact(left: tuple[int, ...], right: tuple[int, ...], has_many_zeros: bool, products: Count):
    x, w, x_zero, w_zero = drawn((left, right), left, right, (), right[-1:] if has_many_zeros else ())
    wanted = integers.product(x, w, int(x_zero), w_zero)
    agrees(Made(OPS["integer_matmul"], [x, w, x_zero, w_zero]), [wanted], products)


IS_DEPTHWISE = [attributes.get("groups", 1) == image[-1] for image, _, attributes in CONVOLUTIONS]


@pytest.mark.usefixtures("chosen_always")
@pytest.mark.sampled(3)
@pytest.mark.parametrize("has_many_zeros", [False, True])
@pytest.mark.parametrize(
    ("image", "filters", "attributes"),
    [case for case, is_depthwise in zip(CONVOLUTIONS, IS_DEPTHWISE, strict=True) if not is_depthwise],
    ids=str,
)
def test_a_convolution_is_exact(
    image: tuple[int, ...], filters: tuple[int, ...], attributes: dict[str, Any], has_many_zeros: bool, products: Count
):
    shapes = image, filters, (), filters[-1:] if has_many_zeros else ()
    x, w, x_zero, w_zero = drawn((image, filters), *shapes)
    wanted = integers.convolution(x, w, int(x_zero), w_zero, **attributes)
    made = Made(lambda *given: OPS["integer_conv2d"](*given, **attributes), [x, w, x_zero, w_zero])
    agrees(made, [wanted], products)


@pytest.mark.usefixtures("chosen_always")
@pytest.mark.parametrize("code", [0, 255])
def test_the_largest_sums_do_not_overflow(code: int, products: Count):
    x, w = np.full((2, 33025), 255 - code, "u1"), np.full((33025, 3), 255, "u1")
    zeros = np.array(code, "u1"), np.array(0, "u1")
    wanted = integers.product(x, w, code, zeros[1])
    agrees(Made(OPS["integer_matmul"], [x, w, *zeros]), [wanted], products)


@pytest.mark.sampled(15)
@pytest.mark.parametrize("seed", range(30))
def test_random_networks_have_the_codes_of_the_oracle(seed: int, products: Count, request: pytest.FixtureRequest):
    if seed % 3:
        request.getfixturevalue("chosen_always")
    made = network(seed)
    for found, wanted in zip(made.native(target("amx_int8"), 1 + seed % 2), made.wanted, strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("has_many_zeros", [False, True])
@pytest.mark.parametrize(
    ("left", "right", "is_by_tiles"),
    [
        ((5, 300), (300, 400), False),
        ((40, 60), (60, 400), False),
        ((64, 128), (128, 100), False),
        ((64, 128), (128, 256), True),
        ((6, 700), (700, 300), True),
    ],
    ids=str,
)
def test_products_by_tiles_are_those_that_are_worth_it(
    left: tuple[int, ...], right: tuple[int, ...], is_by_tiles: bool, has_many_zeros: bool
):
    x, w, x_zero, w_zero = drawn((left, right), left, right, (), right[-1:] if has_many_zeros else ())
    made = Made(OPS["integer_matmul"], [x, w, x_zero, w_zero])
    [*modules] = Assembly(lowered(made.desc, (), target("amx_int8"))).source.write().modules
    assert any("tdpbusd" in module.text for module in modules) == is_by_tiles


def test_a_machine_that_has_them_takes_them():
    features = dict.fromkeys(INSTRUCTION_SETS["amx_int8"].required, True)
    assert usable(features, "x86_64")[:2] == ["amx_int8", "amx"]
    assert usable(features | {"INTEL": True}, "x86_64")[:2] == ["amx_int8", "amx"]
