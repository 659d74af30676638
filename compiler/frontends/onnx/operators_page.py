"""The page of the operators of ONNX that from_onnx knows; `make docs` prints it by running this file."""

from __future__ import annotations

from compiler.frontends import operators_page as pages
from compiler.onnx_operators import FAMILIES, IMPORTS


def operators_page() -> str:
    """Return the page as Markdown: the operators by family, in the order of the alphabet."""
    text = (
        f"[`from_onnx`](from-onnx.md) imports these {len(IMPORTS)} operators. An operator that it lacks is replaced "
        "by the function\nbody that ONNX defines for it, if there is one."
    )
    tables = [(family, family.IMPORTS) for family in FAMILIES]
    return pages.operators_page("Operators of ONNX", "compiler/onnx_operators/", text, tables)


if __name__ == "__main__":
    print(operators_page(), end="")
