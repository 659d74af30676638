"""The optimizer and the steps of each group of parameters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from compiler.errors import CompileError
from compiler.train.optimizers import Optimizer
from registry import Block, Value, ops

Group = tuple[Sequence[Value], Optimizer]
"""Parameters with an optimizer of their own."""


@dataclass(frozen=True)
class Cadence:
    """The steps at which updates happen.

    Attributes:
        block: the training block.
        every: steps per update.
        waits: True if this step ends without an update, a rank-0 bool tensor; None if none does. The old value of a
            state is the first choice of a `where` by it, which may overwrite it in place.
    """

    block: Block
    every: int
    waits: Value | None

    @staticmethod
    def of(block: Block, every: int) -> Cadence:
        """Append the ops that determine if an update must wait."""
        waits = None if every == 1 else ops.not_equal((block.state("step") + 1) % every, 0)
        return Cadence(block, every, waits)

    def done(self) -> Value:
        """Return the updates done before this step, a rank-0 int64 tensor."""
        step = self.block.state("step")
        return step if self.every == 1 else step // self.every


def require_pairs(groups: Sequence[Group]) -> None:
    """Raise CompileError for groups that are no list of pairs, each with a list of parameters."""
    if not isinstance(groups, list | tuple) or not all(map(_is_pair, groups)):
        raise CompileError(f"minimize: groups={groups!r} is not a list of pairs, as [([w, b], adam(1e-4))] is")


def _is_pair(group: Any) -> bool:
    is_pair = isinstance(group, list | tuple) and len(cast(Sequence[Any], group)) == 2
    return is_pair and isinstance(group[0], Iterable) and not isinstance(group[0], Value)


def grouped(
    trained: Sequence[Value], optimizer: Optimizer, groups: Sequence[Group]
) -> list[tuple[Optimizer, list[Value]]]:
    """Return the optimizers with the parameters of each: the rest first, then the groups.

    Raises CompileError for a parameter that is in two groups or is not trained.
    """
    names = {w.name for w in trained}
    taken: set[str] = set()
    for parameters, _ in groups:
        for w in parameters:
            if w.name not in names:
                raise CompileError(f"minimize: {w!r} is in a group, and the loss does not train it")
            if w.name in taken:
                raise CompileError(f"minimize: {w!r} is in two groups; one optimizer trains it")
            taken.add(w.name)
    rest = [w for w in trained if w.name not in taken]
    first = [(optimizer, rest)] if rest else []
    return first + [(own, list(parameters)) for parameters, own in groups]
