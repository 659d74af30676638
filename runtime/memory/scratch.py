"""What kernels need beside their operands and results: planned like every other buffer."""

from __future__ import annotations

from collections.abc import Mapping

from prograd_proto import TensorType, attributes_of
from prograd_proto import program_pb2 as pb
from runtime.kernels import KERNELS


def scratch_of(block: pb.BlockDesc, types: Mapping[str, TensorType]) -> list[list[tuple[str, TensorType]]]:
    """For each op the scratch arrays that its kernel asks for, named by the file or, where it is silent, here."""
    return [_scratch_of(op, types) for op in block.ops]


def _scratch_of(op: pb.OpDesc, types: Mapping[str, TensorType]) -> list[tuple[str, TensorType]]:
    inputs = [types[name] if name else None for name in op.inputs]
    wanted = KERNELS[op.type].rule(*inputs, **attributes_of(op)).scratch
    names = list(op.scratch) or [_unused(f"scratch {i} of op {op.id}", types) for i in range(len(wanted))]
    return list(zip(names, wanted, strict=True))


def _unused(name: str, types: Mapping[str, TensorType]) -> str:
    while name in types:
        name += "_"
    return name
