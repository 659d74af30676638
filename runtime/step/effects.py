"""What ops touch besides their operands and results, and what follows from it for a step.

1. Ops with effects on one resource are ordered by it: what reads it comes after the last op that wrote it, and what
   writes it after that one and after all that have read since. Everything else may change places.
2. An op whose effect others can see is needed, whether or not anything reads its results.
3. An op with an effect is computed as often as the program says: it is not merged with one that is alike, not
   computed beforehand, and not repeated to save memory.

A confined effect is the exception to 1 and 2, and may be repeated: the op touches the resource only where its own
tensors lie, so what reads them, and the bytes where they lie, order it.

Random numbers are no effect. They are counted, so nothing depends on what was drawn before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from runtime.contract import FILE, Effect
from runtime.operators import CONTRACTS


def effects_of(op_type: str) -> tuple[Effect, ...]:
    """What such ops touch besides their tensors; nothing for an unknown op."""
    return CONTRACTS[op_type].effects if op_type in CONTRACTS else ()


def runs_once(op_type: str) -> bool:
    """Whether it matters how often such ops run, and when: they touch what does not lie in their own tensors."""
    return any(not effect.confined for effect in effects_of(op_type))


def is_observable(op_type: str) -> bool:
    """Whether others can see that such ops ran, other than by their results."""
    return any(effect.access == "writes" and not effect.confined for effect in effects_of(op_type))


def is_transfer(op_type: str) -> bool:
    """Whether such ops only move a tensor to the file beside the arena, or back."""
    return any(effect.resource == FILE and effect.confined for effect in effects_of(op_type))


def spills(op_type: str) -> bool:
    """Whether the output of such ops lies in the file beside the arena."""
    return Effect(FILE, "writes", confined=True) in effects_of(op_type)


@dataclass
class _Use:
    """Of a resource: the last op that wrote it, and those that have read it since."""

    writer: int | None = None
    readers: list[int] = field(default_factory=list[int])


def ordered_by_effects(ops: Sequence[Sequence[Effect]]) -> dict[int, set[int]]:
    """For each op that is ordered by its effects the earlier ops that must be done before it starts.

    Args:
        ops: the effects of each op.
    """
    before: dict[int, set[int]] = {}
    uses: dict[str, _Use] = {}
    for i, effects in enumerate(ops):
        for resource, access, confined in effects:
            if confined:
                continue
            use = uses.setdefault(resource, _Use())
            if access == "reads":
                waits = {use.writer}
                use.readers.append(i)
            else:
                waits = {use.writer, *use.readers}
                use.writer, use.readers = i, []
            before.setdefault(i, set()).update(j for j in waits if j is not None and j != i)
    return before
