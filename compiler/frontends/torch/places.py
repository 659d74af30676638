"""The place of a node of an exported graph: its module, and its line of the module's source."""

from __future__ import annotations

import re
from typing import Any

from compiler.frontends.report import Problem
from compiler.frontends.report import source_line as line_of_trace


def problem_of(operator: str, node: Any, reason: str) -> Problem:
    """Return the problem of a node."""
    path, line = source_line(node)
    place = f"{path.rpartition('/')[2]}:{line}" if path else ""
    told, _, rest = reason.partition(": ")
    reason = rest if place and told.endswith(place) else reason
    symbol = re.search(r"is the symbol ('.*'); here it must be a number", reason)
    remedy = f"import the module without the symbol {symbol[1]}" if symbol else ""
    return Problem(operator, reason, module_path(node), place, remedy)


def module_path(node: Any) -> str:
    """Return the path of the innermost module that a node was traced in; "" for the whole."""
    stack = node.meta.get("nn_module_stack") or {}
    return next(reversed([path for path, _ in stack.values()]), "")


def place_of(node: Any) -> str:
    """Return ` (at net.py:31)`, the innermost line of the source that made a node; "" if it is unknown."""
    path, line = source_line(node)
    return f" (at {path.rpartition('/')[2]}:{line})" if path else ""


def source_line(node: Any) -> tuple[str, int]:
    """Return file and number of the innermost line of the source that made a node; ("", 0) if it is unknown."""
    return line_of_trace(node.meta.get("stack_trace") or "")
