"""How long each tensor of a step is needed, in words: by which pass it is defined and read, not at what time.

1. Only forward ops define and read it: `forward`. A fed tensor is defined by the forward pass.
2. Only ops of other stages, gradients, derivatives and updates, do: `backward`.
3. Both do, or the end of the step reads it, as a fetch, an update or a result: `iteration`.
4. The tensor of a state lasts as long as the state, `epoch` or `always`; a constant is there `always`.

What reads a view of a tensor reads the tensor.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from prograd_proto import program_pb2 as pb
from registry import OpError, Value
from runtime.step import ends_of, is_view

Lifespan = Literal["forward", "backward", "iteration", "epoch", "always"]
_OF_TENSORS: dict[str, pb.Lifespan] = {
    "forward": pb.LIFESPAN_FORWARD,
    "backward": pb.LIFESPAN_BACKWARD,
    "iteration": pb.LIFESPAN_ITERATION,
}
_OF_STATES: dict[str, pb.Lifespan] = {"epoch": pb.LIFESPAN_EPOCH, "always": pb.LIFESPAN_ALWAYS}


def declare_lifespan(value: Value, state: pb.StateDesc | None, lifespan: str) -> None:
    """Write a lifespan down, of the state that the tensor stands for if there is one; OpError if it has no such."""
    known = _OF_TENSORS if state is None else _OF_STATES
    if lifespan not in known:
        what = "a tensor of a step" if state is None else "a state"
        raise OpError(f"lifespan: {value!r} is {what}, which cannot last {lifespan!r}; use {', '.join(known)}")
    if state is None:
        value.block.tensors[value.name].lifespan = known[lifespan]
    elif lifespan == "epoch" and state.kind != pb.STATE_KIND_BUFFER:
        raise OpError(f"lifespan: {value!r} is no buffer, and only a buffer lasts an epoch")
    else:
        state.lifespan = known[lifespan]


def lifespans_of(program: pb.ProgramDesc, block: pb.BlockDesc) -> dict[str, pb.Lifespan]:
    """The lifespan of every tensor of a well-formed block, scratch left out."""
    found = {name: lifespan_of(passes) for name, passes in _passes(block).items()}
    found |= {name: pb.LIFESPAN_ALWAYS for op in block.ops if op.type == "constant" for name in op.outputs}
    states = {state.name: state.lifespan for state in program.states}
    return found | {p.tensor: states[p.state] for p in block.parameters if p.WhichOneof("source") == "state"}


def lifespan_of(passes: Iterable[pb.Lifespan]) -> pb.Lifespan:
    """The lifespan of what these passes touch; `iteration` stands for the end of the step."""
    found = set(passes)
    return found.pop() if len(found) == 1 else pb.LIFESPAN_ITERATION


def pass_of(op: pb.OpDesc) -> pb.Lifespan:
    """The pass that an op belongs to; an op without a stage is of the forward pass."""
    return pb.LIFESPAN_FORWARD if op.stage <= pb.STAGE_FORWARD else pb.LIFESPAN_BACKWARD


def _passes(block: pb.BlockDesc) -> dict[str, set[pb.Lifespan]]:
    passes = {parameter.tensor: {pb.LIFESPAN_FORWARD} for parameter in block.parameters}
    for op in block.ops:
        for name in op.inputs:
            if name:
                passes[name].add(pass_of(op))
        passes.update((name, {pass_of(op)}) for name in op.outputs)
    for name in ends_of(block):
        passes[name].add(pb.LIFESPAN_ITERATION)
    for op in reversed(block.ops):
        if is_view(op.type):
            passes[op.inputs[0]] |= passes[op.outputs[0]]
    return passes
