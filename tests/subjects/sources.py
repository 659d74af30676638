"""The syntax trees of source files, which several tests about all files read."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


@cache
def tree_of(path: Path) -> ast.Module:
    """Return the syntax tree of a file, parsed once in a process."""
    return ast.parse(path.read_text(encoding="utf-8"))
