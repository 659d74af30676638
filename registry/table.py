"""All operators by name: filled by their declarations, read by modules that know operators only by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from registry.control.control_op import ControlOp
    from registry.operator import Op

OPS: dict[str, Op[..., Any]] = {}

CONTROL: dict[str, ControlOp] = {}
"""The operators that run blocks, by name; `registry.control` declares them."""
