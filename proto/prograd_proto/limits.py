"""Maximum sizes of a program, which compiler and runtime check before they compute anything: docs/limits.md."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final

from prograd_proto.dtypes import ITEM_BYTES

if TYPE_CHECKING:
    from prograd_proto.tensor_types import TensorType

MAX_NAME: Final = 1000
"""Upper bound on the characters of a name."""

MAX_RANK: Final = 32
"""Upper bound on the axes of a tensor; every NumPy that is supported has arrays with as many."""

MAX_TENSOR_BYTES: Final = 1 << 40
"""Upper bound on the bytes of a tensor, a tebibyte; sums of many such sizes fit into 64 bits."""

MAX_EMPTY_PLACES: Final = 1 << 28
"""Upper bound on the product of the non-zero extents of a tensor without elements: loops still visit them."""

MAX_BINDINGS: Final = 1024
"""Upper bound on the blocks that all entries together may name: the plans of each are read."""


def size_fault(type: TensorType) -> str:
    """Return the fault of the sizes of a type, as the end of a sentence; empty if they are accepted.

    Symbols count as 1.
    """
    extents = [extent for extent in type.shape if isinstance(extent, int)]
    if min(extents, default=0) < 0:
        return "has a negative extent"
    if ITEM_BYTES[type.dtype] * prod(extents) > MAX_TENSOR_BYTES:
        return "is larger than a tebibyte"
    if 0 in extents and prod(extent for extent in extents if extent) > MAX_EMPTY_PLACES:
        return "has no elements and too many places for them"
    return ""
