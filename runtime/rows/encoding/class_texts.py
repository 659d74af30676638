"""The one spelling of a class: the text by which values are compared, from whatever source they come.

The values of a column decide together what they are: numbers, booleans, dates, or other texts. Within each of these,
values with one meaning have one text: 1.0 and "1", True and "true", 2024-03-01 00:00 and "2024-03-01". Texts have no
blanks around them and the composed form of Unicode. docs/data.md has the table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, Literal
from unicodedata import normalize

import numpy as np

from runtime.dtypes import Array
from runtime.rows.encoding.values import date_text, mapped, number_text, texts_of

Form = Literal["number", "boolean", "date", "text"]
FORMS: Final = ("number", "boolean", "date", "text")

BOOLEANS: Final[Mapping[str, str]] = {
    spelling: text for text in ("false", "true") for spelling in (text, text.capitalize(), text.upper())
}
"""The spellings of booleans, and the one by which they are compared."""

MAX_DIGITS: Final = 400
"""Upper bound on the characters of a number; longer texts of digits are texts."""

_NUMBER: Final = re.compile(r"[+-]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,9})?")
"""A number in decimal; a code with a leading zero, such as 007, is not a number. `Decimal` has no longer exponents."""

_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]*")

_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9].*)?")


def class_texts(raw: Array) -> Array:
    """Return values as texts without blanks around them and in the composed form of Unicode, "" where one misses."""
    return mapped(texts_of(raw).tolist(), _composed)


def form_of(texts: Iterable[str]) -> Form:
    """Return what all these texts are, apart from missing ones; texts if there are none."""
    there = {text for text in texts if text}
    if there <= BOOLEANS.keys():
        return "boolean" if there else "text"
    if all(map(_is_number, there)):
        return "number"
    return "date" if all(_date(text) is not None for text in there) else "text"


def canonical(text: str, form: Form) -> str:
    """Return the spelling by which a text is compared with others of a form; a text of another form stays as it is."""
    text = _composed(text)
    match form:
        case "boolean":
            return BOOLEANS.get(text, text)
        case "number":
            return _number(text) if _is_number(text) else text
        case "date":
            date = _date(text)
            return text if date is None else date_text(date)
        case "text":
            return text


def class_order(form: Form, texts: Iterable[str]) -> list[str]:
    """Return different texts in the order of their numbers, if all are numbers or whole in digits, or of letters."""
    found = set(texts)
    keys: Callable[[str], Any] | None = None
    if form == "number":
        keys = Decimal
    elif form == "text" and all(_is_whole(text) for text in found):
        keys = int
    return sorted(found, key=lambda text: ((keys(text) if keys else 0), text))


def kinds_of(raw: Array) -> Array:
    """Return the number of each value among the different values of a column, which is that of its class."""
    texts = class_texts(raw).tolist()
    form = form_of(texts)
    spellings: list[str] = mapped(texts, lambda text: canonical(text, form)).tolist()
    numbers = {text: number for number, text in enumerate(class_order(form, filter(None, spellings)))}
    return np.array([numbers.get(text, len(numbers)) for text in spellings], np.int64)


def number_spellings(texts: Iterable[str]) -> dict[str, list[str]]:
    """Return the different spellings of each number that has several, of texts that are whole numbers in digits."""
    found: dict[int, list[str]] = {}
    for text in class_order("text", texts):
        if _is_whole(text):
            found.setdefault(int(text), []).append(text)
    return {str(number): spellings for number, spellings in found.items() if len(spellings) > 1}


def _composed(text: str) -> str:
    text = text.strip()
    return text if text.isascii() else normalize("NFC", text)


def _is_whole(text: str) -> bool:
    return len(text) < 19 and text.removeprefix("-").isdecimal()


def _is_number(text: str) -> bool:
    return len(text) <= MAX_DIGITS and bool(_NUMBER.fullmatch(text)) and abs(float(text)) < np.inf


def _number(text: str) -> str:
    if _INTEGER.fullmatch(text):
        return text
    exact = Decimal(text)
    whole = exact == exact.to_integral_value()
    return str(int(exact)) if whole else number_text(float(text))


def _date(text: str) -> datetime | None:
    """Return the date that a text denotes in ISO 8601, None for any other text."""
    if not _DATE.fullmatch(text):
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None
