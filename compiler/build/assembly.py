"""Assembly of a program's blocks and entries from the one block that a user builds, which is not modified."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from compiler.build.graft import graft, part_for
from compiler.build.opened import Kept
from compiler.errors import CompileError
from compiler.train.averages import Average, append_averages, averaged_parameters
from compiler.train.inference_gradients import with_gradients_of_forms
from prograd_proto import TensorType
from prograd_proto import program_pb2 as pb
from prograd_proto.files import copy_of
from registry import Block, Value, ops
from registry.block import Differentiation

Outputs = dict[str, tuple[Value, pb.Over]]
"""Fetches by name: the fetched tensor, and its reduction over steps."""


@dataclass(frozen=True)
class Built:
    """The program that a user has built so far.

    Attributes:
        block: all ops, those of training among them.
        states: the states by name.
        updates: the new value of each state at the end of a training step.
        totals: the new values of the totals of metrics, in blocks that fetch them.
        fetches: the fetches of training.
        entries: the fetches of the other entries.
        averages: averages by parameter.
        kept: entries of the file that was opened, if one was.
        differentiations: the differentiations, in order.
        bodies: the blocks inside ops, by the numbers that ops give them.
    """

    block: pb.BlockDesc
    states: Mapping[str, pb.StateDesc]
    updates: Mapping[str, Value]
    totals: Mapping[str, Value]
    fetches: Outputs
    entries: Mapping[str, Outputs]
    averages: Mapping[str, Average]
    kept: Mapping[str, Kept] = field(default_factory=dict[str, Kept])
    differentiations: Sequence[Differentiation] = ()
    bodies: Sequence[pb.BlockDesc] = ()


def assembled(built: Built) -> pb.ProgramDesc:
    """Return a program with the states, blocks and entries as built: symbols are unbound, no pass has run.

    Raises CompileError for a parameter that is never trained, or if the program computes nothing.
    """
    program = pb.ProgramDesc(states=built.states.values())
    _leave_idle_of_modules(program, built)
    _require_trained(built)
    if built.updates:
        program.blocks.append(_training_block(built))
        program.entries.add(name="train", source_block=0)
        _add_bodies(program, program.blocks[-1], built.bodies)
    for name, outputs in built.entries.items():
        program.entries.add(name=name, source_block=len(program.blocks))
        bodies = [*built.bodies]
        part = _part_for(built, outputs) if name not in built.kept else _grown(built, built.kept[name], outputs, bodies)
        part = with_gradients_of_forms(name, built.block, part, built.differentiations, bodies)
        averaged_parameters(part, name, built.averages)
        program.blocks.append(part)
        _add_bodies(program, program.blocks[-1], bodies)
    if not program.entries:
        raise CompileError("the program computes nothing; minimize a loss, update a state or name outputs")
    return program


def _leave_idle_of_modules(program: pb.ProgramDesc, built: Built) -> None:
    """Mark parameters of an imported module as not trained if no loss depends on them.

    Modules may have unused parameters.
    """
    for state in program.states:
        if state.HasField("imported") and state.name not in built.updates:
            state.trainable = False


def _add_bodies(program: pb.ProgramDesc, block: pb.BlockDesc, bodies: Sequence[pb.BlockDesc]) -> None:
    """Copy the blocks inside the ops of a block, and the blocks inside these, so that each belongs to one op."""
    for op in block.ops:
        for i, number in enumerate(op.blocks):
            op.blocks[i] = len(program.blocks)
            inner = program.blocks.add()
            inner.CopyFrom(bodies[number])
            _add_bodies(program, inner, bodies)


def _require_trained(built: Built) -> None:
    ours = {name: state for name, state in built.states.items() if not state.HasField("imported")}
    idle = [name for name, state in ours.items() if state.trainable and name not in built.updates]
    if idle and built.updates:
        raise CompileError(
            f"no loss trains the parameter{'s' if len(idle) > 1 else ''} {', '.join(map(repr, idle))}; "
            "minimize a loss that depends on it, or declare trainable=False"
        )


def _training_block(built: Built) -> pb.BlockDesc:
    """Return a copy of the built block, with the updates by state."""
    block = copy_of(built.block)
    needed = {value.name for value, _ in built.fetches.values()}
    totals = _reached(built.block, built.totals, needed) if built.totals else {}
    _add_updates(block, dict(built.updates) | totals)
    append_averages(block, built.averages)
    _count_steps(block)
    _add_fetches(block, built.fetches)
    return block


def _count_steps(desc: pb.BlockDesc) -> None:
    """Add a step counter to a finished block, unless it has one."""
    if any(update.state == "step" for update in desc.updates):
        return
    block = Block(desc)
    with block.on_behalf_of(stage=pb.STAGE_UPDATE):
        if "step" in block.types:
            step = block.value("step")
        else:
            step = block.define("step", TensorType("int64", ()))
            desc.parameters.add(tensor="step", state="step")
        desc.updates.add(state="step", tensor=ops.add(step, 1).name)


def _part_for(built: Built, outputs: Outputs) -> pb.BlockDesc:
    """Return the part of the built block that these outputs need, with their fetches and epoch updates."""
    needed, updates = _needed_for(built, outputs)
    block = part_for(built.block, needed)
    _add_updates(block, updates)
    _add_fetches(block, outputs)
    return block


def _grown(built: Built, kept: Kept, outputs: Outputs, bodies: list[pb.BlockDesc]) -> pb.BlockDesc:
    """Return the block of an opened entry with outputs added or replaced by name; new blocks are put into `bodies`."""
    desc = copy_of(kept.block)
    if not outputs:
        return desc
    needed, updates = _needed_for(built, outputs)
    block = Block(desc)
    block.bodies = bodies
    names = graft(block, part_for(built.block, needed), kept.names)
    there = {update.state for update in desc.updates}
    more = {state: block.value(names[value.name]) for state, value in updates.items() if state not in there}
    _add_updates(desc, more)
    fetches = [fetch for fetch in desc.fetches if fetch.name not in outputs]
    del desc.fetches[:]
    desc.fetches.extend(fetches)
    _add_fetches(desc, {name: (block.value(names[value.name]), over) for name, (value, over) in outputs.items()})
    return desc


def _needed_for(built: Built, outputs: Outputs) -> tuple[set[str], dict[str, Value]]:
    """Return the tensors that these outputs need, and the updates among them of states that last an epoch."""
    needed = {value.name for value, _ in outputs.values()}
    passing = {name for name, state in built.states.items() if state.lifespan == pb.LIFESPAN_EPOCH}
    totals = {state: value for state, value in built.updates.items() if state in passing} | dict(built.totals)
    return needed, _reached(built.block, totals, needed)


def _reached(block: pb.BlockDesc, totals: Mapping[str, Value], needed: set[str]) -> dict[str, Value]:
    """Return the totals whose state is read for the needed tensors, and add all that these need."""
    state_of = {p.tensor: p.state for p in block.parameters if p.WhichOneof("source") == "state"}
    updates: dict[str, Value] = {}
    while True:
        for op in reversed(block.ops):
            outputs = op.outputs[:]
            if not needed.isdisjoint(outputs):
                needed.update(op.inputs[:], outputs)
        read = {state for tensor, state in state_of.items() if tensor in needed}
        more = {state: value for state, value in totals.items() if state in read and state not in updates}
        if not more:
            return updates
        updates |= more
        needed.update(value.name for value in more.values())


def _add_updates(block: pb.BlockDesc, updates: Mapping[str, Value]) -> None:
    block.updates.extend(pb.UpdateDesc(state=state, tensor=value.name) for state, value in updates.items())


def _add_fetches(block: pb.BlockDesc, outputs: Outputs) -> None:
    block.fetches.extend(pb.FetchDesc(name=n, tensor=value.name, over=over) for n, (value, over) in outputs.items())
