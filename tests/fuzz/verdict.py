"""Verdict of a judge."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Verdict:
    """One comparison.

    Attributes:
        word: agreed, differs or skipped.
        judge: which.
        what: was compared.
        detail: what differs, or the reason to skip.
    """

    word: str
    judge: str
    what: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.judge}: {self.what} {self.word}{': ' if self.detail else ''}{self.detail}"
