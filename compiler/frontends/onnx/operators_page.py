"""The page of the operators of ONNX that from_onnx knows; `make docs` prints it by running this file."""

# pyright: basic
# The lambdas of a table have no types.

from __future__ import annotations

from inspect import getdoc
from textwrap import fill

from compiler.frontends.onnx.operators import FAMILIES, OPERATORS

WIDTH = 180
"""Longest line of the page, in characters."""


def operators_page() -> str:
    """Return the page as Markdown: the operators by family, in the order of the alphabet."""
    parts = [
        "# Operators of ONNX",
        "Made by `make docs`. The tables in `compiler/frontends/onnx/operators/` are the place to edit.",
        f"[`from_onnx`](from-onnx.md) imports these {len(OPERATORS)} operators. An operator that it lacks is replaced "
        "by the function\nbody that ONNX defines for it, if there is one.",
    ]
    for family in FAMILIES:
        title = (getdoc(family) or "").partition("\n")[0].removesuffix(".")
        names = ", ".join(f"`{name}`" for name in sorted(family.OPERATORS))
        parts += [f"## {title}", fill(names, WIDTH, break_long_words=False, break_on_hyphens=False)]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    print(operators_page(), end="")
