"""The words of --lora: a pattern, and r and alpha behind a colon."""

from __future__ import annotations

import re

from compiler.build.program import Program
from compiler.errors import UsageError


def add_adapters(program: Program, words: list[str]) -> list[str]:
    """Add adapters as asked for; return the weights that have them.

    Raises UsageError for words that are not `PATTERN:r=8` or `PATTERN:r=8,alpha=16`, and OpError as `Program.lora`.
    """
    found: list[str] = []
    for text in words:
        match = re.fullmatch(r"(.+):r=(\d{1,6})(?:,alpha=(\d+(?:\.\d+)?))?", text)
        if match is None:
            raise UsageError(f"--lora {text}: write PATTERN:r=RANK, as in 'attn.*:r=8' or 'attn.*:r=8,alpha=16'")
        found += program.lora(match[1], r=int(match[2]), alpha=None if match[3] is None else float(match[3]))
    return found
