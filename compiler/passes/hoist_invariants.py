"""Pass: compute values that are equal in all iterations of a loop once, before the loop.

1. Inner loops come first, so that an op may leave several loops, one after the other.
2. A tensor of a loop's blocks is invariant if it is a shared operand, a carry that each iteration leaves as it is, or
   the result of an op whose operands are all invariant. An op that draws random numbers or has an effect has no
   invariant result, nor has an op with such an op in its blocks.
3. An op with invariant results moves before the loop, with its bits: the same operator reads the same values. The loop
   gets the results as shared operands. Constants, views, and ops whose results are much larger than their operands
   cost less than the memory of their results, so they move only if another op that moves reads them; the loop keeps a
   copy of its own if it reads them too.
4. A loop that may make no trip runs no op. Ops that may stop a run stay in such a loop: those with the trait `stops`,
   and loops without a bound. Branches of a condition keep their ops, because only one branch runs.
5. Operands, results and ops that nothing reads any more are removed.

The idea is that of loop-invariant code motion: Aho, Lam, Sethi and Ullman, "Compilers" (2006), section 9.5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from compiler.passes.eliminate_dead_ops import drop_dead_ops, order_tensors
from compiler.passes.new_tensors import add_tensor, tensor_names
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalyses, BlockAnalysis
from prograd_proto.blocks.control import COND, SCAN, WHILE, layout_of
from prograd_proto.files import copy_of
from registry.op import find_op
from runtime.step import effects_of, is_view


def hoist_invariants(program: BlockAnalyses) -> None:
    """Move ops whose results are equal in all iterations of a loop before the loop, with equal bits."""
    for block in reversed(program.bound):  # outer ones come first
        if block.has_sub_blocks and _hoist_to(block):
            drop_dead_ops(block, inside=True)


def _hoist_to(block: BlockAnalysis) -> bool:
    """Move invariant ops out of the loops of a block; return True if any op moved."""
    before: dict[int, list[pb.OpDesc]] = {}  # new ops by the position of the loop
    for i, numbers in enumerate(block.blocks):
        if numbers and block.op_types[i] != COND:
            before[i] = []
            for part in range(len(numbers)):
                before[i] += _moved(block, i, part, before)
    if not any(before.values()):
        return False
    ops = [op for i, op in enumerate(block.ops) for op in (*before.get(i, ()), op)]
    copies = [pb.OpDesc.FromString(op.SerializeToString()) for op in ops]
    del block.desc.ops[:]
    block.desc.ops.extend(copies)
    block.forget()
    return True


def _moved(block: BlockAnalysis, i: int, part: int, before: Mapping[int, Sequence[pb.OpDesc]]) -> list[pb.OpDesc]:
    """Pass the invariants of block number `part` of a loop to it as operands; return the ops to put before the loop."""
    op_type, attributes = block.op_types[i], block.kinds[i].attributes
    if op_type == SCAN and attributes["length"] == (0,):
        return []
    body, loop = block.sub_blocks(i)[part], block.ops[i]
    outside = _known_outside(block, i, body)
    positions = _to_move(body, outside, op_type == WHILE or bool(attributes["counted"]))
    if not positions:
        return []
    read = {name for j, inputs in enumerate(body.inputs) if j not in positions for name in inputs} | {*body.ends}
    stay = set[int]()
    for j in reversed(positions):
        if _is_cheap(body, j) and not read.isdisjoint(body.outputs[j]):
            stay.add(j)
            read.update(body.inputs[j])
    next_id = 1 + max([*block.ids, *(op.id for ops in before.values() for op in ops)])
    layout = layout_of(op_type, attributes)
    made: list[pb.OpDesc] = []
    described = {tensor.name: tensor for tensor in body.tensors}
    taken = tensor_names(block.desc)
    for j in positions:
        copy = copy_of(body.ops[j])
        copy.id, copy.stage, copy.gradient_of = next_id + len(made), loop.stage, loop.gradient_of
        copy.inputs[:] = [outside[name] if name else "" for name in body.inputs[j]]
        for k, name in enumerate(body.outputs[j]):
            outside[name] = copy.outputs[k] = add_tensor(block.desc, described[name], taken)
            if j not in stay and name in read:
                body.desc.parameters.add(tensor=name, argument=len(loop.inputs) - layout.first)
                loop.inputs.append(copy.outputs[k])
        made.append(copy)
    body.keep_ops([j not in positions or j in stay for j in range(len(body.ops))])
    body.forget()
    order_tensors(body)
    block.forget()
    return made


def _known_outside(block: BlockAnalysis, i: int, body: BlockAnalysis) -> dict[str, str]:
    """Return the arguments of a loop's block that keep their value, with the outer tensors of that value."""
    first, carries, rows = layout_of(block.op_types[i], block.kinds[i].attributes)
    results, last = block.sub_blocks(i)[-1].desc.results, block.sub_blocks(i)[-1].arguments
    kept = {last[name] for j, name in enumerate(results[:carries]) if last.get(name) == j}
    return {
        name: block.inputs[i][first + number]
        for name, number in body.arguments.items()
        if number in kept or number >= carries + rows
    }


def _to_move(body: BlockAnalysis, outside: Mapping[str, str], may_not_run: bool) -> list[int]:
    """Return the positions of the ops that move before a loop, and of the cheap ones that these read."""
    invariant, movable = {"", *outside}, list[int]()
    for j, inputs in enumerate(body.inputs):
        if invariant.issuperset(inputs) and _may_move(body, j, may_not_run):
            movable.append(j)
            invariant.update(body.outputs[j])
    needed, found = set[str](), list[int]()
    for j in reversed(movable):
        if not _is_cheap(body, j) or not needed.isdisjoint(body.outputs[j]):
            needed.update(body.inputs[j])
            found.append(j)
    return found[::-1]


def _may_move(body: BlockAnalysis, j: int, may_not_run: bool) -> bool:
    """Return True if an op has equal results in each iteration.

    In a loop that may not run, it must not stop the run.
    """
    if body.ops[j].random_stream or effects_of(body.op_types[j]):
        return False
    if not body.blocks[j]:
        return not (may_not_run and find_op(body.op_types[j]).traits.stops)
    if may_not_run and body.op_types[j] == WHILE and not body.kinds[j].attributes["max_trips"]:
        return False
    return all(_may_move(inner, k, may_not_run) for inner in body.sub_blocks(j) for k in range(len(inner.ops)))


def _is_cheap(body: BlockAnalysis, j: int) -> bool:
    """Return True for an op that is not worth the memory of its results across a loop."""
    op_type = body.op_types[j]
    return op_type == "constant" or is_view(op_type) or find_op(op_type).traits.grows
