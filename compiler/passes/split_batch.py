"""Pass: cut the batch of a training step into shards, which are computed one after another.

1. `over_shards` marks what the shards of a batch have in common. The ops before a mark that depend on the rows of the
   batch are copied for each shard, with the types of its rows; a feed's rows are a slice. All other ops stay as they
   are, once.
2. The largest binding determines the rows of a shard. A smaller step has full shards, and one shard of the rows that
   are left.
3. The values of a mark are added in a balanced binary tree over the shards; shards without rows are left out. Two
   sums are added as soon as both exist, so of K shards 1 + log2(K) sums are live.
4. A mean is the sum, divided by the shards; if they differ in rows, their values are multiplied by their rows, and the
   sum is divided by all rows. A mean with a weight is the sum of products over the sum of weights, 0 where that is 0.
5. Random numbers are drawn for the whole batch, and a shard takes its rows of them. Dropout of x becomes x times a
   dropout of ones. So the numbers of a batch are the same with and without shards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from compiler.analyses.rows_of_batch import MARK, of_rows
from compiler.build.last_batch import row_symbol
from compiler.errors import CompileError
from compiler.passes.bind_dimensions import bind_block
from prograd_proto import TensorType, attributes_of, type_of
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalyses
from prograd_proto.files import copy_of
from registry import Block, Value, ops
from registry.ops.fill import full_like


def split_batch(program: BlockAnalyses) -> None:
    """Cut the batch of each step with `over_shards` into its shards.

    Raises CompileError if the rows do not divide into the shards, or if a random op has no rows on its first axis.
    """
    desc = program.desc
    rows, edited = row_symbol(desc), False
    for entry in desc.entries:
        marks = [op for op in desc.blocks[entry.source_block].ops if op.type == MARK]
        if not marks or rows is None:
            continue
        shards = int(attributes_of(marks[0])["shards"])  # pyright: ignore[reportArgumentType]: the schema says int
        counts = [{dim.symbol: dim.size for dim in binding.dims} for binding in entry.bindings]
        most = max((sizes[rows] for sizes in counts), default=0)
        if most % shards:
            raise CompileError(f"shards={shards}: {rows}={most} rows do not divide into {shards} shards of equal size")
        for binding, sizes in zip(entry.bindings, counts, strict=True):
            each, left = most // shards, sizes[rows] % (most // shards)
            parts = [each] * (sizes[rows] // each) + [left] * (left > 0)
            _Split(desc, entry, desc.blocks[binding.block], rows, sizes, parts).split()
            edited = True
    if edited:
        program.put({})


@dataclass
class _Sums:
    """Sums of subtrees, the largest first: each has the number of its leaves."""

    parts: list[tuple[int, Value]] = field(default_factory=list[tuple[int, Value]])
    leaves: int = 0

    def add(self, value: Value) -> None:
        self.parts.append((1, value))
        self.leaves += 1
        while len(self.parts) > 1 and self.parts[-1][0] == self.parts[-2][0]:
            self._join()

    def total(self) -> Value:
        while len(self.parts) > 1:
            self._join()
        return self.parts[0][1]

    def _join(self) -> None:
        (right_leaves, right), (left_leaves, left) = self.parts.pop(), self.parts.pop()
        stop = self.leaves
        middle = stop - right_leaves
        joined = ops.join_shards(left, right, first=middle - left_leaves, middle=middle, stop=stop)
        self.parts.append((left_leaves + right_leaves, joined))


class _Split:
    """The edit of one bound block.

    Args:
        program: the program.
        entry: the entry of the block.
        bound: the block, which is replaced by that of the shards.
        rows: symbol of the number of rows.
        sizes: sizes of the binding.
        parts: rows of each shard.
    """

    def __init__(
        self,
        program: pb.ProgramDesc,
        entry: pb.EntryDesc,
        bound: pb.BlockDesc,
        rows: str,
        sizes: Mapping[str, int],
        parts: Sequence[int],
    ) -> None:
        self._program, self._entry, self._rows, self._parts = program, entry, rows, parts
        self._sizes, self._bound, self._target = sizes, bound, bound
        self._source = program.blocks[entry.source_block]
        self._of_rows = of_rows(self._source, program.blocks, rows)
        self._source_types = {tensor.name: type_of(tensor) for tensor in self._source.tensors}
        self._built = {op.id: op for op in self._source.ops}
        self._sums: dict[tuple[str, str], _Sums] = {}

    def split(self) -> None:
        """Replace the bound block by that of its shards."""
        before = copy_of(self._bound)
        target = self._target
        del target.ops[:]
        kept = [t for t in before.tensors if t.name not in self._of_rows or self._is_parameter(before, t.name)]
        del target.tensors[:]
        target.tensors.extend(kept)
        self._block = Block(target)
        self._block.next_id = 1 + max((op.id for op in before.ops), default=0)
        self._described = {tensor.name: tensor for tensor in before.tensors}
        self._fed = {p.tensor for p in before.parameters if p.tensor in self._of_rows}
        own = [op for op in before.ops if op.type != MARK and not self._of_rows.isdisjoint(op.outputs)]
        marks = [op for op in before.ops if op.type == MARK]
        own_ids = {id(op) for op in own}
        shared = [op for op in before.ops if op.type != MARK and id(op) not in own_ids]
        after = self._after(shared, marks)
        target.ops.extend(op for op in shared if op.id not in after)
        drawn = self._draw([op for op in own if op.random_stream and self._has_rows(op)])
        first = 0
        for number, count in enumerate(self._parts):
            names = self._shard(own, drawn, number, first, count)
            self._add(marks, names, count)
            first += count
        totals = {mark.outputs[0]: self._total(mark) for mark in marks}
        for op in shared:
            if op.id in after:
                target.ops.append(op)
                target.ops[-1].inputs[:] = [totals.get(name, name) for name in op.inputs]
        self._replace_marks(totals)
        self._unlink()

    def _replace_marks(self, totals: Mapping[str, str]) -> None:
        """Let updates and fetches read the tensors that replace the marks, and drop the marks' own tensors."""
        target = self._target
        for ends in (target.updates, target.fetches):
            for end in ends:
                end.tensor = totals.get(end.tensor, end.tensor)
        kept = [tensor for tensor in target.tensors if tensor.name not in totals]
        del target.tensors[:]
        target.tensors.extend(kept)

    def _unlink(self) -> None:
        """Drop links of gradients to tensors and ops that only shards have."""
        target = self._target
        names, ids = {tensor.name for tensor in target.tensors}, {op.id for op in target.ops}
        for tensor in target.tensors:
            tensor.gradient_of = tensor.gradient_of if tensor.gradient_of in names else ""
        for op in target.ops:
            op.gradient_of = op.gradient_of if op.gradient_of in ids else 0

    def _is_parameter(self, block: pb.BlockDesc, name: str) -> bool:
        return any(parameter.tensor == name for parameter in block.parameters)

    def _after(self, shared: Sequence[pb.OpDesc], marks: Sequence[pb.OpDesc]) -> set[int]:
        """Return the ids of the ops that need a mark, or an op that does."""
        reached = {mark.outputs[0] for mark in marks}
        found: set[int] = set()
        for op in shared:
            if not reached.isdisjoint(op.inputs):
                reached.update(op.outputs)
                found.add(op.id)
        return found

    def _has_rows(self, op: pb.OpDesc) -> bool:
        """Return True if a random op draws for each row; raise CompileError if not for rows on the first axis."""
        shape = self._source_types[op.outputs[0]].shape
        if self._rows not in shape:
            return False
        inputs = [name for name in op.inputs if name in self._of_rows]
        if shape[0] != self._rows or (inputs and op.type != "dropout"):
            raise CompileError(
                f"entry {self._entry.name!r}: {op.type} draws {self._source_types[op.outputs[0]]}; in a step with "
                "shards, dropout and random tensors have the rows of the batch on their first axis, and no other op "
                "draws for rows"
            )
        return True

    def _draw(self, drawing: Sequence[pb.OpDesc]) -> dict[str, Value]:
        """Draw the random numbers of the whole batch; return them by the tensor that each op makes."""
        drawn: dict[str, Value] = {}
        block = self._block
        for op in drawing:
            stem, type = op.outputs[0], type_of(self._described[op.outputs[0]])
            copy = copy_of(op)
            if op.type == "dropout":
                with block.on_behalf_of(stage=op.stage):
                    copy.inputs[0] = full_like(Value(block, stem, type), 1.0).name
            copy.id, block.next_id = block.next_id, block.next_id + 1
            copy.gradient_of = 0
            made = self._define(f"{stem}.drawn", type)
            copy.outputs[:] = [made.name]
            self._target.ops.append(copy)
            drawn[stem] = made
        return drawn

    def _define(self, name: str, type: TensorType) -> Value:
        while name in self._block.types:
            name += "_"
        return self._block.define(name, type)

    def _shard(
        self, own: Sequence[pb.OpDesc], drawn: Mapping[str, Value], number: int, first: int, count: int
    ) -> dict[str, str]:
        """Append the ops of a shard; return the name there of each tensor that depends on rows."""
        block, sizes = self._block, {**self._sizes, self._rows: count}
        names: dict[str, str] = {}
        ids: dict[int, int] = {}
        with block.on_behalf_of(stage=pb.STAGE_FORWARD):
            for name in self._fed:
                names[name] = self._rows_of(block.value(name), first, count).name
        for op in own:
            if op.outputs[0] in drawn:
                with block.on_behalf_of(stage=op.stage):
                    part = self._rows_of(drawn[op.outputs[0]], first, count)
                    if op.type == "dropout":
                        part = block.value(names.get(op.inputs[0], op.inputs[0])) * part
                names[op.outputs[0]] = part.name
                ids[op.id] = block.desc.ops[-1].id
                continue
            for name in op.outputs:
                made = self._define(f"{name}.shard{number}", self._source_types[name].bound(sizes))
                names[name] = made.name
                of = self._described[name].gradient_of
                block.tensors[made.name].gradient_of = names.get(of, of)
                block.tensors[made.name].lifespan = self._described[name].lifespan
            copy = block.desc.ops.add()
            copy.CopyFrom(op)
            copy.id = ids[op.id] = block.next_id
            block.next_id += 1
            copy.gradient_of = ids.get(op.gradient_of, op.gradient_of)
            copy.inputs[:] = [names.get(name, name) for name in op.inputs]
            copy.outputs[:] = [names[name] for name in op.outputs]
            bind_block(copy, self._built[op.id], self._program, sizes, self._entry.name)
        return names

    def _rows_of(self, x: Value, first: int, count: int) -> Value:
        return ops.slice(x, axis=(0,), starts=(first,), stops=(first + count,), strides=(1,))

    def _add(self, marks: Sequence[pb.OpDesc], names: Mapping[str, str], count: int) -> None:
        """Append the sums that a shard completes."""
        block, unequal = self._block, len(set(self._parts)) > 1
        with block.on_behalf_of(stage=pb.STAGE_UPDATE):
            for mark in marks:
                x = block.value(names.get(mark.inputs[0], mark.inputs[0]))
                weight = mark.inputs[1] if len(mark.inputs) > 1 else ""
                if weight:
                    counted = block.value(names.get(weight, weight))
                    counted = ops.cast(counted, dtype=x.dtype)
                    x = ops.where(ops.equal(counted, 0.0), 0.0, x * counted)
                    self._sum(mark, "weights").add(counted)
                elif attributes_of(mark)["mean"] and unequal:
                    x = x * float(count)
                self._sum(mark, "values").add(x)

    def _sum(self, mark: pb.OpDesc, what: str) -> _Sums:
        return self._sums.setdefault((mark.outputs[0], what), _Sums())

    def _total(self, mark: pb.OpDesc) -> str:
        """Append the last additions of a mark, and the division of a mean; return the tensor that replaces the mark."""
        with self._block.on_behalf_of(stage=pb.STAGE_UPDATE):
            total = self._sum(mark, "values").total()
            if (mark.outputs[0], "weights") in self._sums:
                weight = self._sum(mark, "weights").total()
                total = total / ops.where(ops.equal(weight, 0.0), 1.0, weight)
            elif attributes_of(mark)["mean"] and len(self._parts) > 1:
                unequal = len(set(self._parts)) > 1
                total = total / float(sum(self._parts) if unequal else len(self._parts))
        return total.name
