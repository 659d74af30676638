"""The page of the operators of ATen that from_torch knows; `make docs` prints it by running this file."""

from __future__ import annotations

from typing import Final

from compiler.frontends import operators_page as pages
from compiler.frontends.torch.operators import FAMILIES, OPERATORS

OURS: Final = "prograd."
"""Namespace of operators that stand for what torch.export cannot trace, which no model calls."""


def operators_page() -> str:
    """Return the page as Markdown: the operators by family, in the order of the alphabet."""
    count = sum(not name.startswith(OURS) for name in OPERATORS)
    text = (
        f"[`from_torch`](from-pytorch.md) imports these {count} operators of ATen. Operators that it lacks are"
        " first\nsplit up by `torch.export` where PyTorch can do so."
    )
    tables = [
        (family, {name: mapping for name, mapping in family.OPERATORS.items() if not name.startswith(OURS)})
        for family in FAMILIES
    ]
    return pages.operators_page("Operators of PyTorch", "compiler/frontends/torch/operators/", text, tables, "aten.")


if __name__ == "__main__":
    print(operators_page(), end="")
