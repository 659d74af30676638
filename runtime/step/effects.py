"""The effects of ops besides their operands and results, and their consequences for a step.

1. Ops with effects on one resource are ordered by it. An op that reads the resource comes after the last op that wrote
   it. An op that writes it comes after that one and after all that have read since. All other ops may be reordered.
2. An op with an observable effect is needed, whether or not any op reads its results.
3. An op with an effect runs exactly once for each occurrence in the program. It is not merged with an equal
   one, not computed in advance, and not rematerialised to save memory.

A confined effect is the exception to 1 and 2, and may be rematerialised. The op touches the resource only where its own
tensors lie, so the readers of these tensors, and their bytes, order it.

Random numbers are no effect. They are counter-based, so nothing depends on earlier draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from runtime.contract import FILE, Effect
from runtime.operators import CONTRACTS


def effects_of(op_type: str) -> tuple[Effect, ...]:
    """Return the effects of such ops besides their tensors; empty for an unknown op."""
    return CONTRACTS[op_type].effects if op_type in CONTRACTS else ()


def runs_once(op_type: str) -> bool:
    """Return True if number and order of such ops matter: they touch resources outside their own tensors."""
    return any(not effect.confined for effect in effects_of(op_type))


def is_observable(op_type: str) -> bool:
    """Return True if such ops are observable by anything but their results."""
    return any(effect.access == "writes" and not effect.confined for effect in effects_of(op_type))


def is_transfer(op_type: str) -> bool:
    """Return True if such ops only move a tensor to the file beside the arena, or back."""
    return any(effect.resource == FILE and effect.confined for effect in effects_of(op_type))


def spills(op_type: str) -> bool:
    """Return True if the output of such ops lies in the file beside the arena."""
    return Effect(FILE, "writes", confined=True) in effects_of(op_type)


@dataclass
class _Use:
    """The last op that wrote a resource, and those that have read it since."""

    writer: int | None = None
    readers: list[int] = field(default_factory=list[int])


def ordered_by_effects(ops: Sequence[Sequence[Effect]]) -> dict[int, set[int]]:
    """Return, for each op that is ordered by its effects, the earlier ops that must be done before it starts.

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
