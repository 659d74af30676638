"""Warnings of values that a server replaces: the first of each kind, and then each time that ten times as many came.

A kind is a column whose values are not known, or what is not read of images. Requests of strangers must not fill a log,
and yet the log tells how many there were.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

GROWTH: Final = 10
"""Factor by which the rows with replaced values grow from one warning of a kind to the next."""


@contextmanager
def rare_warnings() -> Generator[None]:
    """Let few of the warnings of replaced values through, with their total."""
    logger, few = logging.getLogger("prograd"), _Few()
    logger.addFilter(few)
    try:
        yield
    finally:
        logger.removeFilter(few)


class _Few(logging.Filter):
    def __init__(self) -> None:
        super().__init__()
        self._totals: Counter[str] = Counter()
        self._next: dict[str, int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return True for a warning of something else, and for one that is due."""
        replaced: tuple[str, int] | None = getattr(record, "replaced", None)
        if replaced is None:
            return True
        name, count = replaced
        self._totals[name] += count
        total = self._totals[name]
        if total < self._next.get(name, 1):
            return False
        self._next[name] = GROWTH * total
        if total > count:
            record.msg, record.args = f"{record.getMessage()}; so far in {total} rows", ()
        return True
