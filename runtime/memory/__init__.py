"""Memory of one step: when each buffer lives, where it lies, the proof that no two collide, and what then must wait.

aliases     which tensors of a block are the same bytes: views, and what ops write in place
in_place    the law of what may be written over what
scratch     what kernels need beside their operands
lifetimes   from a bound block to buffers on a two-phase clock
placement   from buffers to offsets in one arena, a pure function; its ways are
            sections, rankings, skyline, gaps, attempts and search
check       a plan against the buffers, sharing no code with it
places      the one or the other: by a plan that is safe, else anew
alignment   where buffers may begin
hazards     what must be done before what, from the bytes that ops touch

What is in `placement` is looked up when it is first used: a program that has a plan needs only the check.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.memory.aliases import Aliases as Aliases
from runtime.memory.aliases import Place as Place
from runtime.memory.aliases import aliases_of as aliases_of
from runtime.memory.aliases import ends_of as ends_of
from runtime.memory.aliases import in_place_pairs as in_place_pairs
from runtime.memory.aliases import is_transfer as is_transfer
from runtime.memory.aliases import is_view as is_view
from runtime.memory.aliases import made_outside as made_outside
from runtime.memory.aliases import spills as spills
from runtime.memory.aliases import views_of as views_of
from runtime.memory.alignment import PAGE as PAGE
from runtime.memory.alignment import aligned as aligned
from runtime.memory.check import check_placement as check_placement
from runtime.memory.check import planned_offsets as planned_offsets
from runtime.memory.hazards import Touched as Touched
from runtime.memory.hazards import dependencies as dependencies
from runtime.memory.in_place import InPlaceLaw as InPlaceLaw
from runtime.memory.in_place import chosen as chosen
from runtime.memory.in_place import faults as faults
from runtime.memory.in_place import leaves_no_copy as leaves_no_copy
from runtime.memory.lifetimes import Buffer as Buffer
from runtime.memory.lifetimes import buffers_of as buffers_of
from runtime.memory.lifetimes import spilled_of as spilled_of
from runtime.memory.places import Places as Places
from runtime.memory.places import check_plans as check_plans
from runtime.memory.places import places_of as places_of
from runtime.memory.scratch import is_scratch as is_scratch
from runtime.memory.scratch import scratch_of as scratch_of

if TYPE_CHECKING:
    from runtime.memory.placement import EXHAUSTIVE as EXHAUSTIVE
    from runtime.memory.placement import QUICK as QUICK
    from runtime.memory.placement import THOROUGH as THOROUGH
    from runtime.memory.placement import Effort as Effort
    from runtime.memory.placement import Placement as Placement
    from runtime.memory.placement import place as place


def __getattr__(name: str) -> object:
    if name not in ("EXHAUSTIVE", "QUICK", "THOROUGH", "Effort", "Placement", "place"):
        raise AttributeError(f"module 'runtime.memory' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module("runtime.memory.placement"), name)
