"""The oracle of the in-place law: memory as cells that are written and read one op after the other.

A cell knows which tensors' values it holds. Whoever reads a tensor must find it in its cell, and an op must be done
with reading a cell before it writes there. Nothing is asked of last reads, of classes or of versions.
"""

from __future__ import annotations

from collections.abc import Sequence

from prograd_proto import program_pb2 as pb
from runtime.engines.reference.kernels import KERNELS
from runtime.operators import CONTRACTS


def keeps_every_value(
    block: pb.BlockDesc, in_place: Sequence[Sequence[tuple[int, int]]], order: Sequence[int] = ()
) -> bool:
    """Return True if every op of a well-formed block, and the end of the step, finds the values that it reads.

    `in_place` has for each op the pairs (output, input) that share memory; the ops run in `order`, or else as listed.
    """
    memory = _Memory(block)
    return all(memory.run(block.ops[i], in_place[i]) for i in order or range(len(block.ops))) and memory.end()


class _Memory:
    def __init__(self, block: pb.BlockDesc) -> None:
        self.block = block
        self.bytes_of = {t.name: (t.dtype, t.shape.SerializeToString()) for t in block.tensors}
        self.cell_of = {p.tensor: p.tensor for p in block.parameters}
        self.held = {p.tensor: {p.tensor} for p in block.parameters}
        updated = {update.state for update in block.updates}
        self.read_only = {p.tensor for p in block.parameters if p.state and p.state not in updated}

    def run(self, op: pb.OpDesc, pairs: Sequence[tuple[int, int]]) -> bool:
        reads = [name for name in op.inputs if name]
        found = all(self.finds(name) for name in reads)
        cells = [self.cell_of[name] for name in reads]
        for output, position in pairs if found else ():
            if (output, position) not in KERNELS[op.type].in_place:
                return False
            old, new = op.inputs[position], op.outputs[output]
            if not (self.view if CONTRACTS[op.type].view else self.write)(old, new, cells):
                return False
        for name in op.outputs:
            if name not in self.cell_of:
                self.cell_of[name], self.held[name] = name, {name}
                if op.type == "constant" or op.type == "spill":
                    self.read_only.add(name)
        return found

    def view(self, old: str, new: str, _: list[str]) -> bool:
        is_first = new not in self.cell_of
        self.cell_of[new] = self.cell_of[old]
        self.held[self.cell_of[old]].add(new)
        return is_first

    def write(self, old: str, new: str, cells: list[str]) -> bool:
        cell = self.cell_of[old]
        is_free = cell not in self.read_only and cells.count(cell) == 1
        is_first = new not in self.cell_of and self.finds(old)
        self.cell_of[new], self.held[cell] = cell, {new}
        return is_free and is_first and self.bytes_of[new] == self.bytes_of[old]

    def finds(self, name: str) -> bool:
        return name in self.held[self.cell_of[name]]

    def end(self) -> bool:
        ends = [*(fetch.tensor for fetch in self.block.fetches), *(update.tensor for update in self.block.updates)]
        return all(self.finds(name) for name in ends)
