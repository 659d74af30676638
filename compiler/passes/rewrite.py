"""One walk over a block that leaves out ops: what merging, simplifying and folding have in common.

1. The ops are visited in order, so that all operands of an op are final when it is visited. A visitor leaves the op,
   edits it, or gives tensors of its outputs' types that have the same bits: those take the outputs' place.
2. Whatever read a replaced tensor reads the other one: later ops, fetches, updates, results and links of gradients.
3. A tensor with a declared lifespan keeps its op as it is and its readers: nothing takes its place, and it takes the
   place of nothing.
4. Ops, tensors and parameters that are no longer needed go. Marks of what is written in place go too, since a tensor
   may now be read later than before; `share_memory` sets them anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set

from compiler.passes.eliminate_dead_ops import drop_dead_ops
from prograd_proto import program_pb2 as pb

EDITED: Sequence[str] = ()

Visitor = Callable[[pb.OpDesc], Sequence[str] | None]
"""What was done with an op: tensors take the place of its outputs, `EDITED` it was, or None: it stays as it is."""


def rewrite(block: pb.BlockDesc, visit: Visitor, then: Callable[[], bool] = lambda: False) -> None:
    """Walk over a block, edited in place; `then` is called before what is dead is dropped: whether it edited more."""
    visit = _careful(visit, {tensor.name for tensor in block.tensors if tensor.lifespan})
    is_changed = False
    now: dict[str, str] = {}
    for op in block.ops:
        if now:
            _read_instead(op.inputs, now)
        instead = visit(op)
        if instead is not None:
            is_changed = True
            now.update(zip(op.outputs, instead, strict=False))  # none at all if it was edited
    if now:
        _read_at_the_end(block, now)
        _keep_links(block, now)
    if not (then() or is_changed):
        return
    for op in block.ops:
        if op.in_place:
            del op.in_place[:]
    drop_dead_ops(block)


def _careful(visit: Visitor, declared: Set[str]) -> Visitor:
    """The visitor, without what it does to tensors of these names or their readers."""
    if not declared:
        return visit

    def careful(op: pb.OpDesc) -> Sequence[str] | None:
        if not declared.isdisjoint(op.outputs):
            return None
        before = pb.OpDesc()
        before.CopyFrom(op)
        instead = visit(op)
        if declared.isdisjoint(instead or ()) and declared.isdisjoint(set(op.inputs) - set(before.inputs)):
            return instead
        op.CopyFrom(before)
        return None

    return careful


def computation(op: pb.OpDesc) -> object:
    """What decides the bits of an op's outputs."""
    attributes = [attribute.SerializeToString() for attribute in op.attributes]
    return op.type, op.random_stream, tuple(op.inputs[:]), *attributes, *op.blocks


def _read_instead(names: object, now: dict[str, str]) -> None:
    for i, name in enumerate(names):  # pyright: ignore[reportArgumentType, reportUnknownVariableType, reportUnknownArgumentType]: a repeated field of strings
        if name in now:
            names[i] = now[name]  # pyright: ignore[reportIndexIssue, reportUnknownArgumentType]: as above


def _read_at_the_end(block: pb.BlockDesc, now: dict[str, str]) -> None:
    _read_instead(block.results, now)
    for end in (*block.fetches, *block.updates):
        end.tensor = now.get(end.tensor, end.tensor)


def _keep_links(block: pb.BlockDesc, now: dict[str, str]) -> None:
    """Let a tensor that replaces a gradient be known as that gradient.

    It can be known as one only: as that of a state if it is one's, else as what it was known as first.
    """
    states = {p.tensor for p in block.parameters if p.WhichOneof("source") == "state"}
    tensors = {tensor.name: tensor for tensor in block.tensors}
    for tensor in block.tensors:
        if tensor.gradient_of in now:
            tensor.gradient_of = now[tensor.gradient_of]
    for old, new in now.items():
        link, kept = tensors[old].gradient_of, tensors[new]
        if link and (not kept.gradient_of or (link in states and kept.gradient_of not in states)):
            kept.gradient_of = link
