"""Questions about a block that are answered once, until an edit may change the answer.

An answer belongs to the reading of a block. A question says with what it goes:

* with any edit, unless it says otherwise;
* not with another order of the ops, if the answer is a list with an element for each op that no order changes: the
  elements move with their ops (`of_each_op`);
* not with marks of what is in place, unless it asks for them (`of_marks`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

if TYPE_CHECKING:
    from prograd_proto.blocks.reading import Reading

P = ParamSpec("P")
T = TypeVar("T")


class Answers:
    """The answers that are known of one block, by question."""

    def __init__(self) -> None:
        self.of_each_op: dict[object, list[Any]] = {}
        self.of_marks: dict[object, object] = {}
        self.others: dict[object, object] = {}

    def reordered(self, order: Sequence[int]) -> Answers:
        """What is still known when the ops are in another order, given by their positions."""
        kept = Answers()
        kept.of_each_op = {asked: [answer[i] for i in order] for asked, answer in self.of_each_op.items()}
        return kept

    def without_marks(self) -> Answers:
        """What is still known when other outputs are in place."""
        if not self.of_marks:
            return self
        kept = Answers()
        kept.of_each_op, kept.others = self.of_each_op, self.others
        return kept


def question(
    *, of_each_op: bool = False, of_marks: bool = False
) -> Callable[[Callable[Concatenate[Reading, P], T]], Callable[Concatenate[Reading, P], T]]:
    """Let the answers of a function of a `Reading` be kept with the reading; callers do not edit them.

    What else the function takes is hashable, and given by position.
    """

    def declare(ask: Callable[Concatenate[Reading, P], T]) -> Callable[Concatenate[Reading, P], T]:
        @wraps(ask)
        def answer(block: Reading, /, *args: P.args, **kwargs: P.kwargs) -> T:
            answers = block.answers
            known: dict[object, Any] = (
                answers.of_each_op if of_each_op else answers.of_marks if of_marks else answers.others
            )
            key = ask, *args
            if key not in known:
                known[key] = ask(block, *args, **kwargs)
            return known[key]

        return answer

    return declare
