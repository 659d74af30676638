"""The syntax trees of source files, which several tests about all files read."""

from __future__ import annotations

import ast
import gc
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]


def tree_of(path: Path) -> ast.Module:
    """Return the syntax tree of a file of our packages."""
    return _trees()[path]


@cache
def _trees() -> dict[Path, ast.Module]:
    """Parse all files, once in a process; collections of garbage that saw the trees would take four times as long."""
    folders = ("compiler", "prograd", "proto", "registry", "runtime")
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    gc.collect()
    gc.disable()
    try:
        return {path: ast.parse(path.read_text(encoding="utf-8")) for path in paths}
    finally:
        gc.freeze()
        gc.enable()
