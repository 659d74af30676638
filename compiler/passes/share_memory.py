"""Pass: let tensors share memory where that changes no value.

1. An op whose kernel makes a view lies in the memory of its operand, whatever else reads either.
2. Any other op writes an output over an operand where the in-place law allows it (`runtime.step.in_place`).
3. Over a state that gets a new value elsewhere it writes only what is gone before the end of the step. Where an operand
   in the arena would do as well, the state is written over: that takes no memory.
4. Both are written into the op. Where an update is not in place the runtime copies at the end of the step.
"""

from __future__ import annotations

from collections.abc import Sequence

from prograd_proto.blocks import Reading, Readings
from runtime.step import InPlaceLaw, chosen, leaves_no_copy, possible_pairs, views_of
from runtime.target import TARGET

Pairs = Sequence[tuple[int, int]]


def share_memory(program: Readings) -> None:
    """Mark views, and outputs that may be written over an operand: nothing reads its old value afterwards."""
    for block in program.bound:
        share_in_block(block)


def share_in_block(block: Reading) -> None:
    """Mark every view and every output of one block that may be written in place."""
    sharing = _Sharing(block)
    possible, views = possible_pairs(block, TARGET), set(views_of(block))
    for i, pairs in enumerate(possible):
        block.mark(i, sharing.view(i) if i in views else sharing.taken(i, pairs) if pairs else ())


class _Sharing:
    """One walk over a block: in the memory of which tensor each one lies."""

    def __init__(self, block: Reading) -> None:
        self._block = block
        self._end = len(block.ops)
        law = InPlaceLaw(block, views_of(block), TARGET)
        self._begins, self._last_reads = law.begins, law.last_reads
        self._roots: dict[str, str] = {}  # of tensors that lie in the memory of another
        self._becomes = _new_values(block, law.begins)

    def view(self, i: int) -> Pairs:
        """Return the pair of a view, which is put where its operand lies."""
        self._roots[self._block.outputs[i][0]] = self._root(self._block.inputs[i][0])
        return ((0, 0),)

    def taken(self, i: int, pairs: Pairs) -> Pairs:
        """Those of the possible pairs of an op that are in place, in order; its outputs are put where they then lie."""
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


def _new_values(block: Reading, begins: dict[str, str]) -> dict[str, str]:
    """By tensor of a state that the block updates: what becomes its value, or what that is a view of."""
    becomes = {state: begins.get(tensor, tensor) for state, tensor in block.updates.items()}
    return {tensor: becomes[state] for tensor, state in block.state_of.items() if state in becomes}
