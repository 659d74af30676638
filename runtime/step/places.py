"""The memory of a step: its tensors that share memory, its scratch, and the offsets of its buffers.

Everything follows from the block, the engine and the phases of its ops. A plan only bounds the bytes: if the quick
placement takes more, a longer search finds the one that the compiler found.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

from prograd_proto import TensorType
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalysis
from runtime.placement.alignment import ALIGNMENT, PAGE
from runtime.placement.check import check_placement
from runtime.step.aliases import Aliases
from runtime.step.buffers import Buffer, buffers_of, spilled_of
from runtime.step.in_place import aliases_of
from runtime.step.scratch import scratch_of
from runtime.step.target import Target

if TYPE_CHECKING:
    from runtime.placement import Effort, Placement

Placed = list[tuple[Buffer, int]]
"""Buffers, each with its offset in bytes."""


class Places(NamedTuple):
    """The memory of a step.

    Attributes:
        aliases: the tensors that share memory.
        scratch: for each op, the names and types of its scratch arrays.
        order: the order in which the ops may run one after another: that of the block, or that of their phases.
        phases: number of phases; the number of ops if each has its own.
        in_arena: the buffers of the arena.
        arena_bytes: the size of the arena.
        lower_bound: bytes that no placement can go below.
        optimal: True if no placement takes less.
        in_file: the buffers that are spilled to the file beside the arena.
        file_bytes: the size of that file.
    """

    aliases: Aliases
    scratch: list[list[tuple[str, TensorType]]]
    order: Sequence[int]
    phases: int
    in_arena: Placed
    arena_bytes: int
    lower_bound: int
    optimal: bool
    in_file: Placed
    file_bytes: int


def places_of(
    block: BlockAnalysis,
    target: Target,
    pinned: Collection[str] = (),
    phases: Sequence[int] | None = None,
    effort: Effort | None = None,
) -> Places:
    """Return the memory of a step.

    Args:
        block: block with static types.
        target: the engine that is to run it.
        pinned: tensors that the end of the step reads besides fetches and updates.
        phases: for each op the number of its phase, if the ops of a phase run in any order; None for one after another.
        effort: the work that a placement may take; by default that of loading a program.
    """
    from runtime.placement.placement import QUICK  # at a use: most runs place their steps in compiled code

    effort = effort or QUICK
    aliases, scratch = aliases_of(block, target, pinned, phases), scratch_of(block, target)
    buffers = buffers_of(block, aliases, [[(name, type.nbytes) for name, type in row] for row in scratch], phases)
    spilled = spilled_of(block, aliases)
    arena, file = _placed(buffers, effort), _placed(spilled, QUICK, alignment=PAGE, what="a file")
    every = range(len(block.ops))
    return Places(
        aliases,
        scratch,
        every if phases is None else sorted(every, key=phases.__getitem__),
        len(every) if phases is None else max(phases, default=-1) + 1,
        list(zip(buffers, arena.offsets, strict=True)),
        arena.arena_bytes,
        arena.lower_bound,
        arena.optimal,
        list(zip(spilled, file.offsets, strict=True)),
        file.arena_bytes,
    )


def places_within(
    block: BlockAnalysis,
    target: Target,
    plan: pb.MemoryPlan | None,
    pinned: Collection[str] = (),
    ways: Sequence[Sequence[int]] = (),
) -> Places:
    """Return the memory of a step as it runs: in phases if the plan has the bytes for them, else op by op.

    `ways` are those to put ops into phases; the first one that fits is taken. A plan does not know of pinned tensors.
    If the quick placement takes more than a plan that is possible, a longer search follows.
    """
    if plan is None:
        return places_of(block, target, pinned)
    for phases in ways:
        places = places_of(block, target, pinned, phases)
        if places.arena_bytes <= plan.arena_bytes:
            return places
    places = places_of(block, target, pinned)
    if not places.lower_bound <= plan.arena_bytes < places.arena_bytes:
        return places
    from runtime.placement.placement import THOROUGH

    return places_of(block, target, pinned, effort=THOROUGH)


def _placed(buffers: Sequence[Buffer], effort: Effort, alignment: int = ALIGNMENT, what: str = "an arena") -> Placement:
    from runtime.placement.placement import place

    placement = place(buffers, effort, alignment=alignment)
    check_placement(buffers, placement.offsets, placement.arena_bytes, alignment=alignment, what=what)
    return placement
