"""All operators by name: filled by their declarations, read by modules that know operators only by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from registry.operator import Op

OPS: dict[str, Op[..., Any]] = {}

SPELLED: dict[str, Callable[..., Any]] = {}
"""The functions that are composed of operators, by name; see `registry.spelled`."""
