"""Pass: let tensors share memory where that changes no value.

1. The output of a view op is in the memory of its operand, whatever else reads either.
2. Any other op writes an output over an operand where the in-place law allows it (`runtime.step.in_place`).
3. A state that gets a new value elsewhere is only overwritten by values that die before the end of the step. A state
   is preferred over an operand in the arena, because that takes no memory.
4. Both are recorded in the op. If an update is not in place, the runtime copies it at the end of the step.
"""

from __future__ import annotations

from collections.abc import Sequence

from prograd_proto.blocks import BlockAnalyses, BlockAnalysis
from runtime.step import InPlaceLaw, chosen, leaves_no_copy, possible_pairs, views_of
from runtime.target import TARGET

Pairs = Sequence[tuple[int, int]]


def share_memory(program: BlockAnalyses) -> None:
    """Mark views, and outputs that may overwrite an operand, because nothing reads its old value afterwards."""
    for block in program.bound:
        share_in_block(block)


def share_in_block(block: BlockAnalysis) -> None:
    """Mark every view and every output of one block that may be written in place."""
    sharing = _Sharing(block)
    possible, views = possible_pairs(block, TARGET), set(views_of(block))
    for i, pairs in enumerate(possible):
        block.mark(i, sharing.view(i) if i in views else sharing.taken(i, pairs) if pairs else ())


class _Sharing:
    """One walk over a block that finds the tensor in whose memory each one is."""

    def __init__(self, block: BlockAnalysis) -> None:
        self._block = block
        self._end = len(block.ops)
        law = InPlaceLaw(block, views_of(block), TARGET)
        self._begins, self._last_reads = law.begins, law.last_reads
        self._roots: dict[str, str] = {}  # tensors in the memory of another one
        self._becomes = _new_values(block, law.begins)

    def view(self, i: int) -> Pairs:
        """Return the pair of a view, whose memory is that of its operand."""
        self._roots[self._block.outputs[i][0]] = self._root(self._block.inputs[i][0])
        return ((0, 0),)

    def taken(self, i: int, pairs: Pairs) -> Pairs:
        """Return the possible pairs of an op that are in place, in order, and record the memory of its outputs."""
        inputs, outputs, becomes, last_reads = (
            self._block.inputs[i],
            self._block.outputs[i],
            self._becomes,
            self._last_reads,
        )

        def may(output: int, position: int) -> bool:
            old, new = inputs[position], outputs[output]
            if last_reads[self._begins.get(old, old)] > i:
                return False
            root = self._root(old)
            return root not in becomes or leaves_no_copy(becomes[root] == new, last_reads.get(new) == self._end)

        taken = chosen(pairs, lambda position: self._root(inputs[position]) in becomes, may)
        for output, position in taken:
            self._roots[outputs[output]] = self._root(inputs[position])
        return sorted(taken)

    def _root(self, name: str) -> str:
        return self._roots.get(name, name)


def _new_values(block: BlockAnalysis, begins: dict[str, str]) -> dict[str, str]:
    """Return the new value of each state that the block updates, or the tensor of which that is a view."""
    becomes = {state: begins.get(tensor, tensor) for state, tensor in block.updates.items()}
    return {tensor: becomes[state] for tensor, state in block.state_of.items() if state in becomes}
