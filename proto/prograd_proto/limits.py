"""Maximum sizes of a program, which compiler and runtime check before they compute anything: docs/limits.md."""

from __future__ import annotations

from typing import Final

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
