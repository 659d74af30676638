"""Execution order of a forward op, its gradients, its derivatives, and the updates of its states.

A view of the list of ops. Gradients and derivatives say which op they help to differentiate; the update that belongs to
an op is the one that makes the new value of a state that the op reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalysis
from runtime.step import is_transfer


class ExecutionOrder(NamedTuple):
    """Positions in the list of ops, from 0, each list in order.

    Attributes:
        op: the forward op.
        forward: its position.
        gradient: positions of the ops towards parameters, and of ops shared with derivatives.
        derivative: positions of the ops towards activations.
        update: positions of the ops that compute new values of the trained states that it reads.
    """

    op: pb.OpDesc
    forward: int
    gradient: list[int]
    derivative: list[int]
    update: list[int]


def execution_orders(program: pb.ProgramDesc, block: BlockAnalysis) -> list[ExecutionOrder]:
    """Return the orders of all forward ops of a well-formed block, in the order in which they run.

    Constants, spills and reloads have none.
    """
    trained = {state.name for state in program.states if state.trainable}
    maker = block.use_def.makers
    made_by = {state: maker[tensor] for state, tensor in block.updates.items() if tensor in maker and state in trained}
    update_of = {name: made_by[state] for name, state in block.state_of.items() if state in made_by}
    helpers: dict[tuple[int, int], list[int]] = {}
    for i, op in enumerate(block.ops):
        if op.gradient_of:
            helpers.setdefault((op.gradient_of, op.stage), []).append(i)
    return [
        ExecutionOrder(
            op,
            i,
            helpers.get((op.id, pb.STAGE_GRADIENT), []),
            helpers.get((op.id, pb.STAGE_DERIVATIVE), []),
            sorted({update_of[name] for name in op.inputs if name in update_of}),
        )
        for i, op in enumerate(block.ops)
        if op.stage <= pb.STAGE_FORWARD and op.type != "constant" and not op.recompute_of and not is_transfer(op.type)
    ]


def unlisted(block: BlockAnalysis, orders: list[ExecutionOrder]) -> Iterator[int]:
    """Return the positions of ops without a forward op: schedules, clipping, constants, transfers."""
    listed = {i for order in orders for i in (order.forward, *order.gradient, *order.derivative, *order.update)}
    return (i for i in range(len(block.ops)) if i not in listed)
