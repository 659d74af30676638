"""Memory of one step: when each buffer lives, where it lies, and the proof that no two collide.

lifetimes   from a bound block to buffers on a two-phase clock
place       from buffers to offsets in one arena, a pure function
check       a plan against the buffers, sharing no code with place
"""

from runtime.memory.check import check_placement as check_placement
from runtime.memory.lifetimes import Buffer as Buffer
from runtime.memory.lifetimes import buffers_of as buffers_of
from runtime.memory.lifetimes import storage_of as storage_of
from runtime.memory.place import aligned as aligned
from runtime.memory.place import arena_size as arena_size
from runtime.memory.place import place as place
from runtime.memory.sharing import in_place_pairs as in_place_pairs
