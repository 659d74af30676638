"""Names of arrays in a data file whose rows have unequal lengths.

The rows of `text` are concatenated in the array `text`; row i has its elements from `text.offsets`[i] to before
`text.offsets`[i + 1]. `text.padding`, which is optional, fills the end of a row in a step. The columns `text.lengths`
and `text.mask` are in no file: they are derived.
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
    """Return True if a key names a ragged column, or its lengths or mask, in a file with these arrays."""
    base = base_of(key)
    return key + OFFSETS in keys or (key not in keys and bool(base) and base + OFFSETS in keys)
