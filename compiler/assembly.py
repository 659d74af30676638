"""From what a user builds, one block for all, to the blocks and entries of a program; what was built stays as it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from compiler.averages import Average, append_averages, averaged_parameters
from compiler.errors import CompileError
from prograd_proto import TensorType
from prograd_proto import program_pb2 as pb
from registry import Block, Value, ops

Outputs = dict[str, tuple[Value, pb.Over]]
"""Fetches by name: what is fetched, and how it combines over steps."""


@dataclass(frozen=True)
class Built:
    """What a user has built.

    Attributes:
        block: all ops, those of training among them.
        states: by name.
        updates: what each state becomes when a training step ends.
        fetches: of training.
        entries: what the others fetch.
        averages: by parameter.
    """

    block: pb.BlockDesc
    states: Mapping[str, pb.StateDesc]
    updates: Mapping[str, Value]
    fetches: Outputs
    entries: Mapping[str, Outputs]
    averages: Mapping[str, Average]


def assembled(built: Built) -> pb.ProgramDesc:
    """A program with the states, and with blocks and entries as built: symbols are unbound, no pass has run.

    Raises CompileError for a parameter that is never trained, or if the program computes nothing.
    """
    program = pb.ProgramDesc(states=built.states.values())
    _require_trained(built)
    if built.updates:
        program.blocks.append(_training_block(built))
        program.entries.add(name="train", source_block=0)
    for name, outputs in built.entries.items():
        program.entries.add(name=name, source_block=len(program.blocks))
        part = _part_for(built.block, outputs)
        averaged_parameters(part, name, built.averages)
        program.blocks.append(part)
    if not program.entries:
        raise CompileError("the program computes nothing; minimize a loss, update a state or name outputs")
    return program


def _require_trained(built: Built) -> None:
    idle = [name for name, state in built.states.items() if state.trainable and name not in built.updates]
    if idle and built.updates:
        raise CompileError(
            f"no loss trains the parameter{'s' if len(idle) > 1 else ''} {', '.join(map(repr, idle))}; "
            "minimize a loss that depends on it, or declare trainable=False"
        )


def _training_block(built: Built) -> pb.BlockDesc:
    """A copy of what was built, with the updates by state."""
    block = pb.BlockDesc()
    block.CopyFrom(built.block)
    block.updates.extend(pb.UpdateDesc(state=state, tensor=value.name) for state, value in built.updates.items())
    append_averages(block, built.averages)
    _count_steps(block)
    _add_fetches(block, built.fetches)
    return block


def _count_steps(desc: pb.BlockDesc) -> None:
    """Let a finished block count its steps, if it does not yet."""
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


def _part_for(built: pb.BlockDesc, outputs: Outputs) -> pb.BlockDesc:
    """The part of what was built that these outputs need, and their fetches."""
    needed = {value.name for value, _ in outputs.values()}
    ops: list[pb.OpDesc] = []
    for op in reversed(built.ops):
        if not needed.isdisjoint(op.outputs):
            needed.update(op.inputs, op.outputs)
            ops.append(op)
    block = pb.BlockDesc(ops=reversed(ops))
    block.parameters.extend(p for p in built.parameters if p.tensor in needed)
    block.tensors.extend(tensor for tensor in built.tensors if tensor.name in needed)
    _add_fetches(block, outputs)
    return block


def _add_fetches(block: pb.BlockDesc, outputs: Outputs) -> None:
    block.fetches.extend(pb.FetchDesc(name=n, tensor=value.name, over=over) for n, (value, over) in outputs.items())
