"""Colours of a terminal; NO_COLOR (https://no-color.org), TERM=dumb and FORCE_COLOR choose for every stream."""

from __future__ import annotations

import os
from typing import Any, Final, Literal

Colour = Literal["bold", "dim", "red", "green", "yellow"]
"""A rendition that terminals have had since ECMA-48."""

_CODES: Final[dict[Colour, int]] = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33}


def has_colours(stream: Any) -> bool:
    """Return True if texts on this stream may have colours: it is a terminal, and the environment does not object."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    try:
        return bool(stream.isatty()) and os.environ.get("TERM") != "dumb"
    except (AttributeError, ValueError):  # no such stream, or a closed one
        return False


def painted(text: str, colour: Colour, stream: Any) -> str:
    """Return the text with the escape sequences of a colour, or as it is if the stream has no colours."""
    return f"\x1b[{_CODES[colour]}m{text}\x1b[0m" if text and has_colours(stream) else text
