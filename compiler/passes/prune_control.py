"""Removal of what nothing needs in the blocks inside ops: outputs, carries and operands of conditions and loops.

1. Ops are visited from the last to the first, so that an operand that was removed no longer counts as a use.
2. An output that nothing reads is removed, with the result of each block. A carry is removed if nothing reads its last
   value, and if no remaining result and no condition depends on it in any iteration.
3. Ops inside the blocks that only these results needed are removed, and then the operands that no block reads.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalysis
from prograd_proto.blocks.control import BLOCKS, COND, WHILE, layout_of

Drop = Callable[..., None]


def prune_control(block: BlockAnalysis, drop_dead_ops: Drop) -> None:
    """Remove unused outputs, carries and operands of ops that run blocks; edit these blocks by `drop_dead_ops`."""
    read = {*block.ends}
    for i in reversed(range(len(block.ops))):
        if block.op_types[i] in BLOCKS and not read.isdisjoint(block.outputs[i]):
            _prune(block, i, read, drop_dead_ops)
        if not read.isdisjoint(block.outputs[i]):
            read.update(block.inputs[i])


def _prune(block: BlockAnalysis, i: int, read: Collection[str], drop_dead_ops: Drop) -> None:
    bodies, outputs, op_type = block.sub_blocks(i), block.outputs[i], block.op_types[i]
    first, carries, rows = layout_of(op_type, block.kinds[i].attributes)
    trips = [carries] if op_type == WHILE else []
    of_results = [k for k in range(len(outputs)) if k not in trips]  # the output of each result
    wanted = {r for r, k in enumerate(of_results) if outputs[k] in read}
    stay = _needed_results(bodies, wanted, carries, op_type)
    if op_type == COND and not stay:
        stay = {0}
    for body in bodies if op_type == COND else bodies[-1:]:
        if len(stay) < len(body.desc.results):
            body.desc.results[:] = [name for r, name in enumerate(body.desc.results) if r in stay]
            body.ends_edited()
    for body in bodies:
        drop_dead_ops(body, inside=True)
    arguments = {number for body in bodies for number in _read_arguments(body)}
    arguments |= {j for j in range(carries) if j in stay}
    _keep_arguments(bodies, arguments)
    op = block.ops[i]
    kept = {k for r, k in enumerate(of_results) if r in stay} | set(trips)
    op.outputs[:] = [name for k, name in enumerate(outputs) if k in kept]
    op.inputs[:] = [x for k, x in enumerate(block.inputs[i]) if k < first or k - first in arguments]
    _count(op, "carries", sum(j in arguments for j in range(carries)))
    _count(op, "rows", sum(k in arguments for k in range(carries, carries + rows)))
    block.read_again(i)


def _needed_results(bodies: Sequence[BlockAnalysis], wanted: set[int], carries: int, op_type: str) -> set[int]:
    """Return the results that stay: the wanted ones, and the carries that these or the condition follow from."""
    behind = [_arguments_behind(bodies[-1], name) for name in bodies[-1].desc.results] if carries else []
    waiting = [*wanted]
    if op_type == WHILE:
        waiting += [j for j in _arguments_behind(bodies[0], *bodies[0].desc.results) if j < carries]
        waiting = waiting or [0]
    found = set[int]()
    while waiting:
        result = waiting.pop()
        if result not in found:
            found.add(result)
            waiting += [j for j in behind[result] if j < carries] if carries else []
    return found


def _arguments_behind(body: BlockAnalysis, *results: str) -> set[int]:
    """Return the arguments that these results follow from within one run of the block."""
    needed = {*results}
    for inputs, outputs in zip(reversed(body.inputs), reversed(body.outputs), strict=True):
        if not needed.isdisjoint(outputs):
            needed.update(inputs)
    return {number for name, number in body.arguments.items() if name in needed}


def _read_arguments(body: BlockAnalysis) -> set[int]:
    read = {name for inputs in body.inputs for name in inputs} | {*body.ends}
    return {number for name, number in body.arguments.items() if name in read}


def _keep_arguments(bodies: Sequence[BlockAnalysis], arguments: Collection[int]) -> None:
    """Drop the parameters for other arguments, and number these anew."""
    now = {old: new for new, old in enumerate(sorted(arguments))}
    for body in bodies:
        kept = [
            pb.ParameterDesc(tensor=p.tensor, argument=now[p.argument]) for p in body.parameters if p.argument in now
        ]
        dropped = {p.tensor for p in body.parameters if p.argument not in now}
        del body.desc.parameters[:]
        body.desc.parameters.extend(kept)
        tensors = [tensor for tensor in body.desc.tensors if tensor.name not in dropped]
        del body.desc.tensors[:]
        body.desc.tensors.extend(tensors)
        body.forget()


def _count(op: pb.OpDesc, name: str, number: int) -> None:
    for attribute in op.attributes:
        if attribute.name == name:
            attribute.int_value = number
