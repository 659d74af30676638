"""Features of this CPU that NumPy does not name, and the permission of Linux to use the tiles of AMX.

The kernel saves 8 KiB of tiles with every thread that uses them, so a process asks once, for all its threads and those
that they start (Linux 5.16 and later).
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from pathlib import Path
from typing import Final

CPU_FLAGS: Final = Path("/proc/cpuinfo")

FLAGS: Final = {
    "amx_tile": "AMX_TILE", "amx_bf16": "AMX_BF16", "amx_int8": "AMX_INT8", "avx_vnni": "AVX_VNNI",
    "GenuineIntel": "INTEL",
}  # fmt: skip
"""Features by the word of Linux, which lists those of AMX only if CPU and kernel support them."""

LINES: Final = ("flags", "vendor_id")
"""Beginnings of the lines that have these words."""

ARCH_PRCTL: Final = 158
"""Number of the system call on x86-64."""

ARCH_REQ_XCOMP_PERM: Final = 0x1023
"""Its operation that asks for the permission to use a part of the state of a CPU."""

TILE_DATA: Final = 18
"""Number of the part of the state that holds the tiles."""


@cache
def linux_features() -> dict[str, bool]:
    """Return the features of `FLAGS` that Linux lists, by name; none on other systems."""
    if sys.platform != "linux":
        return {}
    try:
        lines = CPU_FLAGS.read_text().splitlines()
    except OSError:
        return {}
    found = (next((line for line in lines if line.startswith(start)), "") for start in LINES)
    words = {word for line in found for word in line.partition(":")[2].split()}
    return {name: True for flag, name in FLAGS.items() if flag in words}


def system_call(*arguments: int) -> int:
    """Call the system by number; return 0, or the number of the error."""
    return ctypes.get_errno() if ctypes.CDLL(None, use_errno=True).syscall(*arguments) else 0


def refused_tiles() -> str:
    """Ask the system for the permission to use tiles; return why it refuses, or nothing."""
    number = system_call(ARCH_PRCTL, ARCH_REQ_XCOMP_PERM, TILE_DATA)
    return f"the system does not let this process use the tiles of AMX: {os.strerror(number)}" if number else ""
