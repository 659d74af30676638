"""Rows of words as aligned columns."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence


def columns(head: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[str] = ()) -> Iterator[str]:
    """The head and the rows, each column as wide as its widest cell; those named in `right` end flush."""
    widths = [max(map(len, cells)) for cells in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        cells = [
            cell.rjust(width) if title in right else cell.ljust(width)
            for cell, width, title in zip(row, widths, head, strict=True)
        ]
        yield "  ".join(cells).rstrip()
