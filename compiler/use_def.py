"""Use-def chains: which op defines each tensor and which ops use it, over forward and backward.

One pass over the op list. The training view tells the uses by the forward pass from those by the backward pass:
what has uses of the second kind is what training keeps alive.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from prograd_proto import program_pb2 as pb
from runtime.memory import ends_of

END = -1
"""The position that stands for the end of the step: a fetch, an update or a result."""


@dataclass(frozen=True)
class Chain:
    """Where a tensor comes from and where it goes, as positions in the op list."""

    definition: int | None  # None: a parameter of the block
    uses: list[int] = field(default_factory=list[int])  # in order, an op once for each operand; END last


@dataclass(frozen=True)
class UseDef:
    """The chains of a block, by tensor."""

    chains: dict[str, Chain]
    stages: list[pb.Stage]

    def training_uses(self, tensor: str, *, forward: bool) -> list[int]:
        """The uses by forward ops, or those by all others."""
        uses = self.chains[tensor].uses
        return [use for use in uses if use != END and (self.stages[use] == pb.STAGE_FORWARD) == forward]

    def last_use(self, tensor: str) -> int | None:
        """The position of the last op that reads the tensor, END if the step's end does, None if nothing."""
        uses = self.chains[tensor].uses
        return uses[-1] if uses else None


def use_def(block: pb.BlockDesc) -> UseDef:
    """The chains of a well-formed block; raises KeyError where an op uses what nothing defines before it."""
    chains = {parameter.tensor: Chain(None) for parameter in block.parameters}
    for i, op in enumerate(block.ops):
        for name in op.inputs:
            if name:
                chains[name].uses.append(i)
        for name in op.outputs:
            chains[name] = Chain(i)
    for name in ends_of(block):
        chains[name].uses.append(END)
    return UseDef(chains, [op.stage for op in block.ops])


def needed_ops(block: pb.BlockDesc) -> set[int]:
    """The positions of the ops whose outputs the end of the step needs, itself or through other ops."""
    needed = set(ends_of(block))
    found: set[int] = set()
    for i in reversed(range(len(block.ops))):
        op = block.ops[i]
        if not needed.isdisjoint(op.outputs):
            needed.update(op.inputs)
            found.add(i)
    return found
