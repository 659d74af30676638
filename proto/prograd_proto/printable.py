"""What leaves for a terminal, a table, a result line or a picture: one line of bounded length, and nothing that acts.

A name in a file may hold anything: line ends that would add a line to a result, escape sequences that a terminal obeys,
characters that turn the direction of writing or cannot be seen, or ten million letters. All words pass here on their
way out. Escapes are JSON's, which the text form reads back.
"""

import codecs
import re
import sys
from collections.abc import Iterable
from io import TextIOWrapper
from typing import Final

MOST: Final = 400
"""Letters of the longest sentence."""

WORD: Final = 200
"""Letters of the longest name or value in a result line, and of the longest cell in a table."""

_UNSEEN: Final = re.compile(  # printable by their category, and drawn as nothing at all
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}


def printable(text: str) -> str:
    """Return the text on one line, with JSON's escape in place of whatever a terminal would act upon or hide."""
    if text.isprintable() and (text.isascii() or not _UNSEEN.search(text)):
        return text
    return "".join(c if c.isprintable() and not _UNSEEN.match(c) else _escaped(c) for c in text)


def sentence(text: str, most: int = MOST) -> str:
    """Return the text printable and, where it is longer than `most` letters, without its middle."""
    return _shortened(printable(_shortened(text, most)), most)


def word(text: str) -> str:
    """Return the text as a value of a result line: printable, of bounded length, with `_` for spaces."""
    return sentence(text, WORD).replace(" ", "_")


def result_line(verdict: str, fields: Iterable[tuple[str, object]]) -> str:
    """Return `OK entry=train loss=0.0213`: a word, then names and values without spaces."""
    return " ".join([verdict, *(f"{field_name(name)}={_value(value)}" for name, value in fields)])


def field_name(text: str) -> str:
    """Return the text as the name of a field in a result line."""
    return word(text).replace("=", "_")


def use_escapes_on_output() -> None:
    """Let stdout and stderr write an escape for what their encoding lacks, as an ASCII terminal's does."""
    codecs.register_error("prograd", _escaped_for_codec)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="prograd")


def _value(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else word(str(value))


def _shortened(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    head = most * 2 // 3
    return f"{text[:head]}...{text[head + 3 - most :]}"


def _escaped(text: str) -> str:
    """As JSON writes it, without the time that importing `json` takes."""
    return "".join(_SHORT.get(c) or _units(c) for c in text)


def _units(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))


def _escaped_for_codec(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return _escaped(error.object[error.start : error.end]), error.end
