"""A fingerprint of rows, by which a run that goes on knows those that it began with.

1. It has the name, dtype and shape of every feed, how many rows there are, and whether they are shuffled.
2. Of rows that are small together it has every element, in the order in which they stand before they are shuffled.
3. Of larger ones it has blocks at equal distances, the first rows and the last among them: reading gigabytes to go on
   would take longer than the steps that were lost.

Where rows come from, and in which form or how many files they are stored, does not matter.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from prograd_proto.tensor_types import TensorType
from runtime.dtypes import array_type, as_little
from runtime.rows.rows import Rows

WHOLE: Final = 16 << 20
"""Bytes of rows that are all in the fingerprint, at most."""

BLOCKS: Final = 64
"""Of larger rows; each is of WHOLE / BLOCKS bytes, or one row."""


def fingerprint(rows: Rows, *, shuffled: bool) -> str:
    """Hexadecimal digits, equal for equal rows. Raises DataError for rows that cannot be read."""
    from hashlib import sha256  # slow to load

    columns = {name: rows.columns[name] for name in sorted(rows.columns)}
    whole = {name: rows.whole[name] for name in sorted(rows.whole)}
    digest = sha256(f"{len(rows)} rows, shuffled: {shuffled}".encode())
    for name, array in (columns | whole).items():
        type = TensorType(
            array_type(np.empty(0, array.dtype)).dtype, array.shape[1:] if name in columns else array.shape
        )
        digest.update(f"\n{len(name)} {name} {type}".encode())
    for array in whole.values():
        digest.update(as_little(array).reshape(-1).view(np.uint8).data)
    nbytes = sum(column.dtype.itemsize * int(np.prod(column.shape[1:])) for column in columns.values())
    count = max(1, WHOLE // BLOCKS // max(1, nbytes))
    for start in _starts(len(rows), count):
        size = min(count, len(rows) - start)
        feeds = {name: np.empty((size, *column.shape[1:]), column.dtype) for name, column in columns.items()}
        rows.fill(feeds, start)
        for array in feeds.values():
            digest.update(as_little(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _starts(rows: int, count: int) -> list[int]:
    """Where blocks of `count` rows begin: one behind the other, or as many as there may be, as far as they reach."""
    if rows <= count * BLOCKS:
        return list(range(0, rows, count))
    return [i * (rows - count) // (BLOCKS - 1) for i in range(BLOCKS)]
