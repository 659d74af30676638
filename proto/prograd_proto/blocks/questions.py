"""Derived facts about a block that are computed once and kept until an edit may change them.

An answer belongs to the reading of a block. A question declares which edits drop its answer:

* by default, any edit;
* an answer with an element for each op, which no order changes, survives a reordering: its elements move with their ops
  (`of_each_op`);
* an answer that depends on the blocks inside ops is not kept where there are any (`of_blocks`): nothing reports their
  edits to the block around them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

if TYPE_CHECKING:
    from prograd_proto.blocks.block_analysis import BlockAnalysis

P = ParamSpec("P")
T = TypeVar("T")


class Answers:
    """The known answers about one block, by question."""

    def __init__(self) -> None:
        self.of_each_op: dict[object, list[Any]] = {}
        self.others: dict[object, object] = {}

    def reordered(self, order: Sequence[int]) -> Answers:
        """Return the answers that survive a reordering of the ops, given by their positions."""
        kept = Answers()
        kept.of_each_op = {asked: [answer[i] for i in order] for asked, answer in self.of_each_op.items()}
        return kept


def question(
    *, of_each_op: bool = False, of_blocks: bool = False
) -> Callable[[Callable[Concatenate[BlockAnalysis, P], T]], Callable[Concatenate[BlockAnalysis, P], T]]:
    """Keep the answers of a function of a `BlockAnalysis` with the reading; callers must not edit them.

    Further arguments of the function are hashable and positional.
    """

    def declare(ask: Callable[Concatenate[BlockAnalysis, P], T]) -> Callable[Concatenate[BlockAnalysis, P], T]:
        @wraps(ask)
        def answer(block: BlockAnalysis, /, *args: P.args, **kwargs: P.kwargs) -> T:
            if of_blocks and block.has_sub_blocks:
                return ask(block, *args, **kwargs)
            answers = block.answers
            known: dict[object, Any] = answers.of_each_op if of_each_op else answers.others
            key = ask, *args
            if key not in known:
                known[key] = ask(block, *args, **kwargs)
            return known[key]

        return answer

    return declare
