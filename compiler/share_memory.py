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

from typing import NamedTuple

from compiler.bound_blocks import bound_blocks
from prograd_proto import program_pb2 as pb
from prograd_proto import type_of
from runtime.memory import ends_of, in_place_pairs, is_view, spills


def share_memory(program: pb.ProgramDesc) -> None:
    """Mark every view and every output that may be written in place, in the blocks that run."""
    for block in bound_blocks(program):
        share_in_block(block)


def share_in_block(block: pb.BlockDesc) -> None:
    """Mark every view and every output of one block that may be written in place."""
    _Sharing(block).mark()


class _Value(NamedTuple):
    """The memory that a tensor lies in, and the position of the last op that reads this value of it."""

    root: str
    last_read: int


class _Sharing:
    """One walk over a block."""

    def __init__(self, block: pb.BlockDesc) -> None:
        self._block = block
        self._tensors = {tensor.name: tensor for tensor in block.tensors}
        self._last_read = _last_reads(block)
        self._owners = _Owners(block)
        self._values: dict[str, _Value] = {}

    def mark(self) -> None:
        for parameter in self._block.parameters:
            self._begin(parameter.tensor, -1)
        for i, op in enumerate(self._block.ops):
            del op.in_place[:]
            for name in op.outputs:
                self._begin(name, i)
            if is_view(op.type):
                op.in_place.add(output=0, input=0)
                self._values[op.outputs[0]] = self._values[op.inputs[0]]
            else:
                for output, position in self._taken(i, op):
                    op.in_place.add(output=output, input=position)

    def _begin(self, name: str, i: int) -> None:
        """Let a tensor lie in memory of its own, for now."""
        self._values[name] = _Value(name, self._last_read.get(name, i))

    def _taken(self, i: int, op: pb.OpDesc) -> list[tuple[int, int]]:
        """The pairs of op number i that are in place; its outputs are put where they then lie."""
        pairs = in_place_pairs(op.type)
        inputs, outputs, values = op.inputs[:] if pairs else [], op.outputs[:] if pairs else [], self._values
        pairs = [pair for pair in pairs if inputs[pair[1]] and values[inputs[pair[1]]].last_read == i]
        if len(pairs) > 1:
            pairs.sort(key=lambda pair: not self._owners.is_state(values[inputs[pair[1]]].root))
        taken: list[tuple[int, int]] = []
        for output, position in pairs:
            old, new = inputs[position], outputs[output]
            if type_of(self._tensors[new]) != type_of(self._tensors[old]):
                continue
            root, last_read = values[old].root, values[new].last_read
            alone = [values[name].root for name in inputs if name].count(root) == 1
            free = all(output != one and position != other for one, other in taken)
            if alone and free and self._owners.allow(root, new, lasts=last_read == len(self._block.ops)):
                taken.append((output, position))
                values[new] = _Value(root, last_read)
        return sorted(taken)


class _Owners:
    """What may be written over memory outside the arena: nothing over a constant, nor over a state that stays."""

    def __init__(self, block: pb.BlockDesc) -> None:
        begins: dict[str, str] = {}
        for op in block.ops:
            if is_view(op.type):
                begins[op.outputs[0]] = begins.get(op.inputs[0], op.inputs[0])
        becomes = {update.state: begins.get(update.tensor, update.tensor) for update in block.updates}
        self._becomes = {p.tensor: becomes.get(p.state) for p in block.parameters if p.WhichOneof("source") == "state"}
        self._becomes |= {
            name: None for op in block.ops if op.type == "constant" or spills(op.type) for name in op.outputs
        }

    def is_state(self, root: str) -> bool:
        """Whether it is a state that the block updates."""
        return self._becomes.get(root) is not None

    def allow(self, root: str, new: str, *, lasts: bool) -> bool:
        """Whether `new`, which the end of the step reads if it `lasts`, may be written there."""
        return root not in self._becomes or (self.is_state(root) and (self._becomes[root] == new or not lasts))


def _last_reads(block: pb.BlockDesc) -> dict[str, int]:
    """The position of the last op that reads each tensor or a view of it; len(ops) is the end of the step."""
    last = {name: i for i, op in enumerate(block.ops) for name in op.inputs if name}
    last |= dict.fromkeys(ends_of(block), len(block.ops))
    for op in reversed(block.ops):
        if is_view(op.type):
            x, y = op.inputs[0], op.outputs[0]
            last[x] = max(last[x], last.get(y, -1))
    return last
