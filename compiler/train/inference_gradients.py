"""Gradients outside training, which are those of inference forms.

1. An op that is differentiated may have an inference form: batch_norm normalises by its running statistics, which do
   not depend on the rows. The ops that differentiate its training form do not compute the gradient of its inference
   form.
2. An entry that fetches such a gradient, or a value computed from one, is therefore rebuilt: op by op, in inference
   forms, and each differentiation is repeated there.
3. Readers of a result that only training has are dropped; so are, at the end, the ops of the old gradients.
"""

from __future__ import annotations

from collections.abc import Sequence

from compiler.passes.use_inference_forms import inference_form, present, rewrite_bodies
from compiler.train.backward import gradients
from prograd_proto import program_pb2 as pb
from prograd_proto import type_of
from registry import Block
from registry.block import Differentiation
from registry.op import find_op
from registry.ops.fill import gradient_like

Now = dict[str, str | None]
"""Replacements by tensor of the source: another tensor, or None for one that only training has."""


def with_gradients_of_forms(
    entry: str,
    source: pb.BlockDesc,
    part: pb.BlockDesc,
    differentiations: Sequence[Differentiation],
    bodies: list[pb.BlockDesc],
) -> pb.BlockDesc:
    """Return the part that an entry needs, with gradients of inference forms; unchanged if it has none.

    `bodies` has the blocks inside ops by number; new ones are appended.

    Raises CompileError if a form has no gradient, or the entry needs a result that only training has.
    """
    forms = {op.id for op in source.ops if has_inference_form(op, bodies)}
    if not any(op.gradient_of in forms for op in part.ops):
        return part
    wanted = _wanted(source, part, differentiations)
    block = Block(pb.BlockDesc(parameters=(p for p in source.parameters if p.tensor in wanted)))
    tensors = {tensor.name: tensor for tensor in source.tensors}
    for parameter in block.desc.parameters:
        _define(block, tensors[parameter.tensor])
    block.state_tensors = {p.tensor for p in block.desc.parameters if p.WhichOneof("source") == "state"}
    block.next_id = 1 + max(op.id for op in source.ops)
    block.bodies = bodies
    now: Now = {"": ""}
    waiting = [one for one in differentiations if not wanted.isdisjoint(one.results)]
    for op in source.ops:
        while waiting and waiting[0].first <= op.id:
            _differentiate(block, waiting.pop(0), now)
        if not wanted.isdisjoint(op.outputs):
            _append(entry, block, op, tensors, now)
    for one in waiting:
        _differentiate(block, one, now)
    desc = block.desc
    desc.updates.extend(pb.UpdateDesc(state=u.state, tensor=present(entry, u.tensor, now)) for u in part.updates)
    desc.fetches.extend(
        pb.FetchDesc(name=f.name, tensor=present(entry, f.tensor, now), over=f.over) for f in part.fetches
    )
    return desc


def _wanted(source: pb.BlockDesc, part: pb.BlockDesc, differentiations: Sequence[Differentiation]) -> set[str]:
    """Return the tensors of the part, the targets of its gradients, and all their dependencies."""
    wanted = {tensor.name for tensor in part.tensors}
    while True:
        before = len(wanted)
        for one in differentiations:
            if not wanted.isdisjoint(one.results):
                wanted.update(one.targets, one.inputs, one.seeds)
        for op in reversed(source.ops):
            if not wanted.isdisjoint(op.outputs):
                wanted.update(op.inputs, op.outputs)
        wanted.discard("")
        if len(wanted) == before:
            return wanted


def has_inference_form(op: pb.OpDesc, bodies: Sequence[pb.BlockDesc]) -> bool:
    """Return True if an op, or one inside its blocks, has an inference form."""
    if op.blocks:
        return any(has_inference_form(inner, bodies) for number in op.blocks for inner in bodies[number].ops)
    return find_op(op.type).inference_rule is not None


def _append(entry: str, block: Block, op: pb.OpDesc, tensors: dict[str, pb.TensorDesc], now: Now) -> None:
    definition, inputs = find_op(op.type), [now.get(name, name) for name in op.inputs]
    there = [name for name in inputs if name is not None]
    if len(there) < len(inputs):
        for name in op.outputs:
            now.setdefault(name, None)
    elif definition.inference_rule is not None:
        for name, value in zip(op.outputs, inference_form(block, definition, op, there), strict=True):
            now[name] = None if value is None else value.name
    else:
        for name in op.outputs:
            _define(block, tensors[name])
        copy = block.desc.ops.add()
        copy.CopyFrom(op)
        copy.inputs[:] = there
        copy.blocks[:] = block.copied(op.blocks)
        for number in copy.blocks:
            rewrite_bodies(entry, block.bodies, number)


def _differentiate(block: Block, one: Differentiation, now: Now) -> None:
    """Repeat a differentiation in this block; targets that depend on nothing any more have gradient 0."""
    targets, seeds = ([now.get(name, name) for name in names] for names in (one.targets, one.seeds))
    if None in targets or None in seeds:
        now.update((result, None) for result in one.results if result)
        return
    asked = [(now.get(x, x), result) for x, result in zip(one.inputs, one.results, strict=True) if result]
    inputs = [(block.value(x), result) for x, result in asked if x in block.types]
    grads = gradients(
        [block.value(name) for name in targets if name],
        [x for x, _ in inputs],
        [block.value(name) if name else None for name in seeds],
        no_grad=[name for name in one.constants if name in block.types],
    )
    for (x, result), grad in zip(inputs, grads, strict=True):
        if grad is None:
            with block.on_behalf_of(stage=pb.STAGE_GRADIENT):
                grad = gradient_like(x, 0.0)
        now[result] = grad.name


def _define(block: Block, tensor: pb.TensorDesc) -> None:
    block.define(tensor.name, type_of(tensor))
    block.tensors[tensor.name].CopyFrom(tensor)
