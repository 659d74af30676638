"""The table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Function = Callable[..., Any]

TORCH: dict[str, Function] = {}
"""Functions of PyTorch by the name of the operator that they match."""


NOT_COMPARED = (
    dict.fromkeys(
        ("adam_scale", "adamax", "amsgrad", "nadam", "radam"),
        "whole training runs compare it: tests/peers/trajectories.py",
    )
    | dict.fromkeys(
        ("random_flip", "random_crop", "random_colour", "random_noise", "random_cutout", "mixup"),
        "they draw random numbers, PyTorch draws others",
    )
    | dict.fromkeys(
        ("nonzero", "unique"),
        "the number of rows in PyTorch is data; tests/operators/test_order.py compares them",
    )
    | dict.fromkeys(
        ("integer_conv2d", "integer_matmul", "quantize_linear", "dequantize_linear", "requantize"),
        "PyTorch has no such codes; tests/native/integers compares them with tests/oracles/integers.py",
    )
    | {"cached_attention": "PyTorch has none; tests/control/test_cached_attention.py compares it with attention"}
    | {"dequantize": "PyTorch has none; tests/language/test_gguf.py compares it with the numbers of a file"}
    | {"deform_conv2d": "PyTorch has none; tests/operators/test_resize.py compares it with loops"}
)
"""Operators whose values are left to another test, with the reason; the updates have no gradient."""


def spelled(*names: str) -> Callable[[Function], Function]:
    """Note that the decorated function is these in PyTorch."""

    def note(function: Function) -> Function:
        for name in names:
            TORCH[name] = function
        return function

    return note
