"""The words of --lora: patterns with commas between them, with r, alpha and dora behind a colon."""

from __future__ import annotations

import re

from compiler.build.program import Program
from compiler.errors import UsageError
from registry import OpError


def add_adapters(program: Program, words: list[str]) -> list[str]:
    """Add adapters as asked for; return the weights that have them.

    Raises UsageError for words that are not like `PATTERN:r=8,alpha=16,dora`, and for those that do not fit.
    """
    found: list[str] = []
    for text in words:
        match = re.fullmatch(r"(.+):r=(\d{1,6})(?:,alpha=(\d+(?:\.\d+)?))?(,dora)?", text)
        if match is None:
            raise UsageError(f"--lora {text}: write PATTERN:r=RANK, as in 'attn.*:r=8' or 'attn.*:r=8,alpha=16,dora'")
        try:
            alpha = None if match[3] is None else float(match[3])
            found += program.lora(*match[1].split(","), r=int(match[2]), alpha=alpha, dora=match[4] is not None)
        except OpError as error:
            reason = re.sub(r"^[^\s:]+\.py:\d+: ", "", str(error)).removeprefix("lora: ")  # the line of the command
            raise UsageError(f"--lora {text}: {reason}") from None
    return found
