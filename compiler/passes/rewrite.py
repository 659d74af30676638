"""One walk over a block that removes ops, shared by merging, simplifying and folding.

1. The ops are visited in order, so that all operands of an op are final when it is visited. A visitor leaves the op,
   edits it, or gives tensors of its outputs' types that have the same bits: those take the outputs' place.
2. All readers of a replaced tensor read the other one: later ops, fetches, updates, results and links of gradients.
3. A tensor with a declared lifespan keeps its op as it is and its readers: it is not replaced, and it replaces
   nothing.
4. Ops, tensors and parameters that are no longer needed are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set

from compiler.passes.eliminate_dead_ops import drop_dead_ops
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalysis

EDITED: Sequence[str] = ()

Visitor = Callable[[int], Sequence[str] | None]
"""A function from the position of an op to the change that it made.

It returns tensors that replace the op's outputs, `EDITED` if it changed the op's message, or None.
"""


def rewrite(block: BlockAnalysis, visit: Visitor, then: Callable[[], bool] = lambda: False) -> None:
    """Walk over a block, edited in place; call `then` before dead code removal: it returns True if it edited more."""
    is_changed, now = _visited(block, _careful(block, visit))
    if now:
        _read_at_the_end(block, now)
        _keep_links(block, now)
    if not (then() or is_changed):
        return
    drop_dead_ops(block)


def _visited(block: BlockAnalysis, visit: Visitor) -> tuple[bool, dict[str, str]]:
    """Visit the ops in order; return True if something was changed, and the replacements of tensors."""
    is_changed = False
    now: dict[str, str] = {}
    for i in range(len(block.ops)):
        if now and not now.keys().isdisjoint(block.inputs[i]):
            _read_instead(block.ops[i].inputs, now)
            block.read_again(i)
        instead = visit(i)
        if instead is None:
            continue
        is_changed = True
        if instead:
            now.update(zip(block.outputs[i], instead, strict=False))
        else:
            block.read_again(i)
    return is_changed, now


def _careful(block: BlockAnalysis, visit: Visitor) -> Visitor:
    """Return the visitor without its changes to tensors with a declared lifespan or their readers."""
    declared = {name for name, tensor in zip(block.names, block.tensors, strict=True) if tensor.lifespan}
    return _sparing(block, visit, declared) if declared else visit


def _sparing(block: BlockAnalysis, visit: Visitor, declared: Set[str]) -> Visitor:
    def careful(i: int) -> Sequence[str] | None:
        if not declared.isdisjoint(block.outputs[i]):
            return None
        op, before = block.ops[i], pb.OpDesc()
        before.CopyFrom(op)
        instead = visit(i)
        if declared.isdisjoint(instead or ()) and declared.isdisjoint(set(op.inputs) - set(before.inputs)):
            return instead
        op.CopyFrom(before)
        block.read_again(i)
        return None

    return careful


def computation(block: BlockAnalysis, i: int) -> object:
    """Return a key of the inputs that determine the output bits of op number i."""
    return (
        block.op_types[i],
        block.ops[i].random_stream,
        tuple(block.inputs[i]),
        block.attributes[i],
        tuple(block.blocks[i]),
    )


def _read_instead(names: object, now: Mapping[str, str]) -> None:
    for i, name in enumerate(names):  # pyright: ignore[reportArgumentType, reportUnknownVariableType, reportUnknownArgumentType]: a repeated field of strings
        if name in now:
            names[i] = now[name]  # pyright: ignore[reportIndexIssue, reportUnknownArgumentType]: as above


def _read_at_the_end(block: BlockAnalysis, now: Mapping[str, str]) -> None:
    _read_instead(block.desc.results, now)
    for end in (*block.desc.fetches, *block.desc.updates):
        end.tensor = now.get(end.tensor, end.tensor)
    block.ends_edited()


def _keep_links(block: BlockAnalysis, now: Mapping[str, str]) -> None:
    """Record a tensor that replaces a gradient as that gradient.

    It can have one such link only: the link to a state if there is one, else its first link.
    """
    states = block.state_of
    tensors = dict(zip(block.names, block.tensors, strict=True))
    for tensor in block.tensors:
        if tensor.gradient_of in now:
            tensor.gradient_of = now[tensor.gradient_of]
    for old, new in now.items():
        link, kept = tensors[old].gradient_of, tensors[new]
        if link and (not kept.gradient_of or (link in states and kept.gradient_of not in states)):
            kept.gradient_of = link
