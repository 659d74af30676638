"""The table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Function = Callable[..., Any]

TORCH: dict[str, Function] = {}
"""By name."""


def spelled(*names: str) -> Callable[[Function], Function]:
    """Note that the decorated function is these in PyTorch."""

    def note(function: Function) -> Function:
        for name in names:
            TORCH[name] = function
        return function

    return note
