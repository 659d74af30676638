"""The memory of a step: which tensors are stored, and their offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from runtime.placement import Buffer


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
        bodies: by id of an op that has blocks, the offset of the arena of each of them in the arena around it.
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
    bodies: Mapping[int, Sequence[int]] = MappingProxyType({})


NO_MEMORY: Final = Memory([], {}, {}, {}, {}, [], [], 0, 0, 0)


def scratch_names(group: int, count: int) -> list[str]:
    """Return the names of a group's scratch among buffers; no tensor has a space in its name."""
    return [f"{number} of group {group}" for number in range(count)]


def body_names(op: int, count: int) -> list[str]:
    """Return the names of the arenas of an op's blocks among buffers; no tensor has a space in its name."""
    return [f"{number} of op {op}" for number in range(count)]
