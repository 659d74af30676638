"""The known answers about a block, which its reading keeps; `questions` says which edits drop them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


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
