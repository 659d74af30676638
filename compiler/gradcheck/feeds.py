"""Seeded feeds of an entry: floats are normal, and integers that index are within the axis that they index."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from prograd_proto import attributes_of
from prograd_proto import program_pb2 as pb
from prograd_proto.tensor_types import TensorType, type_of

INDEXING: Final = {"gather": (1, 0), "softmax_cross_entropy": (1, 0), "accuracy": (1, 0), "take_along_axis": (1, 0)}
"""For ops with an operand of positions, the numbers of that operand and of the one that it indexes."""

SAME_ELEMENTS: Final = ("cast", "reshape", "slice", "transpose", "broadcast_to", "identity", "concat", "split")
"""Ops whose results have elements of their first operand."""

MOST: Final = 2
"""Integers whose range is unknown are below this, as in labels of two classes."""

LARGEST_PIXEL: Final = 255


def seeded_feeds(
    block: pb.BlockDesc, sizes: Mapping[str, int], seed: int, given: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return arrays for the feeds of a block; those of `given` are taken as they are."""
    import numpy as np

    rng = np.random.default_rng(seed)
    types = {tensor.name: type_of(tensor) for tensor in block.tensors}
    made: dict[str, Any] = {}
    for parameter in block.parameters:
        if parameter.WhichOneof("source") != "feed":
            continue
        type = types[parameter.tensor]
        shape = [sizes.get(e, 1) if isinstance(e, str) else e for e in type.shape]
        if given is not None and parameter.feed in given:
            made[parameter.feed] = np.asarray(given[parameter.feed], dtype=type.dtype)
        elif type.dtype.startswith("float") or type.dtype == "bfloat16":
            made[parameter.feed] = rng.standard_normal(shape).astype(
                np.float64 if type.dtype == "float64" else np.float32
            )
        elif type.dtype == "bool":
            made[parameter.feed] = rng.random(shape) < 0.5
        else:
            below = index_range(block, types, parameter.tensor)
            if below is None:
                below = LARGEST_PIXEL + 1 if type.dtype == "uint8" else MOST
            made[parameter.feed] = rng.integers(0, max(below, 1), shape).astype(type.dtype)
    return made


def index_range(block: pb.BlockDesc, types: Mapping[str, TensorType], name: str) -> int | None:
    """Return the smallest extent that a tensor's elements index; None if they index nothing."""
    names, found = {name}, list[int]()
    for op in block.ops:
        reads = [i for i, operand in enumerate(op.inputs) if operand in names]
        if not reads:
            continue
        if op.type in SAME_ELEMENTS:
            names.update(op.outputs)
        found += _indexed(op, reads, types)
    return min(found) if found else None


def _indexed(op: pb.OpDesc, reads: list[int], types: Mapping[str, TensorType]) -> list[int]:
    given = attributes_of(op)
    if op.type == "one_hot":
        return [int(str(given["depth"]))]
    if op.type not in INDEXING or INDEXING[op.type][0] not in reads:
        return []
    shape = types[op.inputs[INDEXING[op.type][1]]].shape
    extent = shape[int(str(given.get("axis", -1)))]
    return [extent] if isinstance(extent, int) else []
