"""The time that checkpoints take, and a warning where it is most of a run: those of short epochs, for example."""

from __future__ import annotations

import logging
import math
from collections.abc import Generator
from contextlib import contextmanager
from time import perf_counter
from typing import Final

from prograd_proto.wording import as_asked

_log = logging.getLogger("prograd")

MIN_SECONDS: Final = 1.0
"""Seconds of checkpoints from which a run is told."""

MAX_SHARE: Final = 0.5
"""Share of the time of a run that checkpoints may take."""

GOOD_SHARE: Final = 0.05
"""Share of the time that they take with the steps between them that are proposed."""


class CheckpointCost:
    """The seconds of a run, and those in which it wrote checkpoints."""

    def __init__(self) -> None:
        self._start = perf_counter()
        self._seconds = 0.0
        self._count = 0

    @contextmanager
    def of_one(self) -> Generator[None]:
        """Count a checkpoint, and the time until the block ends."""
        start = perf_counter()
        yield
        self._seconds += perf_counter() - start
        self._count += 1

    def warn(self, steps: int) -> None:
        """Log a warning if checkpoints took most of the time of these steps, with the steps that would pay."""
        total = perf_counter() - self._start
        if not steps or self._seconds < MIN_SECONDS or self._seconds < MAX_SHARE * total:
            return
        between = self._seconds / self._count / GOOD_SHARE / max((total - self._seconds) / steps, 1e-9)
        digit = 10 ** math.floor(math.log10(max(between, 1)))
        every = math.ceil(between / digit) * digit
        _log.warning(
            "%d checkpoints took %.1f of %.1f seconds; %s writes fewer",
            *(self._count, self._seconds, total, as_asked(f"--every {every}", f"every={every}")),
        )
