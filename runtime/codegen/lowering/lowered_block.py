"""The state of lowering: a bound block with all that the passes so far have established about it.

A pass returns a new state and edits none, so the state after each pass is a snapshot. A field that no pass has
established yet is empty.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalysis
from prograd_proto.blocks.control import BLOCKS
from runtime.codegen.groups.group import Group
from runtime.codegen.groups.group_kernel import GroupKernel
from runtime.codegen.groups.nodes import Nodes
from runtime.codegen.lowering.chunks import Chunk
from runtime.codegen.lowering.memory import NO_MEMORY, Memory
from runtime.codegen.lowering.phases import NO_PHASES, Phases
from runtime.codegen.machine import Target
from runtime.codegen.rules import KernelSteps

NO_NODES: Final = Nodes(BlockAnalysis(pb.BlockDesc()), [], {}, {}, {}, [], {}, set())
NO_STEPS: Final = KernelSteps(())
"""The kernel steps of a host op."""


class LoweringOptions(NamedTuple):
    """Inputs of lowering besides the block.

    Attributes:
        target: the machine that code is for.
        blocks: the blocks of the program, which ops with blocks refer to by number.
        threads: number of threads that compute.
        is_instrumented: True for a step that computes each op on its own and changes no state.
        memory_budget: bytes that a step of several threads may take if it can do with less than it would take without
            a limit; None for no limit.
        prepacks: True if values derived from states alone are computed when states change, and not in each step.
        has_strided_kernels: True if custom kernels may read and write tensors with gaps between their rows. Their
            threads then need more scratch.
    """

    target: Target
    blocks: Sequence[pb.BlockDesc]
    threads: int
    is_instrumented: bool
    memory_budget: int | None
    prepacks: bool
    has_strided_kernels: bool = True


class KernelPlan(NamedTuple):
    """The kernel steps of a kernel; they compute equal kernels too, with the tensors of this one."""

    kernel: GroupKernel
    steps: KernelSteps


class LoweredBlock(NamedTuple):
    """A bound block between two passes of lowering, or after all of them.

    Attributes:
        desc: the block.
        pinned: tensors that the end of the step reads besides fetches and updates.
        options: the other inputs of lowering.
        bodies: by id of an op of control flow that compiled code runs, its blocks after the same pass, in the order of
            the op.
        number: number of the block in the program; -1 for the block of a step.
        owner: op inside which the block is; None for the block of a step.
        part: position among the blocks of the owner.
        nodes: the nodes, with their tensors.
        groups: in the order in which they are computed.
        stored: for each group, the tensors that it writes to memory.
        kernels: for each group, the computation of its functions; None for a host op.
        steps: for each group, the partition of its work; `NO_STEPS` for a host op.
        plans: by the key of a kernel, its kernel steps.
        phases: when each group is computed.
        in_state: by tensor, the state that it overwrites.
        scratch: for each group, the sizes of its scratch in bytes.
        memory: the offsets of everything that is stored.
        chunks: for each phase, the chunks in the order in which threads take them.
    """

    desc: pb.BlockDesc
    pinned: tuple[str, ...]
    options: LoweringOptions
    bodies: Mapping[int, tuple[LoweredBlock, ...]]
    number: int
    owner: pb.OpDesc | None
    part: int
    nodes: Nodes = NO_NODES
    groups: Sequence[Group] = ()
    stored: Sequence[Sequence[str]] = ()
    kernels: Sequence[GroupKernel | None] = ()
    steps: Sequence[KernelSteps] = ()
    plans: Mapping[str, KernelPlan] = MappingProxyType({})
    phases: Phases = NO_PHASES
    in_state: Mapping[str, str] = MappingProxyType({})
    scratch: Sequence[Sequence[int]] = ()
    memory: Memory = NO_MEMORY
    chunks: Sequence[Sequence[Chunk]] = ()

    @property
    def target(self) -> Target:
        """The machine that code is for."""
        return self.options.target

    @property
    def threads(self) -> int:
        """The number of threads that compute."""
        return self.options.threads

    @property
    def is_instrumented(self) -> bool:
        """Return True if the step computes each op on its own and changes no state."""
        return self.options.is_instrumented

    def unlowered(self) -> LoweredBlock:
        """Return the state before the first pass."""
        bodies = {op: tuple(body.unlowered() for body in inside) for op, inside in self.bodies.items()}
        return LoweredBlock(
            self.desc, self.pinned, self.options, bodies, number=self.number, owner=self.owner, part=self.part
        )

    def is_control(self, group: Group) -> bool:
        """Return True if a group is an op of control flow that compiled code runs, so that no NumPy kernel does."""
        return group.is_host and group.nodes[0].op.id in self.bodies


def unlowered(desc: pb.BlockDesc, pinned: Sequence[str], options: LoweringOptions) -> LoweredBlock:
    """Return the state before the first pass.

    An instrumented step has no bodies: the NumPy kernels check every op inside, and name its iteration.
    """
    return _unlowered(desc, tuple(pinned), options, -1, None, 0)


def _unlowered(
    desc: pb.BlockDesc,
    pinned: tuple[str, ...],
    options: LoweringOptions,
    number: int,
    owner: pb.OpDesc | None,
    part: int,
) -> LoweredBlock:
    controls = [op for op in desc.ops if op.type in BLOCKS and op.blocks and not options.is_instrumented]
    bodies = {
        op.id: tuple(_unlowered(options.blocks[inner], (), options, inner, op, i) for i, inner in enumerate(op.blocks))
        for op in controls
    }
    return LoweredBlock(desc, pinned, options, bodies, number=number, owner=owner, part=part)
