"""Colours of stages, and text escaped for HTML."""

from __future__ import annotations

from html import escape
from typing import Final

from prograd_proto.printable import sentence

STAGE_COLOURS: Final = {"forward": "#4c86c6", "gradient": "#e0863c", "derivative": "#e5b53b", "update": "#a877c9"}


def safe(words: str) -> str:
    """Return text escaped for HTML, without characters that cannot be shown."""
    return escape("\n".join(map(sentence, words.split("\n"))), quote=True)
