"""The in-place law: the outputs of an op that overwrite one of its operands.

1. The op has that output and that operand, and its kernel allows the pair.
2. The two have one type.
3. Outside the arena no op overwrites a constant, a value that waits in the file or an argument of a block inside an
   op, whose memory belongs to that op. It overwrites a state only if the block updates that state.
4. The op reads the memory by that operand alone, and nothing reads it afterwards: no later op, no op that runs
   meanwhile, no fetch, no update.
5. A state that gets a new value elsewhere is only overwritten by values that die before the end of the step.
6. No output overwrites two operands, and no operand is overwritten by two outputs. A state is preferred over an operand
   in the arena, because that takes no memory.

Rules 1 to 3 and the first half of 4 hold whatever the order of the ops: `possible_pairs` are the pairs that keep them.
A view has the bytes of its operand, whatever else reads either, and writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from math import inf
from typing import Final, NamedTuple

from prograd_proto.blocks import BlockAnalysis, question
from runtime.step.aliases import Aliases, made_outside, views_of
from runtime.step.target import Pair, Target

END: Final = inf
"""The time of the end of a step, which fetches and updates read."""


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
    return _Walk(block, phases or range(len(block.ops)), [*block.ends, *pinned]).aliases(possible_pairs(block, target))


def chosen(pairs: Sequence[Pair], over_a_state: Callable[[int], bool], may: Callable[[int, int], bool]) -> list[Pair]:
    """Return the pairs (written, read) that an op gets, in order.

    Pairs over a state come first, because a state takes no memory of the arena. No tensor is in two pairs.

    Args:
        pairs: pairs that the law allows in some order of the ops.
        over_a_state: returns True if an operand lies in the memory of a state.
        may: returns True if a pair is allowed at the position of the op.
    """
    if len(pairs) == 1:
        return [*pairs] if may(*pairs[0]) else []
    taken: list[Pair] = []
    for written, read in sorted(pairs, key=lambda pair: not over_a_state(pair[1])):
        if may(written, read) and all(written != one and read != other for one, other in taken):
            taken.append((written, read))
    return taken


def leaves_no_copy(new_value: bool, lasts: bool) -> bool:
    """Return True if a tensor in the memory of a state needs no copy before the state gets its new value.

    That holds if the tensor is the new value, or if the end of the step does not read it. Otherwise it would be copied
    to memory that no plan has.
    """
    return new_value or not lasts


class _Reads(NamedTuple):
    """The last read of each value.

    Attributes:
        time: by value, the time of the last read.
        reader: by value, the only op that reads it at that time; -1 if several ops or the end of the step do.
    """

    time: dict[str, float]
    reader: dict[str, int]


class _Walk:
    """One walk over a block that finds the tensor in whose memory each one is."""

    def __init__(self, block: BlockAnalysis, times: Sequence[int], ends: Sequence[str]) -> None:
        self._block = block
        self._begins = begins_of(block)
        self._reads = _last_reads(block, self._begins, times, ends)
        self._becomes = _new_values(block, self._begins)
        self._root = {name: name for name in block.parameter_names}

    def aliases(self, possible: Sequence[Sequence[Pair]]) -> Aliases:
        """Return the aliases if these pairs are possible."""
        block, root = self._block, self._root
        views = set(views_of(block))
        in_place: list[Sequence[Pair]] = []
        for i, (inputs, outputs, pairs) in enumerate(zip(block.inputs, block.outputs, possible, strict=True)):
            taken = _OF_A_VIEW if i in views else self._taken(i, pairs) if pairs else ()
            for name in outputs:
                root[name] = name
            for output, position in taken:
                root[outputs[output]] = root[inputs[position]]
            in_place.append(taken)
        last_read: dict[str, float] = {}
        for name, time in self._reads.time.items():
            place = root[name]
            last_read[place] = max(last_read.get(place, time), time)
        return Aliases(root, last_read, views, in_place)

    def _taken(self, i: int, pairs: Sequence[Pair]) -> Sequence[Pair]:
        """Return the possible pairs of an op that are in place, in order."""
        inputs, outputs = self._block.inputs[i], self._block.outputs[i]
        root, becomes, begins, (times, reader) = self._root, self._becomes, self._begins, self._reads

        def may(output: int, position: int) -> bool:
            old, new = inputs[position], outputs[output]
            if reader[begins.get(old, old)] != i:
                return False
            place = root[old]
            return place not in becomes or leaves_no_copy(becomes[place] == new, times.get(new) == END)

        return sorted(chosen(pairs, lambda position: root[inputs[position]] in becomes, may))


_OF_A_VIEW: Final = ((0, 0),)


def _last_reads(block: BlockAnalysis, begins: dict[str, str], times: Sequence[int], ends: Sequence[str]) -> _Reads:
    """Return the last read of each tensor, or of a view of it."""
    last: dict[str, float] = {}
    reader: dict[str, int] = {}
    views = set(views_of(block))
    for i, (inputs, time) in enumerate(zip(block.inputs, times, strict=True)):
        for name in inputs if i not in views else ():
            value = begins.get(name, name)
            known = last.get(value, -1)
            if time >= known and reader.get(value) != i:
                last[value], reader[value] = time, -1 if time == known else i
    for name in ends:
        value = begins.get(name, name)
        last[value], reader[value] = END, -1
    last.pop("", None)  # an operand that is absent
    return _Reads(last, reader)


def _kept(block: BlockAnalysis) -> set[str]:
    """Return the tensors outside the arena that no op overwrites."""
    states = {name for name, state in block.state_of.items() if state not in block.updates}
    return {*states, *block.arguments, *made_outside(block)}


def _new_values(block: BlockAnalysis, begins: dict[str, str]) -> dict[str, str]:
    """Return the new value of each state that the block updates, or the tensor of which that is a view."""
    becomes = {state: begins.get(tensor, tensor) for state, tensor in block.updates.items()}
    return {tensor: becomes[state] for tensor, state in block.state_of.items() if state in becomes}
