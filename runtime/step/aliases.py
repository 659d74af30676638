"""The tensors that share memory: views, and outputs that are written in place.

All tensors of one memory have the name of the first one in it as their root. A view has the bytes of its operand. An op
in place overwrites them, so only the newest tensor of a memory, and its views, have their values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from prograd_proto.blocks import BlockAnalysis, question
from runtime.operators import CONTRACTS
from runtime.step.clock import Lifetime
from runtime.step.effects import spills
from runtime.step.target import Pair


class Aliases(NamedTuple):
    """The memory of every tensor of a block.

    Attributes:
        root: by tensor, the first tensor in its memory.
        lifetimes: by root, the phases in which its memory is needed. A fed tensor that nothing reads has none.
        views: positions of the ops that have nothing to compute.
        in_place: for each op the pairs (output, input) that share memory.
    """

    root: dict[str, str]
    lifetimes: dict[str, Lifetime]
    views: set[int]
    in_place: list[Sequence[Pair]]


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
