"""Every operator by name: filled where they are declared, read by what knows operators only by their names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from registry.operator import Op

OPS: dict[str, Op[..., Any]] = {}
