"""The page of the operators of ONNX that from_onnx knows; `make docs` prints it by running this file."""

from __future__ import annotations

from compiler.frontends import operators_page as pages
from compiler.frontends.onnx.operators import FAMILIES, OPERATORS


def operators_page() -> str:
    """Return the page as Markdown: the operators by family, in the order of the alphabet."""
    text = (
        f"[`from_onnx`](from-onnx.md) imports these {len(OPERATORS)} operators. An operator that it lacks is replaced "
        "by the function\nbody that ONNX defines for it, if there is one."
    )
    return pages.operators_page("Operators of ONNX", "compiler/frontends/onnx/operators/", text, FAMILIES)


if __name__ == "__main__":
    print(operators_page(), end="")
