"""The page of the operators of ATen that from_torch knows; `make docs` prints it by running this file."""

# pyright: basic
# The lambdas of a table have no types.

from __future__ import annotations

from inspect import getdoc
from textwrap import fill

from compiler.frontends.torch.operators import FAMILIES, OPERATORS

WIDTH = 180
"""Longest line of the page, in characters."""


def operators_page() -> str:
    """Return the page as Markdown: the operators by family, in the order of the alphabet."""
    parts = [
        "# Operators of PyTorch",
        "Made by `make docs`. The tables in `compiler/frontends/torch/operators/` are the place to edit.",
        f"[`from_torch`](from-pytorch.md) imports these {len(OPERATORS)} operators of ATen. Operators that it lacks are"
        " first\nsplit up by `torch.export` where PyTorch can do so.",
    ]
    for family in FAMILIES:
        title = (getdoc(family) or "").partition("\n")[0].removesuffix(".")
        names = ", ".join(f"`{name.removeprefix('aten.')}`" for name in sorted(family.OPERATORS))
        parts += [f"## {title}", fill(names, WIDTH, break_long_words=False, break_on_hyphens=False)]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    print(operators_page(), end="")
