"""The page of the operators that to_onnx writes; `make docs` prints it by running this file."""

from __future__ import annotations

from compiler.frontends import operators_page as pages
from compiler.onnx_operators import EXPORTS, FAMILIES


def operators_page() -> str:
    """Return the page as Markdown: the operators by family, in the order of the alphabet."""
    text = (
        f"[`to_onnx`](to-onnx.md) writes these {len(EXPORTS)} operators of prograd. Functions that are spelled by"
        " others, such\nas losses and pooling over one axis, are written as those."
    )
    tables = [(family, family.EXPORTS) for family in FAMILIES if hasattr(family, "EXPORTS")]
    return pages.operators_page("Operators for ONNX", "compiler/onnx_operators/", text, tables)


if __name__ == "__main__":
    print(operators_page(), end="")
