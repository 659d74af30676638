"""Which of two ways to run a step is faster: found by turns, and again from time to time.

1. Ways that take turns meet the same machine, so what other processes take of it slows both.
2. The faster way runs some steps; then they take turns again. A verdict that stays the same holds for twice as many
   steps each time, so that looking costs less and less, and what was decided at a bad moment does not last.
"""

from __future__ import annotations

from typing import Final

TURNS: Final = 4
"""Steps of each way before a verdict."""

HOLDS: Final = 32
"""Steps for which a new verdict holds."""


class Contest:
    """Steps on several threads against steps in order.

    Attributes:
        at_once: whether the next step is one on several threads.
    """

    def __init__(self) -> None:
        self.at_once = True
        self._seconds = [0.0, 0.0]  # of the turns: in order, at once
        self._turns_left = 2 * TURNS
        self._holds: int = HOLDS
        self._left: int = 0
        self._won: bool | None = None  # by steps at once, the last time

    def note(self, seconds: float) -> None:
        """How long that step took."""
        if not self._turns_left:
            self._left -= 1
            if not self._left:
                self.at_once, self._turns_left = True, 2 * TURNS
            return
        self._seconds[self.at_once] += seconds
        self._turns_left -= 1
        self.at_once = not self.at_once
        if not self._turns_left:
            self._decide()

    def _decide(self) -> None:
        in_order, at_once = self._seconds
        self._holds = 2 * self._holds if self._won == (at_once < in_order) else HOLDS
        self.at_once = self._won = at_once < in_order
        self._left, self._seconds = self._holds, [0.0, 0.0]
