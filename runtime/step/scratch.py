"""What the kernels of an engine need beside their operands and results: planned like every other buffer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from prograd_proto import TensorType
from prograd_proto.blocks import Reading, question
from runtime.step.target import Target


@question(of_each_op=True)
def scratch_of(block: Reading, target: Target) -> list[list[tuple[str, TensorType]]]:
    """For each op the scratch arrays that its kernel of the target asks for, named by the file, else here."""
    wanted = {kind: target.scratch(kind.op_type, kind.inputs, kind.attributes) for kind in dict.fromkeys(block.kinds)}
    columns = enumerate(zip(block.kinds, block.scratch, strict=True))
    return [_named(block, i, wanted[kind]) if named or wanted[kind] else [] for i, (kind, named) in columns]


def is_scratch(name: str) -> bool:
    """Whether a name is one that `scratch_of` gives."""
    return re.fullmatch(r"scratch \d+ of op \d+_*", name) is not None


def _named(block: Reading, i: int, wanted: Sequence[TensorType]) -> list[tuple[str, TensorType]]:
    names = block.scratch[i] or [_unused(f"scratch {j} of op {block.ids[i]}", block.types) for j in range(len(wanted))]
    return list(zip(names, wanted, strict=True))


def _unused(name: str, types: Mapping[str, TensorType]) -> str:
    while name in types:
        name += "_"
    return name
