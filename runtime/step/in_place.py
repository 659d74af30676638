"""The pairs of values that the ops of a block may write one over the other, and those that the law takes.

Of an output and an operand of an op:

1. The op has both, and its kernel allows the pair.
2. The two have one type.
3. Outside the arena no op overwrites a constant, a value that waits in the file or an argument of a block inside an
   op, whose memory belongs to that op. It overwrites a state only if the block updates that state.
4. The op reads the memory by that operand alone.

These hold whatever the order of the ops: `possible_pairs` are the pairs that keep them. Which of them are taken depends
on the order, by the law of all engines (`runtime.step.written_over`). A view has the bytes of its operand, whatever
else reads either, and writes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from prograd_proto.blocks import BlockAnalysis, question
from runtime.step.aliases import Aliases, made_outside, views_of
from runtime.step.clock import Unit, Uses, lifetimes_of
from runtime.step.target import Pair, Target
from runtime.step.written_over import written_over

_OF_A_VIEW: Final = ((0, 0),)


@question()
def begins_of(block: BlockAnalysis) -> dict[str, str]:
    """Return the tensor whose bytes each view has, views of views included."""
    begins: dict[str, str] = {}
    for i in views_of(block):
        x, y = block.inputs[i][0], block.outputs[i][0]
        begins[y] = begins.get(x, x)
    return begins


@question(of_each_op=True)
def possible_pairs(block: BlockAnalysis, target: Target) -> list[Sequence[Pair]]:
    """Return for each op the pairs that the law allows in some order of the ops; none for a view."""
    views, begins, kept = set(views_of(block)), begins_of(block), _kept(block)
    types = block.types

    def is_possible(inputs: Sequence[str], outputs: Sequence[str], pair: Pair) -> bool:
        output, position = pair
        if output >= len(outputs) or position >= len(inputs) or not inputs[position]:
            return False
        old, new = types[inputs[position]], types[outputs[output]]
        if old is not new and old != new:
            return False
        value = begins.get(inputs[position], inputs[position])
        return value not in kept and [begins.get(name, name) for name in inputs].count(value) == 1

    pairs_of = {op_type: target.in_place(op_type) for op_type in set(block.op_types)}
    return [
        [pair for pair in pairs if is_possible(inputs, outputs, pair)]
        if (pairs := pairs_of[op_type]) and i not in views
        else ()
        for i, (op_type, inputs, outputs) in enumerate(zip(block.op_types, block.inputs, block.outputs, strict=True))
    ]


def aliases_of(
    block: BlockAnalysis, target: Target, pinned: Collection[str] = (), phases: Sequence[int] | None = None
) -> Aliases:
    """Return the tensors of a block that share memory on an engine.

    Args:
        block: block in which every op reads only tensors that are defined before it.
        target: the engine that is to run it.
        pinned: tensors that the end of the step reads besides fetches and updates.
        phases: for each op the number of its phase, if the ops of a phase run in any order; None for one after another.
    """
    return _aliases_of(block, target, frozenset(pinned), None if phases is None else tuple(phases))


@question()
def _aliases_of(
    block: BlockAnalysis, target: Target, pinned: frozenset[str], phases: tuple[int, ...] | None
) -> Aliases:
    begins, views = begins_of(block), views_of(block)
    units = list(_units(block, target, phases or range(len(block.ops))))
    uses = Uses(units, [begins.get(name, name) for name in (*block.ends, *pinned)])
    over = written_over(units, uses, _new_values(block, begins))
    root = {name: name for name in block.parameter_names}
    for outputs in block.outputs:
        root.update([(name, root[over[name]] if name in over else name) for name in outputs])
    root.update([(name, root[value]) for name, value in begins.items()])
    in_place: list[Sequence[Pair]] = [
        sorted(pair for pair in pairs if over.get(outputs[pair[0]]) == begins.get(inputs[pair[1]], inputs[pair[1]]))
        for pairs, inputs, outputs in zip(possible_pairs(block, target), block.inputs, block.outputs, strict=True)
    ]
    for i in views:
        in_place[i] = _OF_A_VIEW
    return Aliases(root, lifetimes_of(units, uses, root), set(views), in_place)


def _units(block: BlockAnalysis, target: Target, phases: Sequence[int]) -> Iterator[Unit]:
    """Yield each op as a unit; a view computes nothing."""
    begins, views = begins_of(block), set(views_of(block))
    columns = zip(block.inputs, block.outputs, possible_pairs(block, target), phases, strict=True)
    for i, (inputs, outputs, pairs, phase) in enumerate(columns):
        if i in views:
            yield Unit((), (), phase, phase)
            continue
        values = [begins.get(name, name) for name in inputs]
        over = [(outputs[output], values[position]) for output, position in pairs]
        yield Unit([value for value in values if value], outputs, phase, phase, over)


def _kept(block: BlockAnalysis) -> set[str]:
    """Return the tensors outside the arena that no op overwrites."""
    states = {name for name, state in block.state_of.items() if state not in block.updates}
    return {*states, *block.arguments, *made_outside(block)}


def _new_values(block: BlockAnalysis, begins: dict[str, str]) -> dict[str, str]:
    """Return the new value of each state that the block updates, or the tensor of which that is a view."""
    becomes = {state: begins.get(tensor, tensor) for state, tensor in block.updates.items()}
    return {tensor: becomes[state] for tensor, state in block.state_of.items() if state in becomes}
