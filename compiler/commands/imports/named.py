"""Names of imported programs."""

from __future__ import annotations

import re
from pathlib import Path


def name_of(output: str) -> str | None:
    """Return the name of a program: that of its file, so that programs in one folder share no file of weights."""
    return re.sub(r"\W", "_", Path(output).stem) or None
