"""Pass.

Let the gradient of a loop recompute, from the carries, the values that the loop would store for each iteration.

A loop with `save="all"` gives the tensors that its gradient reads as stacks of rows. `plan` sets the option `enabled`
if a budget is not met otherwise; then this pass gives such a program the memory of `save="carries"`, with equal bits:

1. A scan that reads outputs of an earlier loop row by row, in as many rows, may compute these rows itself: from the
   carries before the iteration, the rows and the shared tensors that the loop reads.
2. That is done for all stacks that nothing else reads, if they have more bytes than the stacks of carries that the
   loop gives instead.
3. The ops that lead to these tensors are copied to the front of the scan's body, with copies of the blocks inside them.
   Random ops draw the same numbers again. The outputs that nothing reads any more are removed from the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compiler.passes.eliminate_dead_ops import drop_dead_ops, order_tensors
from compiler.passes.new_tensors import add_tensor
from prograd_proto import TensorType
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalyses, BlockAnalysis
from prograd_proto.blocks.control import SCAN, WHILE, layout_of
from prograd_proto.files import copy_of
from prograd_proto.tensor_types import tensor_desc


def recompute_in_loops(program: BlockAnalyses, *, enabled: bool = False) -> None:
    """Recompute the values that a loop would store in its gradient, with equal bits; no effect by default.

    Args:
        program: its blocks that run are edited.
        enabled: True to do so for all loops that store fewer bytes then.
    """
    for block in program.bound if enabled else ():
        changed = [_recompute(program, block, g) for g in range(len(block.ops)) if block.blocks[g]]
        if any(changed):
            drop_dead_ops(block, inside=True)


def _recompute(program: BlockAnalyses, block: BlockAnalysis, g: int) -> bool:
    """Let op number g recompute the rows that it reads from earlier loops; return True if it does so now."""
    if block.op_types[g] != SCAN:
        return False
    makers = block.use_def.makers
    loops = dict.fromkeys(makers[x] for x in block.ops[g].inputs if x in makers and block.blocks[makers[x]])
    changed = [_Pair(program, block, f, g).recompute() for f in loops if block.op_types[f] in (SCAN, WHILE)]
    return any(changed)


class _Pair:
    """A loop and a scan that reads its rows.

    Attributes:
        loop: the op that stores.
        scan: the op that reads.
        of_loop, of_scan: the positions of their operands.
        offset: 1 if an output of the loop, the number of trips, stands between its carries and its rows.
        length: the rows of the loop, or their bound.
        is_aligned: True if row i of the scan belongs to iteration i of the loop.
    """

    def __init__(self, program: BlockAnalyses, block: BlockAnalysis, f: int, g: int) -> None:
        self.program, self.block = program, block
        self.loop, self.scan = block.ops[f], block.ops[g]
        self.body, self.inner = block.sub_blocks(f)[-1], block.sub_blocks(g)[0]
        attributes: dict[str, Any] = block.kinds[f].attributes
        own: dict[str, Any] = block.kinds[g].attributes
        self.of_loop, self.of_scan = layout_of(self.loop.type, attributes), layout_of(SCAN, own)
        self.offset = int(self.loop.type == WHILE)
        self.length = attributes["max_trips"] if self.offset else attributes["length"][0]
        trips = self.loop.outputs[self.of_loop.carries] if self.offset else self.loop.inputs[0]
        makes_fewer = self.offset or self.of_loop.first  # rows behind the trips are zeros, which nothing may compute
        has_same_trips = bool(self.of_scan.first) and self.scan.inputs[0] == trips
        self.is_aligned = own["length"] == (self.length,) and (has_same_trips or not makes_fewer)

    def recompute(self) -> bool:
        """Edit both ops if the stacks take fewer bytes then."""
        stacks = self._stacks() if self.is_aligned else {}
        ops = self._ops([*stacks])
        if not stacks:
            return False
        read = {x for k in ops for x in self.body.inputs[k]} | {*stacks}
        arguments = {x: n for x, n in self.body.arguments.items() if x in read}
        carried = [x for x, n in arguments.items() if n < self.of_loop.carries]
        more = [x for x in carried if x not in self.body.desc.results[self.of_loop.carries :]]
        if sum(self._stacked(x).nbytes for x in more) >= sum(self._stacked(x).nbytes for x in stacks):
            return False
        self._copy(ops, stacks, self._given(arguments))
        self.block.forget()
        return True

    def _stacks(self) -> dict[str, str]:
        """Return the results that only the scan reads as rows, with the tensors that stand for them there."""
        block, (first, carries, rows) = self.block, self.of_scan
        reads = [x for inputs in block.inputs for x in inputs] + block.ends
        found: dict[str, str] = {}
        by_number = {n: name for name, n in self.inner.arguments.items()}
        for n in range(carries, carries + rows):
            name = self.scan.inputs[first + n]
            outputs = [*self.loop.outputs]
            if name in outputs[self.of_loop.carries + self.offset :] and reads.count(name) == 1 and n in by_number:
                result = self.body.desc.results[outputs.index(name) - self.offset]
                if result in self.body.use_def.makers and result not in found:
                    found[result] = by_number[n]
        return found

    def _ops(self, results: Sequence[str]) -> list[int]:
        """Return the ops that lead to these results of the loop's body."""
        needed, found = {*results}, list[int]()
        for k in reversed(range(len(self.body.ops))):
            if not needed.isdisjoint(self.body.outputs[k]):
                needed.update(self.body.inputs[k])
                found.append(k)
        return found[::-1]

    def _given(self, arguments: dict[str, int]) -> dict[str, str]:
        """Pass these arguments of the loop's body to the scan; return the tensors that stand for them."""
        given: dict[str, str] = {}
        first, carries, count = self.of_loop
        rows = [
            (name, self._stack_of(name) if n < carries else self.loop.inputs[first + n])
            for name, n in arguments.items()
            if n < carries + count
        ]
        shared = [(name, self.loop.inputs[first + n]) for name, n in arguments.items() if n >= carries + count]
        behind = sum(self.of_scan[1:])
        for parameter in self.inner.desc.parameters:
            if parameter.argument >= behind:
                parameter.argument += len(rows)
        for k, (name, outside) in enumerate(rows):
            given[name] = self._argument(name, behind + k)
            self.scan.inputs.insert(self.of_scan.first + behind + k, outside)
        for name, outside in shared:
            given[name] = self._argument(name, len(self.scan.inputs) - self.of_scan.first)
            self.scan.inputs.append(outside)
        for attribute in self.scan.attributes:
            if attribute.name == "rows":
                attribute.int_value += len(rows)
        return given

    def _stack_of(self, name: str) -> str:
        """Return the rows of a carry before each iteration; add them to the outputs of the loop if necessary."""
        results = self.body.desc.results
        for k in range(self.of_loop.carries, len(results)):
            if results[k] == name:
                return self.loop.outputs[k + self.offset]
        results.append(name)
        self.body.ends_edited()
        saved = add_tensor(self.block.desc, tensor_desc(f"{name}.saved", self._stacked(name)))
        self.loop.outputs.append(saved)
        return saved

    def _argument(self, name: str, number: int) -> str:
        free = self._defined(name, self.body.types[name])
        self.inner.desc.parameters.add(tensor=free, argument=number)
        return free

    def _defined(self, name: str, type: TensorType) -> str:
        return add_tensor(self.inner.desc, tensor_desc(name, type))

    def _copy(self, ops: Sequence[int], stacks: dict[str, str], given: dict[str, str]) -> None:
        """Put copies of ops before those of the scan's body; their results take the place of rows."""
        inner, names = self.inner, {"": "", **given, **stacks}
        next_id = 1 + max(inner.ids, default=0)
        made = list[pb.OpDesc]()
        for k in ops:
            copy = copy_of(self.body.ops[k])
            copy.id, copy.stage, copy.gradient_of = next_id + len(made), pb.STAGE_FORWARD, 0
            copy.inputs[:] = [names[x] for x in self.body.inputs[k]]
            copy.blocks[:] = [self._copied(number) for number in copy.blocks]
            for n, name in enumerate(self.body.outputs[k]):
                names[name] = copy.outputs[n] = names.get(name) or self._defined(name, self.body.types[name])
            made.append(copy)
        gone = {*stacks.values()}
        parameters = [p for p in inner.desc.parameters if p.tensor not in gone]
        now = pb.BlockDesc(ops=[*made, *inner.desc.ops], parameters=parameters)
        del inner.desc.ops[:], inner.desc.parameters[:]
        inner.desc.ops.extend(now.ops)
        inner.desc.parameters.extend(now.parameters)
        inner.forget()
        order_tensors(inner)

    def _copied(self, number: int) -> int:
        """Return the number of a copy of a block inside an op, and of the blocks inside it."""
        blocks = self.program.desc.blocks
        copy = blocks.add()
        copy.CopyFrom(blocks[number])
        own = len(blocks) - 1
        for op in copy.ops:
            op.blocks[:] = [self._copied(inner) for inner in op.blocks]
        return own

    def _stacked(self, name: str) -> TensorType:
        type = self.body.types[name]
        return TensorType(type.dtype, (self.length, *type.shape))
