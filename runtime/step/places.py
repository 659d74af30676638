"""The offsets of a block's buffers: those of its plan, if they are proven safe, or else newly placed ones."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from prograd_proto import ProgramError, TensorType
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalyses, BlockAnalysis
from runtime.placement.alignment import ALIGNMENT, PAGE, aligned
from runtime.placement.check import check_placement, planned_offsets
from runtime.step.aliases import Aliases, aliases_of
from runtime.step.lifetimes import Buffer, buffers_of, spilled_of
from runtime.step.scratch import is_scratch, scratch_of
from runtime.step.target import Target

Placed = list[tuple[Buffer, int]]
"""Buffers, each with its offset in bytes."""


class Places(NamedTuple):
    """The buffers of the arena, and those that are spilled to the file beside it."""

    in_arena: Placed
    arena_bytes: int
    in_file: Placed
    file_bytes: int


def places_of(
    block: BlockAnalysis,
    aliases: Aliases,
    scratch: Sequence[Sequence[tuple[str, TensorType]]],
    plan: pb.MemoryPlan | None = None,
) -> Places:
    """Return the offsets of a block's buffers, by its plan unless that is for kernels with other scratch.

    Raises ProgramError if the plan is of another block, wastes memory, or puts two buffers into the same bytes while
    both are needed.
    """
    sizes = [[(name, type.nbytes) for name, type in row] for row in scratch]
    buffers, spilled = buffers_of(block, aliases, sizes), spilled_of(block, aliases)
    if plan is None or not plan.placements:
        return Places(*_placed(buffers), *_placed(spilled, alignment=PAGE))
    planned = _planned(buffers, {name for row in sizes for name, _ in row}, plan)
    in_arena = _placed(buffers) if planned is None else (planned, plan.arena_bytes)
    return Places(*in_arena, _planned_in_file(spilled, plan), plan.file_bytes)


def check_plans(program: pb.ProgramDesc, target: Target) -> None:
    """Raise ProgramError, as `places_of` does, unless the target can use every plan of a checked program."""
    analyses = BlockAnalyses(program)
    for entry in program.entries:
        for binding in entry.bindings:
            if not binding.plan.placements:
                continue
            block = analyses[binding.block]
            try:
                places_of(block, aliases_of(block), scratch_of(block, target), binding.plan)
            except ProgramError as error:
                raise ProgramError(f"entry {entry.name!r}: {error}") from None


def _placed(buffers: list[Buffer], alignment: int = ALIGNMENT) -> tuple[Placed, int]:
    from runtime.placement.placement import place  # at a use: a program that has a plan needs only its check

    placement = place(buffers, alignment=alignment)
    check_placement(buffers, placement.offsets, placement.arena_bytes, alignment=alignment)
    return list(zip(buffers, placement.offsets, strict=True)), placement.arena_bytes


def _planned(buffers: list[Buffer], scratch: Collection[str], plan: pb.MemoryPlan) -> Placed | None:
    """Return the plan's offsets; None if only its scratch, which may change between runtimes, does not fit."""
    tensors = [buffer for buffer in buffers if buffer.name not in scratch]
    planned = planned_offsets(plan.placements, tensors, lambda name: name in scratch or is_scratch(name))
    apart = sum(aligned(buffer.nbytes) for buffer in buffers)
    if plan.arena_bytes > apart and any(is_scratch(placement.tensor) for placement in plan.placements):
        return None
    if plan.arena_bytes > apart:
        raise ProgramError(
            f"the plan has an arena of {plan.arena_bytes} bytes; without any sharing its buffers take {apart}"
        )
    check_placement(tensors, [planned[buffer.name] for buffer in tensors], plan.arena_bytes)
    try:
        offsets = [planned[buffer.name] for buffer in buffers]
        check_placement(buffers, offsets, plan.arena_bytes)
    except (KeyError, ProgramError):
        return None
    return list(zip(buffers, offsets, strict=True))


def _planned_in_file(spilled: list[Buffer], plan: pb.MemoryPlan) -> Placed:
    planned = planned_offsets(plan.spilled, spilled)
    offsets = [planned[buffer.name] for buffer in spilled]
    apart = sum(aligned(buffer.nbytes, PAGE) for buffer in spilled)
    if plan.file_bytes > apart:
        raise ProgramError(f"the plan has a file of {plan.file_bytes} bytes; apart its tensors take {apart}")
    check_placement(spilled, offsets, plan.file_bytes, alignment=PAGE, what="a file")
    return list(zip(spilled, offsets, strict=True))
