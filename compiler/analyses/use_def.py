"""Use-def chains: which op defines each tensor and which ops use it, over forward and backward.

One pass over the op list. `training_view` tells the uses by the forward pass from those by the backward pass: what
has uses of the second kind is what training keeps alive.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from prograd_proto import program_pb2 as pb
from runtime.step import ends_of, is_observable

END = -1
"""The position that stands for the end of the step: a fetch, an update or a result."""


@dataclass(frozen=True)
class Chain:
    """Where a tensor comes from and where it goes, as positions in the op list."""

    definition: int | None  # None: a parameter of the block
    uses: list[int] = field(default_factory=list[int])  # in order, an op once for each operand; END last

    @property
    def last_use(self) -> int | None:
        """The position of the last op that reads the tensor, END if the step's end does, None if nothing."""
        return self.uses[-1] if self.uses else None


def use_def(block: pb.BlockDesc) -> dict[str, Chain]:
    """The chains of a well-formed block, by tensor; raises KeyError where an op uses what nothing defines before it."""
    chains = {parameter.tensor: Chain(None) for parameter in block.parameters}
    for i, op in enumerate(block.ops):
        for name in op.inputs:
            if name:
                chains[name].uses.append(i)
        for name in op.outputs:
            chains[name] = Chain(i)
    for name in ends_of(block):
        chains[name].uses.append(END)
    return chains


def needed(block: pb.BlockDesc) -> tuple[list[bool], set[str]]:
    """Of each op whether it is needed, by the end of the step, what others see or another op; and the tensors read."""
    read = set(ends_of(block))
    ops = block.ops[:]
    op_types = [op.type for op in ops]
    observable = {op_type for op_type in set(op_types) if is_observable(op_type)}
    is_needed = [op_type in observable for op_type in op_types]
    for i in reversed(range(len(ops))):
        if is_needed[i] or not read.isdisjoint(ops[i].outputs[:]):
            read.update(ops[i].inputs[:])
            is_needed[i] = True
    return is_needed, read
