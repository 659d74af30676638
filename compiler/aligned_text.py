"""Rows of words as aligned columns."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from prograd_proto.printable import MAX_WORD_CHARACTERS, sentence


def columns(head: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[str] = ()) -> Iterator[str]:
    """Return printable lines of the head and the rows in aligned columns; those in `right` are right-aligned."""
    rows = [[sentence(cell, MAX_WORD_CHARACTERS) for cell in row] for row in rows]
    widths = [max(map(len, cells)) for cells in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        cells = [
            cell.rjust(width) if title in right else cell.ljust(width)
            for cell, width, title in zip(row, widths, head, strict=True)
        ]
        yield "  ".join(cells).rstrip()
