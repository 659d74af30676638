"""The in-place law: the outputs of an op that may overwrite one of its operands.

1. The op has that output and that operand, and its kernel allows the pair.
2. The two have one type. A view has the bytes of its operand, so nothing is written: for it the law ends here.
3. Outside the arena no op overwrites a constant, a value that waits in the file or an argument of a block inside an
   op, whose memory belongs to that op. It overwrites a state only if the block updates that state.
4. The op reads the memory by that operand alone, and nothing reads it afterwards: no later op, no fetch, no update.
5. No output overwrites two operands, and no operand is overwritten by two outputs.

Rules 1 to 3 and the first half of 4 hold whatever the order of the ops: `never` checks them. `objection` checks all but
5, which concerns several pairs. `faults` checks all rules for every pair of a block.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property

from prograd_proto.blocks import BlockAnalysis, question
from runtime.step.aliases import made_outside, views_of
from runtime.step.effects import spills
from runtime.step.target import Pair, Target


class InPlaceLaw:
    """The in-place law for a block, valid while only the in-place pairs of the block are edited.

    Args:
        block: block in which every op reads only tensors that are defined before it.
        views: the positions of the ops whose output is the memory of their operand, in order.
        target: the engine that is to run it.
    """

    def __init__(self, block: BlockAnalysis, views: Collection[int], target: Target) -> None:
        self._block = block
        self._target = target
        self._views = set(views)
        self.begins: dict[str, str] = {}
        """The tensor whose bytes each view has, views of views included."""
        for i in views:
            x, y = block.inputs[i][0], block.outputs[i][0]
            self.begins[y] = self.begins.get(x, x)

    def never(self, i: int, output: int, position: int) -> str | None:
        """Return why op number i cannot overwrite this operand by this output in any order of ops; None if it can."""
        block, inputs, outputs = self._block, self._block.inputs[i], self._block.outputs[i]
        has_both = 0 <= output < len(outputs) and 0 <= position < len(inputs) and inputs[position]
        if not has_both or (output, position) not in self._target.in_place(block.op_types[i]):
            return f"its kernel cannot write output {output} over input {position}"
        if i in self._views:
            return None
        old, new = inputs[position], outputs[output]
        if block.types[new] != block.types[old]:
            return f"%{new} is {block.types[new]}, and cannot lie over %{old}: {block.types[old]}"
        value = self.begins.get(old, old)
        if value in self._kept:
            return f"it writes over {self._kept[value]}"
        if (inputs if not self.begins else [self.begins.get(name, name) for name in inputs]).count(value) > 1:
            return _read_again(old)
        return None

    def objection(self, i: int, output: int, position: int) -> str | None:
        """Return why op number i cannot overwrite this operand by this output at its position; None if it can."""
        why = self.never(i, output, position)
        if why is not None or i in self._views:
            return why
        old = self._block.inputs[i][position]
        return _read_again(old) if self.last_reads[self.begins.get(old, old)] > i else None

    @cached_property
    def last_reads(self) -> dict[str, int]:
        """The position of the last op that reads each tensor or a view of it; len(ops) is the end of the step."""
        block = self._block
        if not self._views:
            return block.use_def.last_uses
        last = dict(block.use_def.last_uses)
        for i in sorted(self._views, reverse=True):
            x, y = block.inputs[i][0], block.outputs[i][0]
            last[x] = max(last[x], last.get(y, -1))
        return last

    @cached_property
    def _kept(self) -> dict[str, str]:
        """Return the tensors outside the arena that no op overwrites, each with the reason in words."""
        block = self._block
        states = block.state_of.items()
        kept = {name: f"the state {state!r}, which stays" for name, state in states if state not in block.updates}
        kept.update(
            (name, f"the argument %{name}, which belongs to the op around the block") for name in block.arguments
        )
        for name in made_outside(block):
            waits = spills(block.op_types[block.use_def.makers[name]])
            kept[name] = f"%{name}, which waits in the file" if waits else f"the constant %{name}"
        return kept


@question(of_each_op=True)
def possible_pairs(block: BlockAnalysis, target: Target) -> list[Sequence[Pair]]:
    """Return for each op the pairs that the law allows in some order of the ops; none for a view."""
    views = set(views_of(block))
    law = InPlaceLaw(block, views_of(block), target)
    pairs_of = {op_type: target.in_place(op_type) for op_type in set(block.op_types)}
    return [
        [pair for pair in pairs if law.never(i, *pair) is None]
        if (pairs := pairs_of[op_type]) and i not in views
        else ()
        for i, op_type in enumerate(block.op_types)
    ]


def faults(block: BlockAnalysis, target: Target) -> Iterator[tuple[int, str]]:
    """Yield the position of each op with a pair that breaks the law, and the reason."""
    if not any(block.in_place):
        return
    law = InPlaceLaw(block, [i for i in views_of(block) if block.in_place[i]], target)
    for i, pairs in enumerate(block.in_place):
        why = _fault_of(law, block, i, pairs) if pairs else None
        if why is not None:
            yield i, why


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


def _fault_of(law: InPlaceLaw, block: BlockAnalysis, i: int, pairs: Sequence[Pair]) -> str | None:
    written, read = set[int](), set[int]()
    for output, position in pairs:
        why = law.objection(i, output, position)
        if why is not None:
            return why
        if output in written:
            return f"it writes %{block.outputs[i][output]} over two operands"
        if position in read:
            return f"it writes two outputs over %{block.inputs[i][position]}"
        written.add(output)
        read.add(position)
    return None


def _read_again(old: str) -> str:
    return f"it writes over %{old}, which is read again"
