"""Names of imported programs."""

from __future__ import annotations

import re
from pathlib import Path


def name_of(output: str) -> str | None:
    """Return the name of a program, that of its file: programs in one folder have files of weights of their own."""
    return re.sub(r"\W", "_", Path(output).stem) or None
