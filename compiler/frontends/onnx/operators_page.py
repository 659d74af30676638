"""The page of the operators of ONNX that from_onnx knows; `make docs` prints it by running this file."""

from __future__ import annotations

from compiler.frontends import operators_page as pages
from compiler.frontends.onnx.integers import DOMAIN
from compiler.onnx_operators import FAMILIES


def operators_page() -> str:
    """Return the page as Markdown: the operators by family, in the order of the alphabet."""
    tables = [
        (family, {name: mapping for name, mapping in family.IMPORTS.items() if not name.startswith(f"{DOMAIN}.")})
        for family in FAMILIES
    ]
    count = len(dict.fromkeys(name for _, table in tables for name in table))
    text = (
        f"[`from_onnx`](from-onnx.md) imports these {count} operators. An operator that it lacks is replaced "
        "by the function\nbody that ONNX defines for it, if there is one."
    )
    return pages.operators_page("Operators of ONNX", "compiler/onnx_operators/", text, tables)


if __name__ == "__main__":
    print(operators_page(), end="")
