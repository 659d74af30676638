"""A fingerprint of rows, by which a resumed run recognises the rows that it began with.

1. It covers the name, dtype and shape of every feed, the number of rows, and whether they are shuffled.
2. For rows that are small together it covers every element, in the order before shuffling.
3. For larger rows it covers blocks at equal distances, the first rows and the last among them: reading gigabytes to
   resume would take longer than the lost steps.

It does not depend on the source of the rows, their format, or the number of files.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from prograd_proto.tensor_types import TensorType
from runtime.dtypes import array_type, as_little
from runtime.rows.rows import Rows

MAX_WHOLE_BYTES: Final = 16 << 20
"""Upper bound in bytes on rows that the fingerprint covers entirely."""

SAMPLED_BLOCKS: Final = 64
"""Number of blocks of larger rows; each has MAX_WHOLE_BYTES / SAMPLED_BLOCKS bytes, or one row."""


def fingerprint(rows: Rows, *, shuffled: bool) -> str:
    """Return hexadecimal digits, equal for equal rows; raise DataError for rows that cannot be read."""
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
    count = max(1, MAX_WHOLE_BYTES // SAMPLED_BLOCKS // max(1, nbytes))
    for start in _starts(len(rows), count):
        size = min(count, len(rows) - start)
        feeds = {name: np.empty((size, *column.shape[1:]), column.dtype) for name, column in columns.items()}
        rows.fill(feeds, start)
        for array in feeds.values():
            digest.update(as_little(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _starts(rows: int, count: int) -> list[int]:
    """Return the starts of blocks of `count` rows: adjacent if they cover all rows, else at equal distances."""
    if rows <= count * SAMPLED_BLOCKS:
        return list(range(0, rows, count))
    return [i * (rows - count) // (SAMPLED_BLOCKS - 1) for i in range(SAMPLED_BLOCKS)]
