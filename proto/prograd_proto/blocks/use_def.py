"""Use-def chains: the op that defines each tensor and the ops that use it, over forward and backward.

Positions are those of the list of ops. The end of the step reads fetches, new values of states and results of a
sub-block; its position is the one after the last op.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple


class Chain(NamedTuple):
    """The definition and the uses of a tensor."""

    definition: int | None  # None: a parameter of the block
    uses: list[int]  # in order, once for each operand


class UseDef:
    """The chains of one block, valid until an edit of operands, results or ends.

    Args:
        parameters: the tensors from outside the block.
        inputs: the operands of each op; "" is an absent one.
        outputs: the results of each op.
        ends: the tensors that the end of the step reads.
    """

    def __init__(
        self,
        parameters: Sequence[str],
        inputs: Sequence[Sequence[str]],
        outputs: Sequence[Sequence[str]],
        ends: Sequence[str],
    ) -> None:
        self._parameters, self._inputs, self._outputs, self._ends = parameters, inputs, outputs, ends

    @cached_property
    def makers(self) -> dict[str, int]:
        """The position of the op that defines each tensor; parameters have none."""
        return {name: i for i, outputs in enumerate(self._outputs) for name in outputs}

    @cached_property
    def last_uses(self) -> dict[str, int]:
        """The position of the last op that reads each tensor that is read."""
        last = {name: i for i, inputs in enumerate(self._inputs) for name in inputs}
        last.pop("", None)
        return last | dict.fromkeys(self._ends, len(self._inputs))

    @cached_property
    def chains(self) -> dict[str, Chain]:
        """The chain of each tensor; raises KeyError where an op uses a tensor that nothing defines before it."""
        chains = {name: Chain(None, []) for name in self._parameters}
        for i, (inputs, outputs) in enumerate(zip(self._inputs, self._outputs, strict=True)):
            for name in inputs:
                if name:
                    chains[name].uses.append(i)
            for name in outputs:
                chains[name] = Chain(i, [])
        for name in self._ends:
            chains[name].uses.append(len(self._inputs))
        return chains
