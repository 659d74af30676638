"""Pass: compute products of a scan that do not depend on its carries once, for all iterations together.

Before the scan:

1. A tensor of the body is derived from rows if it is a row, or if an op computes it from such tensors and shared ones.
   The op is pointwise, or multiplies a derived tensor by a shared matrix. It then has a form for all rows, in which the
   operands have a further first axis for the iterations.
2. Such products move before the scan, with the ops that compute their operands. Pointwise ops that read them move too,
   if their results are no larger. The scan reads the results row by row.

After the scan:

3. A carry that only adds up `outer_sum(a, b)`, as the gradient of a weight does, becomes an `outer_sum` of all rows of
   a and b after the scan. If one of the two is no row that the scan reads, the scan gives it as rows.
4. A carry that only adds up sums of such rows becomes one sum. A row of the result that multiplies a derived tensor by
   a shared matrix becomes one product of all rows.

Each product then has the rows of all iterations together, as in the recurrent operators. The sums of floats have
another order, so results may differ in their last bits from those of a program without this pass. Stacks of rows take
memory: a stack above `MAX_STACK_BYTES` is not made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from compiler.passes.eliminate_dead_ops import drop_dead_ops, order_tensors
from compiler.passes.new_tensors import add_tensor
from prograd_proto import TensorType
from prograd_proto import program_pb2 as pb
from prograd_proto.attributes import attribute_message
from prograd_proto.blocks import BlockAnalyses, BlockAnalysis
from prograd_proto.blocks.control import SCAN, layout_of
from prograd_proto.files import copy_of
from prograd_proto.tensor_types import tensor_desc
from runtime.step import effects_of
from runtime.step.arithmetic import is_pointwise

MAX_STACK_BYTES: Final = 1 << 28
"""Upper bound on the bytes of a stack of rows that this pass makes."""

IDENTITY: Final = pb.OpDesc(type="identity")
"""An op that gives a stack another name, which `simplify` removes."""


def batch_products(program: BlockAnalyses) -> None:
    """Make products of a scan that do not depend on its carries for all iterations at once; last bits may change."""
    for block in reversed(program.bound):  # outer ones come first
        if block.has_sub_blocks and _batch_in(block):
            drop_dead_ops(block, inside=True)


def _batch_in(block: BlockAnalysis) -> bool:
    ops: list[pb.OpDesc] = []
    next_id = 1 + max(block.ids)
    is_changed = False
    for i, op in enumerate(block.ops):
        scan = _Scan(block, i, next_id) if op.type == SCAN and block.kinds[i].attributes["length"] != (0,) else None
        if scan is None:
            ops.append(op)
            continue
        if not scan.counted:
            scan.batch_rows()
        scan.batch_sums()
        ops += [*scan.before, op, *scan.after]
        next_id += len(scan.before) + len(scan.after)
        order_tensors(scan.body)
        is_changed = is_changed or bool(scan.before or scan.after)
    if is_changed:
        copies = pb.BlockDesc(ops=ops)
        del block.desc.ops[:]
        block.desc.ops.extend(copies.ops)
        block.forget()
    return is_changed


class _Scan:
    """A scan that is edited.

    Attributes:
        before: new ops before it.
        after: new ops after it.
        made_before: tensors of the body that a batched op computes before the scan.
        stacks: tensors outside with the rows of a tensor of the body, by that tensor.
        shared: tensors outside by the tensors of the body that stand for them.
    """

    def __init__(self, block: BlockAnalysis, i: int, next_id: int) -> None:
        self.block, self.op, self.next_id = block, block.ops[i], next_id
        attributes: dict[str, Any] = block.kinds[i].attributes
        self.first, self.carries, self.rows = layout_of(SCAN, attributes)
        [self.length] = attributes["length"]
        self.counted = bool(attributes["counted"])
        self.before: list[pb.OpDesc] = []
        self.after: list[pb.OpDesc] = []
        self.body = block.sub_blocks(i)[0]
        self.types = dict(self.body.types)
        self.made_before: set[str] = set()
        self.stacks: dict[str, str] = {}
        self.shared: dict[str, str] = {"": ""}
        for name, number in self.body.arguments.items():
            if number >= self.carries:
                kind = self.stacks if number < self.carries + self.rows else self.shared
                kind[name] = self.op.inputs[self.first + number]

        self.invariant = {*self.shared}
        for j, inputs in enumerate(self.body.inputs):  # cheap ops, which are not hoisted
            op = self.body.ops[j]
            if self.invariant.issuperset(inputs) and not (op.random_stream or op.blocks) and len(op.outputs) == 1:
                self.invariant.update(self.body.outputs[j])

    def batch_rows(self) -> None:
        """Make products of rows before the scan, and let it read their rows."""
        body = self.body
        chosen = self._chosen()
        if not chosen:
            return
        read = {x for j, inputs in enumerate(body.inputs) if j not in chosen for x in inputs} | {*body.ends}
        rows: list[str] = []
        for j in chosen:
            [name] = body.outputs[j]
            rank = len(self.types[name].shape)
            inputs = [self._operand(x, rank) for x in body.inputs[j]]
            op = body.ops[j]
            self.stacks[name] = self._new(self.before, op, inputs, self._stacked(name), name)
            self.made_before.add(name)
            if name in read:
                rows.append(name)
        body.keep_ops([j not in chosen for j in range(len(body.ops))])
        self._read_rows(rows)

    def batch_sums(self) -> None:
        """Make sums of products after the scan, and products that only its results need."""
        for k in range(self.carries, len(self.body.desc.results)):
            self.stacks.setdefault(self.body.desc.results[k], self.op.outputs[k])
        done = [self._sum_after(j, "outer_sum") for j in range(self.carries)]
        for j in range(self.carries):
            if not done[j]:
                self._sum_after(j, "outer_sum", "sum")
        for k in range(self.carries, len(self.body.desc.results)):
            self._product_after(k)

    def _chosen(self) -> list[int]:
        """Return the ops that move before the scan: products of rows, the ops before them, and small ops after them."""
        body, batched = self.body, list[int]()
        known = {*self.stacks, *self.invariant}
        of_rows = {*self.stacks}
        for j, inputs in enumerate(body.inputs):
            if known.issuperset(inputs) and not of_rows.isdisjoint(inputs) and self._has_form(j, of_rows):
                batched.append(j)
                known.update(body.outputs[j])
                of_rows.update(body.outputs[j])
        products = set[str]()
        chosen, needed = set[int](), set[str]()
        for j in batched:
            is_product = body.op_types[j] == "matmul"
            size = self.types[body.outputs[j][0]].nbytes
            if is_product or any(x in products and size <= self.types[x].nbytes for x in body.inputs[j]):
                products.update(body.outputs[j])
                chosen.add(j)
                needed.update(body.inputs[j])
        for j in reversed(batched):
            if j not in chosen and not needed.isdisjoint(body.outputs[j]):
                chosen.add(j)
                needed.update(body.inputs[j])
        return sorted(chosen)

    def _has_form(self, j: int, of_rows: set[str]) -> bool:
        """Return True if an op can be made for all rows at once."""
        body, [name] = self.body, self.body.outputs[j][:1]
        if body.ops[j].random_stream or effects_of(body.op_types[j]) or len(body.outputs[j]) != 1:
            return False
        attributes: dict[str, Any] = body.kinds[j].attributes
        if self._stacked(name).nbytes > MAX_STACK_BYTES or body.blocks[j]:
            return False
        if body.op_types[j] == "matmul":
            a, b = body.inputs[j]
            return (
                a in of_rows and b in self.invariant and len(self.types[b].shape) == 2 and not attributes["transpose_a"]
            )
        return is_pointwise(body.op_types[j]) and not any(isinstance(value, tuple) for value in attributes.values())

    def _outside(self, name: str) -> str:
        """Return the tensor before the scan that has the value of a tensor that is equal in all iterations."""
        if name not in self.shared:
            body = self.body
            op = body.ops[body.use_def.makers[name]]
            made = [self._outside(x) for x in op.inputs]
            self.shared[name] = self._new(self.before, op, made, self.types[name], name)
        return self.shared[name]

    def _operand(self, name: str, rank: int) -> str:
        """Return the tensor outside that a batched op reads; rows of lower rank get axes of one element."""
        if not name or name in self.invariant:
            return self._outside(name)
        type, stack = self.types[name], self.stacks[name]
        if len(type.shape) == rank:
            return stack
        shape = (self.length, *[1] * (rank - len(type.shape)), *type.shape)
        attribute = attribute_message("shape", "shape", shape)
        reshape = pb.OpDesc(type="reshape", attributes=[attribute], location=self.op.location)
        return self._new(self.before, reshape, [stack], TensorType(type.dtype, shape), name)

    def _sum_after(self, j: int, *kinds: str) -> bool:
        """Compute a carry that only adds up results of these kinds of ops after the scan; return True if it is one."""
        body, result = self.body, self.body.desc.results[j]
        own = next((name for name, number in body.arguments.items() if number == j), None)
        makers, counts = body.use_def.makers, self._reads()
        if own is None or counts[own] != 1 or counts[result] != 1 or result not in makers:
            return False
        add = makers[result]
        if body.op_types[add] != "add" or own not in body.inputs[add]:
            return False
        part = next((x for x in body.inputs[add] if x != own), own)
        parts = self._added(part, kinds, counts)
        if not parts or any(self.types[body.outputs[k][0]] != self.types[own] for k in parts):
            return False
        if not all(self._are_stacked(k) for k in parts):
            return False
        total = self.op.inputs[self.first + j]
        for k in parts:
            made = self._of_all_rows(k)
            plus = pb.OpDesc(type="add", location=self.op.location)
            total = self._new(self.after, plus, [total, made], self.types[own], result)
        self._becomes(j, total)
        body.desc.results[j] = own
        body.ends_edited()
        return True

    def _added(self, name: str, kinds: Sequence[str], counts: dict[str, int]) -> list[int]:
        """Return the ops of these kinds that a tensor adds up, if nothing else reads them; [] for any other tensor."""
        body, makers = self.body, self.body.use_def.makers
        if name not in makers or counts[name] != 1:
            return []
        k = makers[name]
        if body.op_types[k] in kinds:
            return [k]
        if body.op_types[k] != "add":
            return []
        one, other = (self._added(x, kinds, counts) for x in body.inputs[k])
        return [*one, *other] if one and other else []

    def _are_stacked(self, k: int) -> bool:
        """Return True if there are stacks of the operands of an op; for a product, one stack may be made."""
        inputs = self.body.inputs[k]
        if self.body.op_types[k] == "sum":
            return inputs[0] in self.stacks and not self.body.kinds[k].attributes["keepdims"]
        return len({x for x in inputs if x not in self.stacks}) <= 1 and all(map(self._is_stacked, inputs))

    def _of_all_rows(self, k: int) -> str:
        """Append an `outer_sum` or a `sum` of all rows after the scan, and return its result."""
        body, op = self.body, pb.OpDesc()
        op.CopyFrom(body.ops[k])
        [result] = body.outputs[k]
        if op.type == "sum":
            attributes: dict[str, Any] = body.kinds[k].attributes
            rank = len(self.types[body.inputs[k][0]].shape)
            axes = sorted({axis % rank for axis in attributes["axes"]}) or [*range(rank)]
            del op.attributes[:]
            op.attributes.append(attribute_message("axes", "ints", (0, *(axis + 1 for axis in axes))))
            op.attributes.append(attribute_message("keepdims", "bool", False))
        return self._new(self.after, op, [self.stacks[x] for x in body.inputs[k]], self.types[result], result)

    def _product_after(self, k: int) -> None:
        """Let rows of the result that are products with a shared matrix be made after the scan."""
        body, result = self.body, self.body.desc.results[k]
        makers = body.use_def.makers
        if self.counted:
            return
        if result in self.made_before:  # a row that the scan would only copy
            self._becomes(k, self._new(self.after, IDENTITY, [self.stacks[result]], self._stacked(result), result))
            return
        if self._reads()[result] != 1 or result not in makers:
            return
        j = makers[result]
        if body.op_types[j] != "matmul":
            return
        a, b = body.inputs[j]
        attributes: dict[str, Any] = body.kinds[j].attributes
        fits = b in self.invariant and len(self.types[b].shape) == 2 and not attributes["transpose_a"]
        if not fits or self.types[a].nbytes > self.types[result].nbytes or not self._is_stacked(a):
            return
        inputs = [self.stacks[a], self._outside(b)]
        made = self._new(self.after, body.ops[j], inputs, self._stacked(result), result)
        self._becomes(k, made)

    def _is_stacked(self, name: str) -> bool:
        """Add a tensor to the rows that the scan returns, unless the scan reads them.

        Return False if they are too large.
        """
        if name in self.stacks:
            return True
        if name not in self.body.use_def.makers or self._stacked(name).nbytes > MAX_STACK_BYTES:
            return False
        self.stacks[name] = self._described(name, self._stacked(name))
        self.body.desc.results.append(name)
        self.body.ends_edited()
        self.op.outputs.append(self.stacks[name])
        return True

    def _becomes(self, k: int, made: str) -> None:
        """Rename output k of the scan, and give its former name to a new tensor."""
        name = self.op.outputs[k]
        old = self._described(name, self.block.types[name])
        self.op.outputs[k] = old
        self.after[-1].outputs[0] = name
        tensors = self.block.desc.tensors
        kept = [tensor for tensor in tensors if tensor.name != made]
        self._replace_tensors(kept)

    def _replace_tensors(self, kept: Sequence[pb.TensorDesc]) -> None:
        now = pb.BlockDesc(tensors=kept)
        del self.block.desc.tensors[:]
        self.block.desc.tensors.extend(now.tensors)

    def _read_rows(self, names: Sequence[str]) -> None:
        """Let the scan read the stacks of these tensors row by row: arguments behind its other rows."""
        behind = self.carries + self.rows
        for parameter in self.body.desc.parameters:
            if parameter.argument >= behind:
                parameter.argument += len(names)
        for k, name in enumerate(names):
            self.body.desc.parameters.add(tensor=name, argument=behind + k)
            self.op.inputs.insert(self.first + behind + k, self.stacks[name])
        for attribute in self.op.attributes:
            if attribute.name == "rows":
                attribute.int_value += len(names)
        self.rows += len(names)
        self.body.forget()

    def _reads(self) -> dict[str, int]:
        """Return how often the body reads each tensor.

        Ops whose results are now made after the scan count too: ops there read the stacks of their operands, so these
        stacks must come from the scan.
        """
        counts = dict.fromkeys(self.types, 0)
        for inputs in self.body.inputs:
            for name in inputs:
                if name:
                    counts[name] += 1
        for name in self.body.desc.results:
            counts[name] += 1
        return counts

    def _stacked(self, name: str) -> TensorType:
        type = self.types[name]
        return TensorType(type.dtype, (self.length, *type.shape))

    def _new(self, ops: list[pb.OpDesc], like: pb.OpDesc, inputs: Sequence[str], type: TensorType, name: str) -> str:
        """Append an op like another one with these operands; return its result."""
        made = copy_of(like)
        made.id = self.next_id + len(self.before) + len(self.after)
        made.stage, made.gradient_of = self.op.stage, self.op.gradient_of
        made.inputs[:] = inputs
        made.outputs[:] = [self._described(name, type)]
        ops.append(made)
        return made.outputs[0]

    def _described(self, name: str, type: TensorType) -> str:
        """Describe a new tensor of the block around, and return its name."""
        return add_tensor(self.block.desc, tensor_desc(name, type))
