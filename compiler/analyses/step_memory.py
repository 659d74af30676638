"""The memory of one step for views: every buffer with its tensors and lifetime, and the peak.

Times are phases of `runtime.step.clock`, of which every op has one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from compiler.analyses.lifespans import lifespan_of, lifespans_of
from compiler.passes.plan_memory import plan_of
from prograd_proto import TensorType
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalyses, BlockAnalysis
from prograd_proto.blocks.stages import pass_of
from runtime.placement import Buffer, aligned
from runtime.step import Aliases, places_within
from runtime.target import TARGET

KINDS: Final[tuple[str, ...]] = ("feed", "activation", "gradient", "update", "scratch")
"""Kinds of buffers: a feed, a tensor of the forward pass or of gradients and derivatives, an update, scratch."""


class Tenant(NamedTuple):
    """A tensor in a buffer.

    Attributes:
        tensor: its name.
        type: its static type.
        way: "" for the first tensor, "view of" or "over" for another.
        other: the tensor that it is a view of or was written over.
        definition: the position of the op that defines it, -1 for a feed.
        last_read: the position of the last op that reads it, len(ops) for the end of the step, None if nothing does.
        lifespan: its own lifespan, as it follows from the ops.
    """

    tensor: str
    type: TensorType
    way: str
    other: str
    definition: int
    last_read: int | None
    lifespan: pb.Lifespan


class Resident(NamedTuple):
    """A buffer, its offset, and its tensors; scratch has no tenants."""

    buffer: Buffer
    offset: int
    kind: str
    lifespan: pb.Lifespan
    tenants: list[Tenant]

    def at(self, phase: int) -> Tenant | None:
        """Return the newest tensor in the buffer when a phase ends; None for scratch."""
        return next((t for t in reversed(self.tenants) if t.definition <= phase), None)


@dataclass(frozen=True)
class StepMemory:
    """The buffers of a block, by offset; its plan; and the first phase in which the most bytes are needed.

    `in_file` has the buffers of the file beside the arena, each with its offset there.
    """

    block: BlockAnalysis
    plan: pb.MemoryPlan
    residents: list[Resident]
    peak_phase: int
    peak_bytes: int
    states: list[pb.StateDesc]  # states that the block reads or updates
    in_file: list[tuple[Buffer, int]]

    @property
    def peak_op(self) -> int:
        """The position of the op that runs at the peak; len(ops) is the end of the step."""
        return max(self.peak_phase, 0)

    def at_peak(self) -> list[Resident]:
        """Return the buffers that are needed at the peak, the largest first."""
        there = [r for r in self.residents if r.buffer.start <= self.peak_phase < r.buffer.stop and r.buffer.nbytes]
        return sorted(there, key=lambda r: (-r.buffer.nbytes, r.offset))


def step_memory(program: pb.ProgramDesc, binding: pb.Binding) -> StepMemory:
    """Return the memory of a well-formed block that runs, op by op."""
    block = BlockAnalyses(program)[binding.block]
    plan = binding.plan if binding.HasField("plan") else plan_of(block)
    places = places_within(block, TARGET, plan)
    tenants = _tenants(program, block, places.aliases)
    residents = [_resident(block, b, offset, tenants.get(b.name, [])) for b, offset in places.in_arena]
    residents.sort(key=lambda resident: (resident.offset, resident.buffer.start))
    named = {*block.state_of.values(), *block.updates}
    return StepMemory(
        block,
        plan,
        residents,
        *busiest([buffer for buffer, _ in places.in_arena]),
        [state for state in program.states if state.name in named],
        sorted(places.in_file, key=lambda placed: (placed[1], placed[0].start)),
    )


def needed(buffers: Sequence[Buffer]) -> Iterator[tuple[int, int]]:
    """Yield the phases that change the number of needed bytes, and that number from then on."""
    change: dict[int, int] = {}
    for buffer in buffers:
        change[buffer.start] = change.get(buffer.start, 0) + aligned(buffer.nbytes)
        change[buffer.stop] = change.get(buffer.stop, 0) - aligned(buffer.nbytes)
    now = 0
    for phase in sorted(change):
        now += change[phase]
        yield phase, now


def busiest(buffers: Sequence[Buffer]) -> tuple[int, int]:
    """Return the first phase of the peak and its bytes, each buffer rounded up to the alignment."""
    return max(needed(buffers), key=lambda moment: (moment[1], -moment[0]), default=(0, 0))


def _tenants(program: pb.ProgramDesc, block: BlockAnalysis, aliases: Aliases) -> dict[str, list[Tenant]]:
    """Return the tenants of each buffer, by its name, in the order of their definitions."""
    types = block.types
    lifespans = lifespans_of(program, block)
    last_read = block.use_def.last_uses
    tenants: dict[str, list[Tenant]] = {}

    def move_in(name: str, way: str, other: str, position: int) -> None:
        tenant = Tenant(name, types[name], way, other, position, last_read.get(name), lifespans[name])
        tenants.setdefault(aliases.root[name], []).append(tenant)

    for name in block.parameter_names:
        move_in(name, "", "", -1)
    for i, (inputs, outputs) in enumerate(zip(block.inputs, block.outputs, strict=True)):
        below = {output: inputs[position] for output, position in aliases.in_place[i]}
        for number, name in enumerate(outputs):
            shares = number in below and aliases.root[name] != name
            way = "" if not shares else "view of" if i in aliases.views else "over"
            move_in(name, way, below[number] if shares else "", i)
    return tenants


def _resident(block: BlockAnalysis, buffer: Buffer, offset: int, tenants: list[Tenant]) -> Resident:
    if not tenants:
        return Resident(buffer, offset, "scratch", pass_of(block.stages[buffer.start]), [])
    first = tenants[0].definition
    stage = block.stages[first] if first >= 0 else pb.STAGE_UNSPECIFIED
    kind = "feed" if first < 0 else "activation" if stage <= pb.STAGE_FORWARD else "gradient"
    kind = "update" if stage == pb.STAGE_UPDATE else kind
    return Resident(buffer, offset, kind, lifespan_of(tenant.lifespan for tenant in tenants), tenants)
