"""Lowering: a bound block becomes groups with kernel steps, phases, offsets in memory and chunks."""

from __future__ import annotations

from collections.abc import Sequence

from prograd_proto import program_pb2 as pb
from runtime.codegen.lowering.lowered_block import LoweredBlock, LoweringOptions, unlowered
from runtime.codegen.lowering.passes.pipeline import PASSES
from runtime.codegen.machine import Target
from runtime.codegen.rules import CustomKernel


def lowered(
    desc: pb.BlockDesc,
    pinned: Sequence[str],
    target: Target,
    threads: int = 1,
    is_instrumented: bool = False,
    memory_budget: int | None = None,
    *,
    prepacks: bool = False,
    blocks: Sequence[pb.BlockDesc] = (),
) -> LoweredBlock:
    """Return a block after all passes of `PASSES`.

    Args:
        desc: the block.
        pinned: tensors that the end of the step reads besides fetches and updates.
        target: the machine that code is for.
        threads: number of threads that compute.
        is_instrumented: True for a step that only checks: each op is a group of its own, in the order of the block; all
            results are stored and no state changes, so that the ordinary step can run afterwards.
        memory_budget: bytes that a step of several threads may take, if it can do with them; None for no limit. If
            custom kernels with strides exceed it, they read and write contiguous tensors instead where that takes less.
        prepacks: True if values derived from states alone are computed by `CompiledStep.prepack`, before the first step
            and after every change of the states.
        blocks: the blocks of the program, which ops with blocks refer to by number.
    """
    options = LoweringOptions(
        target.for_threads(threads),
        blocks,
        threads,
        is_instrumented,
        memory_budget,
        prepacks,
    )
    block = PASSES.applied(unlowered(desc, pinned, options))
    if memory_budget is None or block.memory.arena_bytes <= memory_budget or not _has_strided_kernels(block):
        return block
    contiguous = PASSES.applied(unlowered(desc, pinned, options._replace(has_strided_kernels=False)))
    return min(block, contiguous, key=lambda one: one.memory.arena_bytes)


def _has_strided_kernels(block: LoweredBlock) -> bool:
    rules = (node.rule for node in block.nodes.nodes)
    return any(isinstance(rule, CustomKernel) and rule.strided is not None for rule in rules)
