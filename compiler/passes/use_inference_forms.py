"""Pass: outside training, ops take their inference form.

1. An entry whose source block updates no state, or only states that last an epoch, does not train.
2. There, an op whose operator registers an inference form is replaced by what the form appends: dropout becomes
   its input, batch_norm normalises by its running statistics.
3. The blocks inside ops are rewritten likewise.
4. Ops that are kept keep their ids and the names of their tensors; new ops get new ids.
"""

from __future__ import annotations

from compiler.errors import CompileError
from prograd_proto import attributes_of
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalyses
from prograd_proto.states import trains
from registry import Block, Value
from registry.op import Op, find_op, rule_names


def use_inference_forms(program: BlockAnalyses) -> None:
    """Use inference forms in entries that update no lasting state: dropout becomes its input."""
    for entry in program.desc.entries:
        if trains(program.desc, program[entry.source_block].desc):
            continue
        for number in program.with_sub_blocks([entry.source_block]):
            block = program[number]
            if any(find_op(type).inference_rule for type in set(block.op_types)):
                block.desc.CopyFrom(_rewritten(entry.name, block.desc))
                block.forget()


def rewrite_bodies(entry: str, bodies: list[pb.BlockDesc], number: int) -> None:
    """Give the ops of a block inside an op, and of the blocks inside it, their inference forms."""
    for op in bodies[number].ops:
        for inner in op.blocks:
            rewrite_bodies(entry, bodies, inner)
    if any(find_op(op.type).inference_rule for op in bodies[number].ops):
        bodies[number] = _rewritten(entry, bodies[number])


def _rewritten(entry: str, old: pb.BlockDesc) -> pb.BlockDesc:
    kept = [op for op in old.ops if find_op(op.type).inference_rule is None]
    names = {p.tensor for p in old.parameters} | {name for op in kept for name in op.outputs}
    start = pb.BlockDesc(parameters=old.parameters)
    start.tensors.extend(tensor for tensor in old.tensors if tensor.name in names)
    block = Block(start)
    block.next_id = 1 + max(op.id for op in old.ops)
    now: dict[str, str | None] = {"": ""}
    for op in old.ops:
        definition = find_op(op.type)
        if definition.inference_rule is None:
            copy = block.desc.ops.add()
            copy.CopyFrom(op)
            copy.inputs[:] = [present(entry, name, now) for name in op.inputs]
            continue
        inputs = [present(entry, name, now) for name in op.inputs]
        for name, value in zip(op.outputs, inference_form(block, definition, op, inputs), strict=True):
            now[name] = value.name if value is not None else None
    block.desc.updates.extend(pb.UpdateDesc(state=u.state, tensor=present(entry, u.tensor, now)) for u in old.updates)
    block.desc.fetches.extend(
        pb.FetchDesc(name=f.name, tensor=present(entry, f.tensor, now), over=f.over) for f in old.fetches
    )
    block.desc.results.extend(present(entry, name, now) for name in old.results)
    return block.desc


def inference_form(block: Block, definition: Op[..., object], op: pb.OpDesc, inputs: list[str]) -> list[Value | None]:
    """Append the inference form of an op; return its results, None for one that only training has."""
    rule = definition.inference_rule
    assert rule is not None, "the caller has looked"
    values = [block.value(name) if name else None for name in inputs]
    scope = definition.signature.name_inputs(values) | attributes_of(op)
    first = len(block.desc.ops)
    with block.on_behalf_of(stage=op.stage, op=op):
        result = rule(**{name: scope[name] for name in rule_names(rule)})
    for new in block.desc.ops[first:]:
        new.gradient_of = op.gradient_of  # they replace the op, and do not differentiate it
    return [result] if isinstance(result, Value) else list(result)


def present(entry: str, name: str, now: dict[str, str | None]) -> str:
    """Return the tensor that replaces another one; raise CompileError if only training has it."""
    found = now.get(name, name)
    if found is None:
        raise CompileError(f"entry {entry!r} needs %{name}, which exists only while training")
    return found
