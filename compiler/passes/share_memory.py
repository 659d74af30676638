"""Pass: let tensors share memory where that changes no value.

1. An op whose kernel makes a view lies in the memory of its operand, whatever else reads either.
2. Any other op writes an output over an operand where the in-place law allows it (`runtime.step.in_place`).
3. Over a state that gets a new value elsewhere it writes only what is gone before the end of the step. Where an operand
   in the arena would do as well, the state is written over: that takes no memory.
4. Both are written into the op. Where an update is not in place the runtime copies at the end of the step.
"""

from __future__ import annotations

from collections.abc import Sequence

from compiler.passes.bound_blocks import bound_blocks
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import Reading
from runtime.step import InPlaceLaw, chosen, leaves_no_copy, views_of
from runtime.target import TARGET


def share_memory(program: pb.ProgramDesc) -> None:
    """Mark views, and outputs that may be written over an operand: nothing reads its old value afterwards."""
    for block in bound_blocks(program):
        share_in_block(block)


def share_in_block(desc: pb.BlockDesc) -> None:
    """Mark every view and every output of one block that may be written in place."""
    _Sharing(Reading(desc)).mark()


class _Sharing:
    """One walk over a block: in the memory of which tensor each one lies."""

    def __init__(self, block: Reading) -> None:
        views = views_of(block)
        self._block = block
        self._views = set(views)
        self._law = InPlaceLaw(block, views, TARGET)
        self._roots: dict[str, str] = {}  # of tensors that lie in the memory of another
        self._becomes = _new_values(block.desc, self._law.begins)

    def mark(self) -> None:
        block = self._block
        for i, (op, inputs, outputs) in enumerate(zip(block.ops, block.inputs, block.outputs, strict=True)):
            if op.in_place:
                del op.in_place[:]
            if i in self._views:
                op.in_place.add(output=0, input=0)
                self._roots[outputs[0]] = self._root(inputs[0])
                continue
            for output, position in self._taken(i, inputs, outputs):
                op.in_place.add(output=output, input=position)

    def _root(self, name: str) -> str:
        return self._roots.get(name, name)

    def _taken(self, i: int, inputs: Sequence[str], outputs: Sequence[str]) -> list[tuple[int, int]]:
        """The pairs of op number i that are in place, in order; its outputs are put where they then lie."""
        pairs = TARGET.in_place(self._block.op_types[i])
        if not pairs:
            return []
        law, becomes, end = self._law, self._becomes, len(self._block.ops)

        def may(output: int, position: int) -> bool:
            if law.objection(i, output, position) is not None:
                return False
            root, new = self._root(inputs[position]), outputs[output]
            return root not in becomes or leaves_no_copy(becomes[root] == new, law.last_reads.get(new) == end)

        taken = chosen(pairs, lambda position: self._root(inputs[position]) in becomes, may)
        for output, position in taken:
            self._roots[outputs[output]] = self._root(inputs[position])
        return sorted(taken)


def _new_values(desc: pb.BlockDesc, begins: dict[str, str]) -> dict[str, str]:
    """By tensor of a state that the block updates: what becomes its value, or what that is a view of."""
    becomes = {update.state: begins.get(update.tensor, update.tensor) for update in desc.updates}
    states = [p for p in desc.parameters if p.WhichOneof("source") == "state"]
    return {p.tensor: becomes[p.state] for p in states if p.state in becomes}
