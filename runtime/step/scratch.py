"""Scratch: memory that the kernels of an engine overwrite while their op runs, placed like every other buffer."""

from __future__ import annotations

from prograd_proto import TensorType
from prograd_proto.blocks import BlockAnalysis, question
from runtime.step.target import Target


@question(of_each_op=True, of_blocks=True)
def scratch_of(block: BlockAnalysis, target: Target) -> list[list[tuple[str, TensorType]]]:
    """Return the scratch arrays that the target's kernel asks for, for each op, each with a name of its own.

    No tensor has a space in its name.
    """
    flat = {kind for kind, inside in zip(block.kinds, block.blocks, strict=True) if not inside}
    wanted = {kind: target.scratch(kind.op_type, kind.inputs, kind.attributes) for kind in flat}
    rows: list[list[tuple[str, TensorType]]] = []
    for i, (kind, inside) in enumerate(zip(block.kinds, block.blocks, strict=True)):
        types = wanted[kind] if not inside else _of_control(block, i, target)
        rows.append([(f"scratch {j} of op {block.ids[i]}", type) for j, type in enumerate(types)] if types else [])
    return rows


def _of_control(block: BlockAnalysis, i: int, target: Target) -> tuple[TensorType, ...]:
    kind = block.kinds[i]
    return target.control_scratch(kind.op_type, kind.inputs, kind.attributes, block.sub_blocks(i))
