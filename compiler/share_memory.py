"""Pass: let tensors share memory where that changes no value.

1. An op whose kernel makes a view lies in the memory of its operand, whatever else reads either.
2. Any other op writes an output over an operand if the kernel allows that pair, the types are equal, the operand is
   neither a constant nor in the same memory as another operand, and nothing reads its value or a view of it
   afterwards: no later op, no fetch, no update.
3. Over a state only a block that updates it writes: the new value, or what is gone before the end of the step. Where
   an operand in the arena would do as well, the state is written over: that takes no memory.
4. Both are written into the op. Where an update is not in place the runtime copies at the end of the step.
"""

from __future__ import annotations

from collections.abc import Sequence

from compiler.bound_blocks import bound_blocks
from prograd_proto import program_pb2 as pb
from prograd_proto.written import Written
from runtime.memory import ends_of, in_place_pairs, made_outside, views_of


def share_memory(program: pb.ProgramDesc) -> None:
    """Mark every view and every output that may be written in place, in the blocks that run."""
    for block in bound_blocks(program):
        share_in_block(block)


def share_in_block(desc: pb.BlockDesc) -> None:
    """Mark every view and every output of one block that may be written in place."""
    _Sharing(Written(desc)).mark()


class _Sharing:
    """One walk over a block: which tensor gave the memory that each lies in, and who reads the value there last."""

    def __init__(self, block: Written) -> None:
        views = views_of(block)
        self._block = block
        self._views = set(views)
        self._last_read = _last_reads(block, views)
        self._owners = _Owners(block, views)
        self._roots: dict[str, str] = {}  # of tensors that lie in the memory of another

    def mark(self) -> None:
        block = self._block
        for i, (op, inputs, outputs) in enumerate(zip(block.ops, block.inputs, block.outputs, strict=True)):
            if op.in_place:
                del op.in_place[:]
            if i in self._views:
                x, y = inputs[0], outputs[0]
                op.in_place.add(output=0, input=0)
                self._roots[y], self._last_read[y] = self._root(x), self._last_read[x]
                continue
            for output, position in self._taken(i, inputs, outputs):
                op.in_place.add(output=output, input=position)

    def _root(self, name: str) -> str:
        return self._roots.get(name, name)

    def _taken(self, i: int, inputs: Sequence[str], outputs: Sequence[str]) -> list[tuple[int, int]]:
        """The pairs of op number i that are in place, in order; its outputs are put where they then lie."""
        last_read, types = self._last_read, self._block.types
        pairs = [
            (output, position)
            for output, position in in_place_pairs(self._block.op_types[i])
            if (old := inputs[position]) and last_read[old] == i and types[outputs[output]] == types[old]
        ]
        pairs.sort(key=lambda pair: not self._owners.is_state(self._root(inputs[pair[1]])))
        taken: list[tuple[int, int]] = []
        for output, position in pairs:
            new, root = outputs[output], self._root(inputs[position])
            alone = [self._root(name) for name in inputs if name].count(root) == 1
            free = all(output != one and position != other for one, other in taken)
            if alone and free and self._owners.allow(root, new, lasts=last_read.get(new) == len(self._block.ops)):
                taken.append((output, position))
                self._roots[new] = root
        return sorted(taken)


class _Owners:
    """What may be written over memory outside the arena: nothing over a constant, nor over a state that stays."""

    def __init__(self, block: Written, views: Sequence[int]) -> None:
        begins: dict[str, str] = {}
        for i in views:
            x, y = block.inputs[i][0], block.outputs[i][0]
            begins[y] = begins.get(x, x)
        becomes = {update.state: begins.get(update.tensor, update.tensor) for update in block.desc.updates}
        state_of = {p.tensor: p.state for p in block.desc.parameters if p.WhichOneof("source") == "state"}
        self._becomes = {name: becomes.get(state) for name, state in state_of.items()}
        self._becomes |= dict.fromkeys(made_outside(block))

    def is_state(self, root: str) -> bool:
        """Whether it is a state that the block updates."""
        return self._becomes.get(root) is not None

    def allow(self, root: str, new: str, *, lasts: bool) -> bool:
        """Whether `new`, which the end of the step reads if it `lasts`, may be written there."""
        return root not in self._becomes or (self.is_state(root) and (self._becomes[root] == new or not lasts))


def _last_reads(block: Written, views: Sequence[int]) -> dict[str, int]:
    """The position of the last op that reads each tensor or a view of it; len(ops) is the end of the step."""
    last = {name: i for i, inputs in enumerate(block.inputs) for name in inputs}
    last |= dict.fromkeys(ends_of(block.desc), len(block.ops))
    for i in reversed(views):
        x, y = block.inputs[i][0], block.outputs[i][0]
        last[x] = max(last[x], last.get(y, -1))
    return last
