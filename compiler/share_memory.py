"""Pass: let tensors share memory where that changes no value.

1. An op whose kernel makes a view lies in the memory of its operand, whatever else reads either.
2. Any other op writes an output over an operand if the kernel allows that pair, the types are equal, the operand is
   neither a constant nor in the same memory as another operand, and nothing reads its value or a view of it
   afterwards: no later op, no fetch, no update. Over a state, only the output that becomes its value is written.
3. Both are written into the op. Where an update is not in place the runtime copies at the end of the step.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from compiler.bound_blocks import bound_blocks
from prograd_proto import program_pb2 as pb
from prograd_proto import type_of
from runtime.memory import ends_of, in_place_pairs, is_view


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


@dataclass
class _Sharing:
    """One walk over a block."""

    block: pb.BlockDesc
    values: dict[str, _Value] = field(default_factory=dict[str, _Value])

    def mark(self) -> None:
        last_read = _last_reads(self.block)
        tensors = {tensor.name: tensor for tensor in self.block.tensors}
        for parameter in self.block.parameters:
            self.values[parameter.tensor] = _Value(parameter.tensor, last_read.get(parameter.tensor, -1))
        owners = _Owners(self.block)
        for i, op in enumerate(self.block.ops):
            del op.in_place[:]
            outputs = op.outputs[:]
            for name in outputs:
                self.values[name] = _Value(name, last_read.get(name, i))
            if is_view(op.type):
                op.in_place.add(output=0, input=0)
                self.values[outputs[0]] = self.values[op.inputs[0]]
                continue
            pairs = in_place_pairs(op.type)
            inputs = op.inputs[:] if pairs else []
            taken: list[tuple[int, int]] = []
            for output, position in pairs:
                old, new = inputs[position], outputs[output]
                if not old or self.values[old].last_read != i or type_of(tensors[new]) != type_of(tensors[old]):
                    continue
                root = self.values[old].root
                alone = [self.values[name].root for name in inputs if name].count(root) == 1
                free = all(output != one and position != other for one, other in taken)
                if alone and free and owners.allow(root, new):
                    taken.append((output, position))
                    op.in_place.add(output=output, input=position)
                    self.values[new] = _Value(root, self.values[new].last_read)


class _Owners:
    """What may be written over memory outside the arena: a state's update over the state, nothing over a constant."""

    def __init__(self, block: pb.BlockDesc) -> None:
        becomes = {update.state: update.tensor for update in block.updates}
        self._only = {p.tensor: becomes.get(p.state) for p in block.parameters if p.WhichOneof("source") == "state"}
        self._only |= {name: None for op in block.ops if op.type == "constant" for name in op.outputs}

    def allow(self, root: str, new: str) -> bool:
        """Whether `new` may be written there."""
        return root not in self._only or self._only[root] == new


def _last_reads(block: pb.BlockDesc) -> dict[str, int]:
    """The position of the last op that reads each tensor or a view of it; len(ops) is the end of the step."""
    last = {name: i for i, op in enumerate(block.ops) for name in op.inputs if name}
    last |= dict.fromkeys(ends_of(block), len(block.ops))
    for op in reversed(block.ops):
        if is_view(op.type):
            x, y = op.inputs[0], op.outputs[0]
            last[x] = max(last[x], last.get(y, -1))
    return last
