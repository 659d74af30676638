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
