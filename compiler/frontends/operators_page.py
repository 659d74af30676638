"""The pages of the operators that front ends import; `make docs` prints each by the file of its front end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from inspect import getdoc
from textwrap import fill
from types import ModuleType

Families = Sequence[tuple[ModuleType, Iterable[str]]]

WIDTH = 180
"""Longest line of a page, in characters."""


def operators_page(title: str, tables: str, text: str, families: Families, prefix: str = "") -> str:
    """Return a page as Markdown: the operators by family, in the order of the alphabet.

    Args:
        title: title of the page.
        tables: the folder of the tables.
        text: the paragraph before the first family.
        families: modules whose docstrings begin with a title, each with its table by the names of operators.
        prefix: beginning of names that the page leaves out.
    """
    parts = [f"# {title}", f"Made by `make docs`. The tables in `{tables}` are the place to edit.", text]
    for family, table in families:
        heading = (getdoc(family) or "").partition("\n")[0].removesuffix(".")
        names = ", ".join(f"`{name.removeprefix(prefix)}`" for name in sorted(table))
        parts += [f"## {heading}", fill(names, WIDTH, break_long_words=False, break_on_hyphens=False)]
    return "\n\n".join(parts) + "\n"
