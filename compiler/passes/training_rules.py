"""The rules about what makes a block train: backward ops, gradients, declared lifespans. `verify` applies them."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.analyses.lifespans import pass_of
from compiler.analyses.use_def import needed
from compiler.passes.eliminate_dead_ops import drop_dead_ops
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import Reading
from prograd_proto.text.words import LIFESPANS, STAGES
from runtime.step import ends_of, is_view


def ops_that_run_are_read(program: pb.ProgramDesc) -> Iterator[str]:
    """In a block whose memory is planned, every op is read or has an effect, so no part of a gradient is lost."""
    planned = {b.block for entry in program.entries for b in entry.bindings if b.HasField("plan")}
    for number in sorted(planned):
        block = program.blocks[number]
        is_needed, _ = needed(block)
        if not all(is_needed):
            op = block.ops[is_needed.index(False)]
            yield f"block {number}: op {op.id} ({op.type}) computes what nothing reads"


def backward_ops_help_a_forward_op(program: pb.ProgramDesc, block: Reading) -> Iterator[str]:
    """An op that helps to differentiate names an op that was there before it, a forward op unless that is gone."""
    helpers = [op for op in block.ops if op.gradient_of]
    stages = {op.id: op.stage for op in block.ops} if helpers else {}
    for op in helpers:
        what = f"op {op.id} ({op.type}) helps to differentiate op {op.gradient_of}"
        if op.gradient_of >= op.id:
            yield f"{what}, which was not there before it"
        elif stages.get(op.gradient_of, 0) > pb.STAGE_FORWARD:
            yield f"{what}, whose stage is {STAGES.get(stages[op.gradient_of], 'unknown')}"


def tensors_keep_their_lifespans(program: pb.ProgramDesc, block: Reading) -> Iterator[str]:
    """A tensor is defined and read, itself or through a view, only within the lifespan that was declared for it."""
    declared = {tensor.name: tensor.lifespan for tensor in block.tensors if tensor.lifespan}
    if not declared:
        return
    of_states = {p.tensor for p in block.desc.parameters if p.WhichOneof("source") == "state"}
    for name, lifespan in declared.items():
        if name in of_states:
            yield f"%{name} stands for a state, which has a lifespan of its own"
        if lifespan not in (pb.LIFESPAN_FORWARD, pb.LIFESPAN_BACKWARD, pb.LIFESPAN_ITERATION):
            yield f"%{name} lasts {LIFESPANS.get(lifespan, 'unknown')}; a tensor lasts forward, backward or iteration"
    live = pb.BlockDesc()
    live.CopyFrom(block.desc)
    drop_dead_ops(live)  # rules state every gradient, and those that nobody reads are no use of a tensor
    yield from _uses_outside(live, {name: span for name, span in declared.items() if span != pb.LIFESPAN_ITERATION})


def _uses_outside(block: pb.BlockDesc, declared: dict[str, pb.Lifespan]) -> Iterator[str]:
    viewed = {name: name for name in declared}  # the declared tensor that a tensor shows
    for parameter in block.parameters:
        if declared.get(parameter.tensor) == pb.LIFESPAN_BACKWARD:
            yield f"%{parameter.tensor}, which lasts backward, is fed"
    for op in block.ops:
        own, what = pass_of(op), f"op {op.id} ({op.type}) of the {LIFESPANS[pass_of(op)]} pass"
        defined = [name for name in op.outputs if declared.get(name, own) != own]
        read = [name for name in op.inputs if name in viewed and declared[viewed[name]] != own]
        yield from (f"{what} defines {_named(name, name, declared)}" for name in defined)
        yield from (f"{what} reads {_named(name, viewed[name], declared)}" for name in read)
        if is_view(op.type) and op.inputs[0] in viewed:
            viewed.setdefault(op.outputs[0], viewed[op.inputs[0]])
    at_end = [name for name in ends_of(block) if name in viewed]
    yield from (f"the end of the step reads {_named(name, viewed[name], declared)}" for name in at_end)


def _named(name: str, shown: str, declared: dict[str, pb.Lifespan]) -> str:
    view = "" if name == shown else f", a view of %{shown}"
    return f"%{name}{view}, which lasts {LIFESPANS[declared[shown]]}"
