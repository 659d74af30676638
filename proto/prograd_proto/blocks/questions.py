"""Derived facts about a block that are computed once and kept until an edit may change them.

An answer belongs to the reading of a block. A question declares which edits drop its answer:

* by default, any edit;
* an answer with an element for each op, which no order changes, survives a reordering: its elements move with their ops
  (`of_each_op`);
* an answer that depends on the blocks inside ops is not kept where there are any (`of_blocks`): nothing reports their
  edits to the block around them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from prograd_proto.blocks.block_analysis import BlockAnalysis

P = ParamSpec("P")
T = TypeVar("T")


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
