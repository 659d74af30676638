"""What the kernels of an engine need beside their operands and results: planned like every other buffer."""

from __future__ import annotations

import re
from collections.abc import Mapping

from prograd_proto import TensorType, attributes_of
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import Reading
from runtime.step.target import Target


def scratch_of(block: Reading, target: Target) -> list[list[tuple[str, TensorType]]]:
    """For each op the scratch arrays that its kernel of the target asks for, named by the file, else here."""
    known: dict[object, tuple[TensorType, ...]] = {}  # a deep program repeats few different ops
    types = block.types
    result: list[list[tuple[str, TensorType]]] = []
    for op, op_type, operands, attributes in zip(
        block.ops, block.op_types, block.inputs, block.attributes, strict=True
    ):
        inputs = [types[name] if name else None for name in operands]
        key = op_type, *inputs, *attributes
        if key not in known:
            known[key] = target.scratch(op_type, inputs, attributes_of(op))
        result.append(_named(op, known[key], types))
    return result


def is_scratch(name: str) -> bool:
    """Whether a name is one that `scratch_of` gives."""
    return re.fullmatch(r"scratch \d+ of op \d+_*", name) is not None


def _named(
    op: pb.OpDesc, wanted: tuple[TensorType, ...], types: Mapping[str, TensorType]
) -> list[tuple[str, TensorType]]:
    if not (wanted or op.scratch):
        return []
    names = op.scratch[:] or [_unused(f"scratch {i} of op {op.id}", types) for i in range(len(wanted))]
    return list(zip(names, wanted, strict=True))


def _unused(name: str, types: Mapping[str, TensorType]) -> str:
    while name in types:
        name += "_"
    return name
