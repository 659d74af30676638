"""Assign buffers to offsets in one arena by a pure function, and check that no two buffers collide.

buffer     bytes that are needed during an interval of the clock
placement  skylines (skyline, rankings) and an exact search (search, attempts) place the buffers of each part
           (sections); peak makes a small problem of a large one, whose rest goes into gaps
check      a placement against the buffers, sharing no code with the algorithms that placed them
alignment  the alignment of buffers

The module `placement` is imported on first use: a step whose compiled code was kept by an earlier run needs none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.placement.alignment import PAGE as PAGE
from runtime.placement.alignment import aligned as aligned
from runtime.placement.buffer import Buffer as Buffer
from runtime.placement.check import check_placement as check_placement

if TYPE_CHECKING:
    from runtime.placement.placement import QUICK as QUICK
    from runtime.placement.placement import THOROUGH as THOROUGH
    from runtime.placement.placement import Effort as Effort
    from runtime.placement.placement import Placement as Placement
    from runtime.placement.placement import place as place


def __getattr__(name: str) -> object:
    if name not in ("QUICK", "THOROUGH", "Effort", "Placement", "place"):
        raise AttributeError(f"module 'runtime.placement' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module("runtime.placement.placement"), name)
