"""Aligned memory, typed views into it, and the addresses of arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from prograd_proto import TensorType
from runtime.dtypes import Array, numpy_dtype
from runtime.placement.alignment import ALIGNMENT

LARGE_BYTES: Final = 4 << 20
"""Size in bytes from which NumPy asks the system for large pages."""


def aligned_bytes(nbytes: int, tensors: Sequence[tuple[int, int]] = ()) -> Array:
    """Return a zeroed uint8 array of `nbytes` bytes whose first byte lies at a multiple of 64.

    Zeros make the bytes of a first step independent of what the memory held before. `tensors` are the offsets and sizes
    of what will lie there, see `memory_nodes`.
    """
    raw = np.zeros(nbytes + ALIGNMENT, np.uint8)
    if nbytes >= LARGE_BYTES:
        from runtime.memory.first_touch import touch  # only small programs skip it: the import costs start-up time
        from runtime.memory.memory_nodes import place

        if not place(raw, tensors or [(0, nbytes)]):
            touch(raw)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + nbytes]


def view(memory: Array, offset: int, type: TensorType) -> Array:
    """Return a tensor of that static type at byte `offset` of the memory."""
    return memory[offset : offset + type.nbytes].view(numpy_dtype(type.dtype)).reshape(type.static_shape)


def aligned_array(type: TensorType) -> Array:
    """Return a zeroed array of that static type in memory of its own."""
    return view(aligned_bytes(type.nbytes), 0, type)


def address_ranges(arrays: Iterable[Array]) -> list[tuple[int, int]]:
    """Return the first address and the address after the last byte of each contiguous array."""
    return [(a.ctypes.data, a.ctypes.data + a.nbytes) for a in arrays if a.nbytes]
