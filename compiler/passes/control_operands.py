"""Facts that cross from a block into the blocks inside its ops: constants, operands that occur twice, known predicates.

1. A constant operand of a condition or a loop becomes a constant of the blocks that read it, where it can be folded. A
   carry is no such operand, as only its first value is known.
2. If several shared operands are one tensor, the blocks read the first of them, so that equal ops become identical.
3. A condition with a known predicate is replaced by the ops of the branch that is taken, with its bits. A result that
   is an operand is passed on by an `identity`, which `simplify` removes.
4. Operands that no block reads any more are removed.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.passes.eliminate_dead_ops import drop_dead_ops
from compiler.passes.new_tensors import add_tensor, tensor_names
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalysis
from prograd_proto.blocks.control import COND, layout_of
from prograd_proto.files import copy_of


def sink_constants(block: BlockAnalysis) -> None:
    """Let blocks inside ops have constants that they are given, and keep only the branch of a known condition."""
    if not block.has_sub_blocks:
        return
    constants = {op.outputs[0]: op for op in block.ops if op.type == "constant"}
    changed = False
    for i, body, name, number in _shared(block):
        constant = constants.get(block.inputs[i][number])
        if constant is not None:
            _give_constant(body, name, constant)
            changed = True
    if _keep_taken_branches(block, constants) or changed:
        drop_dead_ops(block, inside=True)


def unify_operands(block: BlockAnalysis) -> None:
    """Let blocks inside ops read one of several operands that are the same tensor."""
    if not block.has_sub_blocks:
        return
    changed = False
    seen: dict[tuple[int, str], str] = {}  # the inner tensor by block and outer tensor
    for _, body, name, outer in [(i, body, name, block.inputs[i][n]) for i, body, name, n in _shared(block)]:
        first = seen.setdefault((id(body), outer), name)
        if first != name:
            _read_instead(body, name, first)
            changed = True
    if changed:
        drop_dead_ops(block, inside=True)


def _shared(block: BlockAnalysis) -> Iterator[tuple[int, BlockAnalysis, str, int]]:
    """Yield op, inner block, inner tensor and operand number for each operand that is neither a carry nor rows."""
    for i, numbers in enumerate(block.blocks):
        if numbers:
            first, carries, rows = layout_of(block.op_types[i], block.kinds[i].attributes)
            for body in block.sub_blocks(i):
                for name, number in body.arguments.items():
                    if number >= carries + rows:
                        yield i, body, name, first + number


def _give_constant(body: BlockAnalysis, name: str, constant: pb.OpDesc) -> None:
    """Make an argument of a block a constant, computed by its first op."""
    parameters = [p for p in body.parameters if p.tensor != name]
    ops = [
        pb.OpDesc(
            id=1 + max(body.ids, default=0),
            type=constant.type,
            outputs=[name],
            attributes=constant.attributes,
            stage=pb.STAGE_FORWARD,
            location=constant.location,
        ),
        *body.ops,
    ]
    _replace(body, parameters, ops)


def _read_instead(body: BlockAnalysis, name: str, other: str) -> None:
    for op in body.ops:
        op.inputs[:] = [other if x == name else x for x in op.inputs]
    body.desc.results[:] = [other if x == name else x for x in body.desc.results]
    body.forget()


def _keep_taken_branches(block: BlockAnalysis, constants: dict[str, pb.OpDesc]) -> bool:
    """Replace conditions with constant predicates by the branch that is taken; return True if there are any."""
    known = {
        i: constants[block.inputs[i][0]].attributes[0].tensor_value.data
        for i, op_type in enumerate(block.op_types)
        if op_type == COND and block.inputs[i][0] in constants
    }
    if not known:
        return False
    next_id = 1 + max(block.ids)
    ops: list[pb.OpDesc] = []
    for i, op in enumerate(block.ops):
        branch = _branch(block, i, 0 if any(known[i]) else 1, next_id) if i in known else [op]
        next_id += len(branch)
        ops += branch
    gone = [body for i in known for body in block.sub_blocks(i)]
    gone += [inner for i in known for inner in _blocks_inside(block.sub_blocks(i)[1 if any(known[i]) else 0])]
    _replace(block, block.parameters, ops)
    for body in gone:  # blocks inside the branch that is taken lie in ops that are now outside
        body.desc.Clear()
        body.forget()
    return True


def _blocks_inside(block: BlockAnalysis) -> Iterator[BlockAnalysis]:
    """Yield the blocks inside the ops of a block, and those inside these."""
    for i in range(len(block.ops)):
        for inner in block.sub_blocks(i):
            yield inner
            yield from _blocks_inside(inner)


def _branch(block: BlockAnalysis, i: int, number: int, next_id: int) -> list[pb.OpDesc]:
    """Return the ops of a branch as ops of the block around it, and describe their tensors there."""
    body, cond = block.sub_blocks(i)[number], block.ops[i]
    outside = {name: block.inputs[i][1 + k] for name, k in body.arguments.items()}
    passed_on = list[tuple[str, str]]()
    for name, output in zip(body.desc.results, block.outputs[i], strict=True):
        if name in outside:
            passed_on.append((name, output))
        outside.setdefault(name, output)
    taken = tensor_names(block.desc)
    described = {tensor.name: tensor for tensor in body.tensors}
    made = list[pb.OpDesc]()
    for op in body.ops:
        copy = copy_of(op)
        made.append(copy)
        for k, name in enumerate(op.outputs):
            if name not in outside:
                outside[name] = add_tensor(block.desc, described[name], taken)
            copy.outputs[k] = outside[name]
        copy.inputs[:] = [outside[name] if name else "" for name in op.inputs]
    made += [pb.OpDesc(type="identity", inputs=[outside[x]], outputs=[y], location=cond.location) for x, y in passed_on]
    for k, op in enumerate(made):
        op.id, op.stage, op.gradient_of = next_id + k, cond.stage, cond.gradient_of
    return made


def _replace(block: BlockAnalysis, parameters: list[pb.ParameterDesc], ops: list[pb.OpDesc]) -> None:
    """Give a block these parameters and ops."""
    now = pb.BlockDesc(parameters=parameters, ops=ops)
    del block.desc.parameters[:], block.desc.ops[:]
    block.desc.parameters.extend(now.parameters)
    block.desc.ops.extend(now.ops)
    block.forget()
