"""What kernels need beside their operands and results: planned like every other buffer."""

from __future__ import annotations

import re
from collections.abc import Mapping

from prograd_proto import TensorType, attributes_of
from prograd_proto import program_pb2 as pb
from runtime.kernels import KERNELS


def scratch_of(block: pb.BlockDesc, types: Mapping[str, TensorType]) -> list[list[tuple[str, TensorType]]]:
    """For each op the scratch arrays that its kernel asks for, named by the file or, where it is silent, here."""
    known: dict[object, tuple[TensorType, ...]] = {}  # a deep program repeats few different ops
    return [_named(op, _wanted(op, types, known), types) for op in block.ops]


def is_scratch(name: str) -> bool:
    """Whether a name is one that `scratch_of` gives."""
    return re.fullmatch(r"scratch \d+ of op \d+_*", name) is not None


def _wanted(
    op: pb.OpDesc, types: Mapping[str, TensorType], known: dict[object, tuple[TensorType, ...]]
) -> tuple[TensorType, ...]:
    inputs = [types[name] if name else None for name in op.inputs]
    key = op.type, *inputs, *[attribute.SerializeToString() for attribute in op.attributes]
    wanted = known.get(key)
    if wanted is None:
        wanted = known[key] = KERNELS[op.type].rule(*inputs, **attributes_of(op)).scratch
    return wanted


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
