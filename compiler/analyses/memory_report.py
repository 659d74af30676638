"""The memory of a program's steps, and its cost: the numbers that `compiler plan` prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from compiler.analyses.step_graph import step_graph
from compiler.analyses.update_times import UpdateTime, update_times
from compiler.planning.give_room import Room
from prograd_proto import program_pb2 as pb
from prograd_proto import type_of
from prograd_proto.blocks import BlockAnalyses
from prograd_proto.states import held
from runtime.step import is_transfer, spills
from runtime.step.arithmetic import operations_of


@dataclass(frozen=True)
class BindingMemory:
    """The memory of an entry with sizes.

    Attributes:
        entry: name of the entry.
        binding: the binding with the sizes and the plan.
        peak_op: the op that runs when the most bytes are needed; None in a block without ops.
        peak_own: the bytes that this op itself reads, writes and takes as scratch.
        repeated: number of ops that recompute a value.
        spilled: number of values that are spilled to the file beside the arena.
        moved: the bytes that are spilled or reloaded in a step.
        cost: operations of the step divided by those without recomputation, as `costs` estimates them.
        updates: times at which trained parameters get their new values.
        room: the estimated speed-up of the plan on threads; None if it was made for one thread.
        arena_before: bytes of the arena before scopes were recomputed; None if none were.
    """

    entry: str
    binding: pb.Binding
    peak_op: pb.OpDesc | None
    peak_own: int
    repeated: int
    spilled: int
    moved: int
    cost: float
    updates: list[UpdateTime]
    room: Room | None
    arena_before: int | None

    @property
    def plan(self) -> pb.MemoryPlan:
        """The plan."""
        return self.binding.plan


@dataclass(frozen=True)
class MemoryReport:
    """The memory of a program: the bytes of its states, and every entry with each of its sizes."""

    persistent: int
    bindings: list[BindingMemory]


def memory_report(program: BlockAnalyses, rooms: Mapping[int, Room], before: Mapping[int, int]) -> MemoryReport:
    """Return the report of a well-formed program with plans.

    `rooms` has the blocks planned for threads, and `before` the arenas of blocks before scopes were recomputed.
    """
    persistent = sum(type_of(state).nbytes for state in held(program.desc))
    return MemoryReport(persistent, list(_bindings(program, rooms, before)))


def _bindings(program: BlockAnalyses, rooms: Mapping[int, Room], before: Mapping[int, int]) -> Iterator[BindingMemory]:
    for entry in program.desc.entries:
        for binding in entry.bindings:
            block = program[binding.block]
            graph = step_graph(block)
            order = list(range(len(block.ops)))
            live = list(graph.live(order))
            at = live.index(max(live)) if live else 0
            costs = operations_of(block)
            again = [cost for cost, op in zip(costs, block.ops, strict=True) if op.recompute_of]
            moving = [i for i, op_type in enumerate(block.op_types) if is_transfer(op_type)]
            yield BindingMemory(
                entry.name,
                binding,
                block.ops[at] if live else None,
                graph.working_set(order, at) if live else 0,
                len(again),
                sum(spills(block.op_types[i]) for i in moving),
                sum(block.kinds[i].outputs[0].nbytes for i in moving),
                sum(costs) / max(1, sum(costs) - sum(again)),
                update_times(program.desc, block),
                rooms.get(binding.block),
                before.get(binding.block),
            )
