"""Pass, and its marks: frozen parameters are not trained, and ops that only trained them are dropped.

1. Freezing marks parameters; source blocks stay whole, updates of frozen parameters among them, so thawing gives back
   the program that was.
2. In a block that runs, frozen parameters and their slots have no updates. An op, such as that of an average, or a
   fetch that reads the new value of such a parameter reads the parameter instead.
3. A gradient that only a norm for clipping reads is removed from that norm. It is
   known by its shape: the gradient times itself, summed and added, where its product with the limit is not needed.
4. Ops that are no longer needed are dropped, such as the gradients themselves.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import islice

from compiler.analyses.needed import needed
from compiler.passes.eliminate_dead_ops import drop_dead_ops
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalyses, BlockAnalysis
from prograd_proto.spelling import closest
from prograd_proto.states import slots_of_frozen
from registry.errors import OpError


def leave_frozen(program: BlockAnalyses) -> None:
    """Leave the training of frozen parameters out of blocks that run."""
    frozen = {s.name for s in program.desc.states if s.kind == pb.STATE_KIND_PARAMETER and not s.trainable}
    if not frozen:
        return
    dropped = frozen | slots_of_frozen(program.desc)
    for block in program.bound:
        if any(update.state in dropped for update in block.desc.updates):
            _leave(block, frozen, dropped)


def mark(states: Iterable[pb.StateDesc], patterns: Sequence[str], *, trainable: bool) -> list[str]:
    """Mark the parameters that match a pattern, such as "encoder.*", as trainable or frozen; return their names.

    Raises OpError for a pattern that no parameter matches.
    """
    verb = "thaw" if trainable else "freeze"
    states = list(states)
    parameters = {state.name: state for state in states if state.kind == pb.STATE_KIND_PARAMETER}
    found: dict[str, pb.StateDesc] = {}
    for pattern in patterns:
        names = [name for name in parameters if fnmatchcase(name, pattern)]
        if not names:
            others = any(fnmatchcase(state.name, pattern) for state in states)
            why = "; what it matches is not trained" if others else closest(pattern, parameters)
            raise OpError(f"{verb}: no parameter matches {pattern!r}{why}")
        found.update((name, parameters[name]) for name in names)
    for state in found.values():
        state.trainable = trainable
    return list(found)


def _leave(block: BlockAnalysis, frozen: Container[str], dropped: Container[str]) -> None:
    desc, before = block.desc, needed(block)[0]
    tensor_of = {state: tensor for tensor, state in block.state_of.items()}
    stays = {update.tensor: tensor_of[update.state] for update in desc.updates if update.state in frozen}
    kept = [update for update in desc.updates if update.state not in dropped]
    del desc.updates[:]
    desc.updates.extend(kept)
    for end in (*desc.updates, *desc.fetches):
        end.tensor = stays.get(end.tensor, end.tensor)
    for op in block.ops:
        op.inputs[:] = [stays.get(name, name) for name in op.inputs]
    block.forget()
    after = needed(block)[0]
    _leave_norms(desc, [op for op, was, stays in zip(block.ops, before, after, strict=True) if was and not stays])
    block.forget()
    drop_dead_ops(block, inside=True)


def _leave_norms(block: pb.BlockDesc, dead: Sequence[pb.OpDesc]) -> None:
    """Remove from sums the squares of gradients whose product with the sums' result is dead."""
    makers = {name: op for op in block.ops for name in op.outputs}
    nothing: set[str] = set()
    for product in dead:
        if product.type == "mul" and product.stage == pb.STAGE_UPDATE:
            gradient, limit = product.inputs
            squares = (op.outputs[0] for op in _behind(limit, makers) if _is_square(op, gradient, nothing))
            nothing.update(islice(squares, 1))
    if nothing:
        _leave_out(block, nothing)


def _leave_out(block: pb.BlockDesc, nothing: set[str]) -> None:
    """Remove absent terms from the additions of updates."""
    instead: dict[str, str] = {}
    for op in block.ops:
        inputs = op.inputs[:] = [instead.get(name, name) for name in op.inputs]
        if op.stage != pb.STAGE_UPDATE or nothing.isdisjoint(inputs):
            continue
        left = [name for name in inputs if name not in nothing]
        if op.type == "add" and left:
            instead[op.outputs[0]] = left[0]
        elif op.type in ("sum", "cast", "add"):
            nothing.add(op.outputs[0])


def _behind(name: str, makers: Mapping[str, pb.OpDesc]) -> Iterable[pb.OpDesc]:
    """Return the ops of updates that a tensor depends on, through ops of updates."""
    seen: set[str] = set()
    left = [name]
    while left:
        op = makers.get(left.pop())
        if op is None or op.stage != pb.STAGE_UPDATE or op.outputs[0] in seen:
            continue
        seen.add(op.outputs[0])
        yield op
        left += op.inputs


def _is_square(op: pb.OpDesc, gradient: str, nothing: Container[str]) -> bool:
    return op.type == "mul" and op.inputs[:] == [gradient, gradient] and op.outputs[0] not in nothing
