"""Names of arrays in a data file whose rows are of unequal length.

The rows of `text` stand one behind the other in the array `text`; row i are its elements from `text.offsets`[i] until
before `text.offsets`[i + 1]. `text.padding`, which may be missing, is what stands behind a row in a step. The columns
`text.lengths` and `text.mask` are in no file: they follow.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

OFFSETS: Final = ".offsets"
PADDING: Final = ".padding"
LENGTHS: Final = ".lengths"
MASK: Final = ".mask"


def base_of(key: str) -> str:
    """Return the key whose lengths or mask a key names, "" if it names none."""
    for end in (LENGTHS, MASK):
        if key.endswith(end):
            return key.removesuffix(end)
    return ""


def is_ragged_key(keys: Container[str], key: str) -> bool:
    """Whether a key names a column of unequal rows, or the lengths or the mask of one, in a file with these arrays."""
    base = base_of(key)
    return key + OFFSETS in keys or (key not in keys and bool(base) and base + OFFSETS in keys)
