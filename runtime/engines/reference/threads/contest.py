"""A comparison of two ways to run a step by alternating them, repeated from time to time.

1. Ways that alternate run on the same machine at the same time, so the load of other processes slows both.
2. The faster way runs some steps; then the two alternate again. A verdict that stays the same holds for twice as many
   steps each time. So the comparison costs less and less, and a decision made at a bad moment does not last.
"""

from __future__ import annotations

from typing import Final

TRIAL_STEPS_PER_WAY: Final = 4
"""Number of steps of each way before a verdict."""

VERDICT_STEPS: Final = 32
"""Number of steps for which a new verdict holds."""


class Contest:
    """Steps on several threads against steps in order.

    Attributes:
        at_once: True if the next step is one on several threads.
    """

    def __init__(self) -> None:
        self.at_once = True
        self._seconds = [0.0, 0.0]  # in these turns: in order, at once
        self._turns_left = 2 * TRIAL_STEPS_PER_WAY
        self._holds: int = VERDICT_STEPS
        self._left: int = 0
        self._won: bool | None = None  # True if steps at once were faster the last time

    def note(self, seconds: float) -> None:
        """Note the seconds of that step."""
        if not self._turns_left:
            self._left -= 1
            if not self._left:
                self.at_once, self._turns_left = True, 2 * TRIAL_STEPS_PER_WAY
            return
        self._seconds[self.at_once] += seconds
        self._turns_left -= 1
        self.at_once = not self.at_once
        if not self._turns_left:
            self._decide()

    def _decide(self) -> None:
        in_order, at_once = self._seconds
        self._holds = 2 * self._holds if self._won == (at_once < in_order) else VERDICT_STEPS
        self.at_once = self._won = at_once < in_order
        self._left, self._seconds = self._holds, [0.0, 0.0]
