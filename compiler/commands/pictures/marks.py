"""Colours of stages, and words with nothing in them that is a mark of the language."""

from __future__ import annotations

from html import escape
from typing import Final

from prograd_proto.printable import sentence

STAGE_COLOURS: Final = {"forward": "#4c86c6", "gradient": "#e0863c", "derivative": "#e5b53b", "update": "#a877c9"}


def safe(words: str) -> str:
    """Words with nothing in them that is a mark of the language, or that paper cannot show."""
    return escape("\n".join(map(sentence, words.split("\n"))), quote=True)
