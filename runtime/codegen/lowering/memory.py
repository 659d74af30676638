"""The memory of a step: which tensors are stored, and their offsets."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from runtime.placement import Buffer


class BodyMemory(NamedTuple):
    """The memory of an op of control flow, as offsets in the arena around it.

    Attributes:
        arena: the arena of its blocks, of which only one is computed at a time.
        packed: for each block, what it prepacks before the first iteration.
        spare: by number of a carry, a buffer beside the output, so that an iteration does not overwrite what it reads.
    """

    arena: int
    packed: tuple[int, ...]
    spare: Mapping[int, int]


class Memory(NamedTuple):
    """The tensors that a step stores, and their offsets.

    Attributes:
        stored: for each group, the tensors that it writes, those in states included.
        in_state: by tensor, the state that it overwrites.
        offsets: by tensor in the arena, its offset in bytes.
        in_file: by tensor in the file beside the arena, its offset in bytes.
        packed: by prepacked tensor, its offset in bytes in the memory of prepacked operands.
        scratch: for each group, the offsets of its scratch, in the arena or in the memory of prepacked operands.
        buffers: the buffers of the arena, in order.
        arena_bytes: size of the arena.
        file_bytes: size of the file.
        packed_bytes: size of the memory of prepacked operands.
        bodies: by id of an op of control flow, the memory of its blocks in the arena around it.
    """

    stored: list[list[str]]
    in_state: dict[str, str]
    offsets: dict[str, int]
    in_file: dict[str, int]
    packed: dict[str, int]
    scratch: list[list[int]]
    buffers: list[Buffer]
    arena_bytes: int
    file_bytes: int
    packed_bytes: int
    bodies: Mapping[int, BodyMemory] = MappingProxyType({})


NO_MEMORY: Final = Memory([], {}, {}, {}, {}, [], [], 0, 0, 0)


def scratch_names(group: int, count: int) -> list[str]:
    """Return the names of a group's scratch among buffers; no tensor has a space in its name."""
    return [f"{number} of group {group}" for number in range(count)]


def body_name(op: int, what: str) -> str:
    """Return the name among buffers of memory for the blocks of an op; no tensor has a space in its name."""
    return f"{what} of op {op}"
