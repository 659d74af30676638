"""Schedule: the order of groups, their phases, and the states that they overwrite.

The groups of a tiled chain become neighbours and share a phase, unless the step then takes more memory than the groups
in their own order, than a negligible amount and than the budget.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from prograd_proto import TensorType
from prograd_proto.blocks import BlockAnalysis
from runtime.codegen.groups.group import Group
from runtime.codegen.groups.nodes import Node, Nodes
from runtime.codegen.lowering.in_place import updates_in_place
from runtime.codegen.lowering.kernel_plans import KernelPlans
from runtime.codegen.lowering.lowered_block import LoweredBlock
from runtime.codegen.lowering.phases import NEGLIGIBLE_BYTES, PhaseChain, phases_of
from runtime.codegen.lowering.tiled_chains import TiledChain, chained_order, tiled_chains
from runtime.codegen.rules import KernelSteps
from runtime.placement.alignment import aligned
from runtime.target import TARGET


def schedule(block: LoweredBlock) -> LoweredBlock:
    """Assign groups to phases, whose groups may run concurrently; groups of a tiled chain become neighbours."""
    block = block._replace(scratch=_scratch(block))
    plain = _in_phases(block, [])
    tables = [() if kernel is None else kernel.table for kernel in block.kernels]
    chains = tiled_chains(block.nodes, block.groups, tables, block.steps, block.threads)
    if not chains:
        return plain
    order = chained_order(len(block.groups), chains)
    position = {i: index for index, i in enumerate(order)}
    chained = _in_phases(_reordered(block, order), [_moved(chain, position, block) for chain in chains])
    limit = max(plain.phases.peak_bytes, NEGLIGIBLE_BYTES, block.options.memory_budget or 0)
    return KernelPlans(chained).planned(chained) if chained.phases.peak_bytes <= limit else plain


def _moved(chain: TiledChain, position: Mapping[int, int], block: LoweredBlock) -> PhaseChain:
    """Return a chain of groups that have these positions now."""
    leads = [block.steps[i].tiled or 0 for i in chain.links]
    prepared = [_prepared(block.nodes, block.groups[i], block.steps[i]) for i in chain.links]
    return PhaseChain([position[i] for i in chain.links], leads, prepared, chain.tiles, chain.runs, chain.is_large)


def _prepared(nodes: Nodes, group: Group, steps: KernelSteps) -> frozenset[str]:
    """Return the roots of the tensors that steps before the row tiles read; all operands, if one is not the op's."""
    inputs = group.nodes[0].inputs
    numbers = {n for step in steps.steps[: steps.tiled] if step.prepack for n in step.prepack.reads}
    if group.prologue or any(n >= len(inputs) for n in numbers):
        return frozenset(group.reads)
    return frozenset(nodes.root.get(inputs[n], inputs[n]) for n in numbers)


def _scratch(block: LoweredBlock) -> list[list[int]]:
    """Return the sizes of the scratch of each group, in bytes."""
    return [
        list[int]()
        if block.is_control(group)
        else [type.nbytes for type in _host_scratch(block, group.nodes[0])]
        if group.is_host
        else [*steps.shared_scratch, *(aligned(size) * block.threads for size in steps.thread_scratch)]
        for group, steps in zip(block.groups, block.steps, strict=True)
    ]


def _host_scratch(block: LoweredBlock, node: Node) -> Sequence[TensorType]:
    """Return the types of the arrays that the NumPy kernel of a host op may overwrite while it runs."""
    inputs = [block.nodes.types[name] if name else None for name in node.inputs]
    if not node.op.blocks:
        return TARGET.scratch(node.op.type, inputs, node.attributes)

    def reading(number: int) -> BlockAnalysis:
        return BlockAnalysis(block.options.blocks[number], reading)

    return TARGET.control_scratch(node.op.type, inputs, node.attributes, [*map(reading, node.op.blocks)])


def _reordered(block: LoweredBlock, order: Sequence[int]) -> LoweredBlock:
    return block._replace(
        groups=[block.groups[i] for i in order],
        stored=[block.stored[i] for i in order],
        kernels=[block.kernels[i] for i in order],
        steps=[block.steps[i] for i in order],
        scratch=[block.scratch[i] for i in order],
    )


def _in_phases(block: LoweredBlock, chains: Sequence[PhaseChain]) -> LoweredBlock:
    """Return the block with phases, where the groups of each chain may share one."""
    in_state = {} if block.is_instrumented else updates_in_place(block.nodes, block.groups)
    counts = [0 if steps.is_prepacked else max(len(steps.steps), 1) for steps in block.steps]
    in_arena = [
        sum(aligned(size) for number, size in enumerate(sizes) if number not in steps.packed)
        for sizes, steps in zip(block.scratch, block.steps, strict=True)
    ]
    options = block.options
    phases = phases_of(
        block.nodes, block.groups, counts, in_state, in_arena, options.threads, options.memory_budget, chains
    )
    return block._replace(in_state=in_state, phases=phases)
