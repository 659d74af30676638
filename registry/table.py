"""All operators by name: filled by their declarations, called by modules that know operators only by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

OPS: dict[str, Callable[..., Any]] = {}
"""The operators, each an `Op`; `registry.OPS` is this table with that type."""

SPELLED: dict[str, Callable[..., Any]] = {}
"""The functions that are composed of operators, by name; see `registry.spelled`."""
