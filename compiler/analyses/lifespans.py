"""Lifespans of the tensors of a step, in words: the pass that defines and reads a tensor, not the time.

1. Only forward ops define and read it: `forward`. A fed tensor is defined by the forward pass.
2. Only ops of other stages, gradients, derivatives and updates, do: `backward`.
3. Both do, or the end of the step reads it, as a fetch, an update or a result: `iteration`.
4. The tensor of a state lasts as long as the state, `epoch` or `always`; a constant is there `always`.

An op that reads a view of a tensor reads the tensor.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Literal

from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalysis
from prograd_proto.blocks.stages import pass_of
from registry import OpError, Value
from runtime.step import views_of

Lifespan = Literal["forward", "backward", "iteration", "epoch", "always"]
_OF_TENSORS: dict[str, pb.Lifespan] = {
    "forward": pb.LIFESPAN_FORWARD,
    "backward": pb.LIFESPAN_BACKWARD,
    "iteration": pb.LIFESPAN_ITERATION,
}
_OF_STATES: dict[str, pb.Lifespan] = {"epoch": pb.LIFESPAN_EPOCH, "always": pb.LIFESPAN_ALWAYS}


def declare_lifespan(value: Value, state: pb.StateDesc | None, lifespan: str) -> None:
    """Set the lifespan of a tensor or of the state that it stands for; raise OpError if it is invalid."""
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


def lifespans_of(program: pb.ProgramDesc, block: BlockAnalysis) -> dict[str, pb.Lifespan]:
    """Return the lifespan of every tensor of a well-formed block, without scratch."""
    found = {name: lifespan_of(passes) for name, passes in _passes(block).items()}
    constants = (outputs for type, outputs in zip(block.op_types, block.outputs, strict=True) if type == "constant")
    found |= dict.fromkeys(chain.from_iterable(constants), pb.LIFESPAN_ALWAYS)
    states = {state.name: state.lifespan for state in program.states}
    return found | {tensor: states[state] for tensor, state in block.state_of.items()}


def lifespan_of(passes: Iterable[pb.Lifespan]) -> pb.Lifespan:
    """Return the lifespan of a tensor that these passes touch; `iteration` stands for the end of the step."""
    found = set(passes)
    return found.pop() if len(found) == 1 else pb.LIFESPAN_ITERATION


def _passes(block: BlockAnalysis) -> dict[str, set[pb.Lifespan]]:
    """Return the passes that define and use each tensor; a use of a view is a use of the tensor."""
    of_ops = [pass_of(stage) for stage in block.stages]
    of_ops.append(pb.LIFESPAN_ITERATION)  # the end of the step
    passes = {
        name: {
            pb.LIFESPAN_FORWARD if used.definition is None else of_ops[used.definition],
            *(of_ops[i] for i in used.uses),
        }
        for name, used in block.use_def.chains.items()
    }
    for i in reversed(views_of(block)):
        passes[block.inputs[i][0]] |= passes[block.outputs[i][0]]
    return passes
