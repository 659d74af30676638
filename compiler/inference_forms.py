"""Pass: outside training, ops take their inference form.

1. An entry whose source block updates no state does not train.
2. There, an op whose operator registers an inference form is replaced by what the form appends: dropout becomes
   its input, batch_norm normalises by its running statistics.
3. Tensors keep their names where their op is kept, so fetches still find theirs. Ids start anew.
"""

from __future__ import annotations

from compiler.errors import CompileError
from prograd_proto import attributes_of
from prograd_proto import program_pb2 as pb
from registry import Block, Value
from registry.op import Op, find_op, rule_names


def use_inference_forms(program: pb.ProgramDesc) -> None:
    """Replace ops by their inference forms in every entry that does not train."""
    for entry in program.entries:
        block = program.blocks[entry.source_block]
        if not block.updates and any(find_op(op.type).inference_rule for op in block.ops):
            block.CopyFrom(_rewritten(entry.name, block))


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
            copy.inputs[:] = [_present(entry, name, now) for name in op.inputs]
            continue
        for name, value in zip(op.outputs, _form(block, definition, op, now), strict=True):
            now[name] = value.name if value is not None else None
    for fetch in block.desc.fetches:
        fetch.tensor = _present(entry, fetch.tensor, now)
    block.desc.fetches.extend(
        pb.FetchDesc(name=f.name, tensor=_present(entry, f.tensor, now), over=f.over) for f in old.fetches
    )
    return block.desc


def _form(block: Block, definition: Op[..., object], op: pb.OpDesc, now: dict[str, str | None]) -> list[Value | None]:
    rule = definition.inference_rule
    assert rule is not None, "the caller has looked"
    renamed = pb.OpDesc(type=op.type, inputs=[_present("", name, now) for name in op.inputs], attributes=op.attributes)
    scope = definition.scope(block, renamed, attributes_of(op))
    with block.on_behalf_of(stage=op.stage, op=op):
        result = rule(**{name: scope[name] for name in rule_names(rule)})
    return [result] if isinstance(result, Value) else list(result)


def _present(entry: str, name: str, now: dict[str, str | None]) -> str:
    found = now.get(name, name)
    if found is None:
        raise CompileError(f"entry {entry!r} needs %{name}, which exists only while training")
    return found
