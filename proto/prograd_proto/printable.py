"""Text for a terminal, a table, a result line or a picture: one line of bounded length, without control characters.

A name in a file may contain anything: line ends that would add a line to a result, escape sequences that a terminal
obeys, invisible characters or those that change the direction of writing, or ten million characters. All output text
passes through this module. Escapes are JSON's, which the text form reads back.
"""

import codecs
import re
import sys
from collections.abc import Iterable
from io import TextIOWrapper
from typing import Final

MAX_SENTENCE_CHARACTERS: Final = 400
"""Upper bound on the characters of a sentence."""

MAX_ERROR_CHARACTERS: Final = 1000
"""Upper bound on the characters of an error in Python, which may list several things."""

MAX_WORD_CHARACTERS: Final = 200
"""Upper bound on the characters of a name or value in a result line, and of a cell in a table."""

_UNSEEN: Final = re.compile(  # printable by their category, but invisible
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
_INDENTED: Final = re.compile("\n +")
_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}


def printable(text: str) -> str:
    """Return the text on one line, with JSON escapes for characters that a terminal acts upon or hides."""
    if text.isprintable() and (text.isascii() or not _UNSEEN.search(text)):
        return text
    return "".join(c if c.isprintable() and not _UNSEEN.match(c) else _escaped(c) for c in text)


def sentence(text: str, most: int = MAX_SENTENCE_CHARACTERS) -> str:
    """Return the text printable, and without its middle if it is longer than `most` characters."""
    return _shortened(printable(_shortened(text, most)), most)


def error_text(text: str) -> str:
    """Return the text of an error printable; arrays in it, which Python prints on indented lines, are on one."""
    return sentence(_INDENTED.sub(" ", text), MAX_ERROR_CHARACTERS)


def shown(value: object) -> str:
    """Return a value of any kind for the text of an error."""
    return sentence(_INDENTED.sub(" ", repr(value)))


def word(text: str) -> str:
    """Return the text as a value of a result line: printable, of bounded length, with `_` for spaces."""
    return sentence(text, MAX_WORD_CHARACTERS).replace(" ", "_")


def result_line(verdict: str, fields: Iterable[tuple[str, object]]) -> str:
    """Return a word, then names and values without spaces: `OK entry=train loss=0.0213`."""
    return " ".join([verdict, *(f"{field_name(name)}={value_word(value)}" for name, value in fields)])


def field_name(text: str) -> str:
    """Return the text as the name of a field in a result line."""
    return word(text).replace("=", "_")


def value_word(value: object) -> str:
    """Return a value as a result line has it: six digits of a float, and no spaces."""
    return f"{value:.6g}" if isinstance(value, float) else word(str(value))


def use_escapes_on_output() -> None:
    """Let stdout and stderr write an escape for characters that their encoding lacks, such as ASCII."""
    codecs.register_error("prograd", _escaped_for_codec)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="prograd")


def _shortened(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    head = most * 2 // 3
    return f"{text[:head]}...{text[head + 3 - most :]}"


def _escaped(text: str) -> str:
    """Return the text as JSON escapes it, without the time of importing `json`."""
    return "".join(_SHORT.get(c) or _units(c) for c in text)


def _units(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))


def _escaped_for_codec(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return _escaped(error.object[error.start : error.end]), error.end
