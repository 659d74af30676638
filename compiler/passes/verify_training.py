"""The rules about training blocks: backward ops, gradients, declared lifespans. `verify` applies them."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.analyses.needed import needed
from compiler.passes.eliminate_dead_ops import drop_dead_ops
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalyses, BlockAnalysis
from prograd_proto.blocks.stages import pass_of
from prograd_proto.text.words import LIFESPANS, STAGES
from runtime.step import is_view


def ops_that_run_are_read(program: BlockAnalyses) -> Iterator[str]:
    """Every op of a planned block is read or has an effect, so no part of a gradient is lost."""
    planned = {b.block for entry in program.desc.entries for b in entry.bindings if b.HasField("plan")}
    for number in sorted(planned):
        block = program[number]
        is_needed, _ = needed(block)
        if not all(is_needed):
            i = is_needed.index(False)
            yield f"block {number}: op {block.ids[i]} ({block.op_types[i]}) computes what nothing reads"


def backward_ops_help_a_forward_op(program: BlockAnalyses, block: BlockAnalysis) -> Iterator[str]:
    """Every op that helps to differentiate names an op that existed before it, a forward op unless that was removed."""
    stages = dict(zip(block.ids, block.stages, strict=True))
    for i, op in enumerate(block.ops):
        helped = op.gradient_of
        if not helped:
            continue
        what = f"op {block.ids[i]} ({block.op_types[i]}) helps to differentiate op {helped}"
        if helped >= block.ids[i]:
            yield f"{what}, which was not there before it"
        elif stages.get(helped, 0) > pb.STAGE_FORWARD:
            yield f"{what}, whose stage is {STAGES.get(stages[helped], 'unknown')}"


def tensors_keep_their_lifespans(program: BlockAnalyses, block: BlockAnalysis) -> Iterator[str]:
    """Every tensor is defined and read, itself or through a view, only within its declared lifespan."""
    declared = {tensor.name: tensor.lifespan for tensor in block.tensors if tensor.lifespan}
    if not declared:
        return
    for name, lifespan in declared.items():
        if name in block.state_of:
            yield f"%{name} stands for a state, which has a lifespan of its own"
        if lifespan not in (pb.LIFESPAN_FORWARD, pb.LIFESPAN_BACKWARD, pb.LIFESPAN_ITERATION):
            yield f"%{name} lasts {LIFESPANS.get(lifespan, 'unknown')}; a tensor lasts forward, backward or iteration"
    live = block.copied_to(pb.BlockDesc())
    drop_dead_ops(live)  # rules state every gradient, and those that nobody reads are no use of a tensor
    yield from _uses_outside(live, {name: span for name, span in declared.items() if span != pb.LIFESPAN_ITERATION})


def _uses_outside(block: BlockAnalysis, declared: dict[str, pb.Lifespan]) -> Iterator[str]:
    viewed = {name: name for name in declared}  # the declared tensor that a tensor shows
    for name in block.parameter_names:
        if declared.get(name) == pb.LIFESPAN_BACKWARD:
            yield f"%{name}, which lasts backward, is fed"
    for i, (op_type, inputs, outputs) in enumerate(zip(block.op_types, block.inputs, block.outputs, strict=True)):
        own = pass_of(block.stages[i])
        what = f"op {block.ids[i]} ({op_type}) of the {LIFESPANS[own]} pass"
        defined = [name for name in outputs if declared.get(name, own) != own]
        read = [name for name in inputs if name in viewed and declared[viewed[name]] != own]
        yield from (f"{what} defines {_named(name, name, declared)}" for name in defined)
        yield from (f"{what} reads {_named(name, viewed[name], declared)}" for name in read)
        if is_view(op_type) and inputs[0] in viewed:
            viewed.setdefault(outputs[0], viewed[inputs[0]])
    at_end = [name for name in block.ends if name in viewed]
    yield from (f"the end of the step reads {_named(name, viewed[name], declared)}" for name in at_end)


def _named(name: str, shown: str, declared: dict[str, pb.Lifespan]) -> str:
    view = "" if name == shown else f", a view of %{shown}"
    return f"%{name}{view}, which lasts {LIFESPANS[declared[shown]]}"
