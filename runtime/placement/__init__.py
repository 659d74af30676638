"""Assign buffers to offsets in one arena by a pure function, and check that no two buffers collide.

buffer     bytes that are needed during an interval of the clock
placement  several algorithms to place buffers, until one reaches the lower bound or a limit of seconds; they are
           sections, rankings, skyline, gaps, peak, attempts, search and ejection; draws are their random numbers
check      a plan against the buffers, sharing no code with the algorithms that placed them
alignment  the alignment of buffers

The module `placement` is imported on first use: a program that has a plan needs only the check.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.placement.alignment import PAGE as PAGE
from runtime.placement.alignment import aligned as aligned
from runtime.placement.buffer import Buffer as Buffer
from runtime.placement.check import check_placement as check_placement
from runtime.placement.check import planned_offsets as planned_offsets

if TYPE_CHECKING:
    from runtime.placement.placement import EXHAUSTIVE as EXHAUSTIVE
    from runtime.placement.placement import QUICK as QUICK
    from runtime.placement.placement import THOROUGH as THOROUGH
    from runtime.placement.placement import Effort as Effort
    from runtime.placement.placement import Placement as Placement
    from runtime.placement.placement import place as place


def __getattr__(name: str) -> object:
    if name not in ("EXHAUSTIVE", "QUICK", "THOROUGH", "Effort", "Placement", "place"):
        raise AttributeError(f"module 'runtime.placement' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module("runtime.placement.placement"), name)
