"""AMX on this machine: its features, and the permission of Linux to use its tiles.

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

from runtime.engines.engine import Unavailable

CPU_FLAGS: Final = Path("/proc/cpuinfo")

FLAGS: Final = {"amx_tile": "AMX_TILE", "amx_bf16": "AMX_BF16"}
"""Features by the word of Linux, which lists them only if CPU and kernel support them."""

ARCH_PRCTL: Final = 158
"""Number of the system call on x86-64."""

ARCH_REQ_XCOMP_PERM: Final = 0x1023
"""Its operation that asks for the permission to use a part of the state of a CPU."""

TILE_DATA: Final = 18
"""Number of the part of the state that holds the tiles."""


@cache
def amx_features() -> dict[str, bool]:
    """Return the features of AMX that CPU and system support, by name; none outside of Linux on x86-64."""
    if sys.platform != "linux":
        return {}
    try:
        lines = CPU_FLAGS.read_text().splitlines()
    except OSError:
        return {}
    words = next((line for line in lines if line.startswith("flags")), "").partition(":")[2].split()
    return {name: True for flag, name in FLAGS.items() if flag in words}


def system_call(*arguments: int) -> int:
    """Call the system by number; return 0, or the number of the error."""
    return ctypes.get_errno() if ctypes.CDLL(None, use_errno=True).syscall(*arguments) else 0


def request_tiles() -> None:
    """Ask the system for the permission to use tiles; raise Unavailable if it refuses."""
    if number := system_call(ARCH_PRCTL, ARCH_REQ_XCOMP_PERM, TILE_DATA):
        why = f"the system does not let this process use the tiles of AMX: {os.strerror(number)}"
        raise Unavailable(f"{why}; use the engine 'native'", "no_code_for_this_cpu")
