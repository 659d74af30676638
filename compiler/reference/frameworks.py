"""The pages about operators of other frameworks: `python -m compiler.reference.frameworks from-onnx` prints one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from inspect import getdoc
from textwrap import fill
from types import ModuleType
from typing import Any, Final

from compiler import onnx_operators
from compiler.frontends.onnx.integers import DOMAIN
from compiler.frontends.torch import operators

Families = Sequence[tuple[ModuleType, list[str]]]

WIDTH: Final = 180
"""Longest line of a page, in characters."""

OURS: Final = "prograd."
"""Namespace of operators that stand for what torch.export cannot trace, which no model calls."""


def from_onnx() -> str:
    """Return the page of the operators of ONNX that `from_onnx` imports."""
    families = _families(onnx_operators.FAMILIES, "IMPORTS", f"{DOMAIN}.")
    count = len({name for _, names in families for name in names})
    text = (
        f"[`from_onnx`](from-onnx.md) imports these {count} operators. An operator that it lacks is replaced "
        "by the function\nbody that ONNX defines for it, if there is one."
    )
    return _page("Operators of ONNX", "compiler/onnx_operators/", text, families)


def to_onnx() -> str:
    """Return the page of the operators that `to_onnx` writes."""
    text = (
        f"[`to_onnx`](to-onnx.md) writes these {len(onnx_operators.EXPORTS)} operators of prograd. Functions that are "
        "spelled by others, such\nas losses and pooling over one axis, are written as those."
    )
    families = _families(onnx_operators.FAMILIES, "EXPORTS")
    return _page("Operators for ONNX", "compiler/onnx_operators/", text, families)


def from_torch() -> str:
    """Return the page of the operators of ATen that `from_torch` imports."""
    families = _families(operators.FAMILIES, "OPERATORS", OURS)
    text = (
        f"[`from_torch`](from-pytorch.md) imports these {sum(len(names) for _, names in families)} operators of ATen. "
        "Operators that it lacks are first\nsplit up by `torch.export` where PyTorch can do so."
    )
    return _page("Operators of PyTorch", "compiler/frontends/torch/operators/", text, families)


PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "from-onnx": from_onnx,
    "to-onnx": to_onnx,
    "from-pytorch": from_torch,
}
"""The pages by the beginning of their names, as in docs/from-onnx-operators.md."""


def _families(families: Sequence[ModuleType], table: str, hidden: str = "\0") -> Families:
    """Return modules with the names in their tables, in the order of the alphabet, without those of a namespace."""
    tables: list[tuple[ModuleType, Mapping[str, Any]]] = [
        (family, getattr(family, table)) for family in families if hasattr(family, table)
    ]
    return [(family, sorted(name for name in names if not name.startswith(hidden))) for family, names in tables]


def _page(title: str, tables: str, text: str, families: Families) -> str:
    """Return a page as Markdown; `tables` is the folder of the tables, and `text` stands before the first family."""
    parts = [f"# {title}", f"Made by `make docs`. The tables in `{tables}` are the place to edit.", text]
    for family, table in families:
        heading = (getdoc(family) or "").partition("\n")[0].removesuffix(".")
        names = ", ".join(f"`{name.removeprefix('aten.')}`" for name in table)
        parts += [f"## {heading}", fill(names, WIDTH, break_long_words=False, break_on_hyphens=False)]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    print(PAGES[sys.argv[1]](), end="")
