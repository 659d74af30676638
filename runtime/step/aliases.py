"""The tensors that share memory: views, and outputs that are written in place.

A class of tensors lies in the memory of its root. A view has the bytes of its operand. An in-place op overwrites them
and so begins a new version of the class: only the tensors of the newest version have their values.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from prograd_proto.blocks import BlockAnalysis, question
from runtime.operators import CONTRACTS
from runtime.step.effects import spills


class Storage(NamedTuple):
    """The memory of a tensor's value: its root tensor, and the number of earlier versions that were overwritten."""

    root: str
    version: int


class Aliases(NamedTuple):
    """The storage of every tensor of a block, and the position of the last op that reads each version of it."""

    storage: dict[str, Storage]
    last_read: dict[Storage, int]  # len(ops) is the end of the step
    views: set[int]  # positions of the ops that have nothing to compute


def aliases_of(block: BlockAnalysis, pinned: Collection[str] = ()) -> Aliases:
    """Return the storage of a block's tensors, as its ops say in `in_place`; no op overwrites a pinned tensor.

    Pinned tensors are read by the end of the step, like those that are fetched.
    """
    return _aliases_of(block, frozenset(pinned))


@question(of_marks=True)
def _aliases_of(block: BlockAnalysis, pinned: frozenset[str]) -> Aliases:
    storage = {name: Storage(name, 0) for name in block.parameter_names}
    last_read: dict[Storage, int] = {}
    views = {i for i in views_of(block) if block.in_place[i]}
    for i, (inputs, outputs, pairs) in enumerate(zip(block.inputs, block.outputs, block.in_place, strict=True)):
        for name in inputs:
            if name:
                last_read[storage[name]] = i
        for name in outputs:
            storage[name] = Storage(name, 0)
        for output, position in pairs:
            old, new = storage[inputs[position]], outputs[output]
            if i in views:
                storage[new] = old
            elif not pinned or old not in [storage.get(name) for name in pinned]:
                storage[new] = Storage(old.root, old.version + 1)
    ends = [storage[name] for name in (*block.ends, *pinned) if name in storage]
    last_read.update(dict.fromkeys(ends, len(block.ops)))
    return Aliases(storage, last_read, views)


@question()
def made_outside(block: BlockAnalysis) -> set[str]:
    """Return the tensors that ops make and that lie outside the arena: constants, and spilled tensors."""
    types = {op_type for op_type in set(block.op_types) if op_type == "constant" or spills(op_type)}
    columns = zip(block.op_types, block.outputs, strict=True)
    return {name for op_type, outputs in columns if op_type in types for name in outputs}


@question()
def views_of(block: BlockAnalysis) -> list[int]:
    """Return the positions of the ops that make views, in order."""
    types = {op_type for op_type in set(block.op_types) if is_view(op_type)}
    return [i for i, op_type in enumerate(block.op_types) if op_type in types]


def is_view(op_type: str) -> bool:
    """Return True if output 0 of such ops has the bytes of input 0."""
    return op_type in CONTRACTS and CONTRACTS[op_type].view
