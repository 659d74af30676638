"""Scratch: memory that the kernels of an engine overwrite while their op runs, planned like every other buffer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from prograd_proto import TensorType
from prograd_proto.blocks import BlockAnalysis, question
from runtime.step.target import Target


@question(of_each_op=True, of_blocks=True)
def scratch_of(block: BlockAnalysis, target: Target) -> list[list[tuple[str, TensorType]]]:
    """Return the scratch arrays that the target's kernel asks for, for each op, named by the file if it names them."""
    flat = {kind for kind, inside in zip(block.kinds, block.blocks, strict=True) if not inside}
    wanted = {kind: target.scratch(kind.op_type, kind.inputs, kind.attributes) for kind in flat}
    rows: list[list[tuple[str, TensorType]]] = []
    for i, (kind, named, inside) in enumerate(zip(block.kinds, block.scratch, block.blocks, strict=True)):
        types = wanted[kind] if not inside else _of_control(block, i, target)
        rows.append(_named(block, i, types) if named or types else [])
    return rows


def _of_control(block: BlockAnalysis, i: int, target: Target) -> tuple[TensorType, ...]:
    kind = block.kinds[i]
    return target.control_scratch(kind.op_type, kind.inputs, kind.attributes, block.sub_blocks(i))


def is_scratch(name: str) -> bool:
    """Return True if a plan's name is that of scratch, of this engine's kernels or of others.

    Scratch is no tensor of the block, so only its name in a plan distinguishes it from a tensor of another block.
    """
    return re.fullmatch(_NAME.format(r"\d+", r"\d+") + "_*", name) is not None


_NAME = "scratch {} of op {}"
"""Name of the scratch in plans for an op that does not name it: its number, and the op's id."""


def _named(block: BlockAnalysis, i: int, wanted: Sequence[TensorType]) -> list[tuple[str, TensorType]]:
    names = block.scratch[i] or [_unused(_NAME.format(j, block.ids[i]), block.types) for j in range(len(wanted))]
    return list(zip(names, wanted, strict=True))


def _unused(name: str, types: Mapping[str, TensorType]) -> str:
    while name in types:
        name += "_"
    return name
