"""Texts as numbers: bytes, or words of a vocabulary; and numbers as texts again.

The number of a byte is its value plus 1, that of a word its index in the vocabulary plus 2. Number 1 is a word outside
the vocabulary, 0 is padding. Hashed words need no vocabulary; two words may have one number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from unicodedata import category, normalize
from zlib import crc32

import numpy as np

from runtime.dtypes import Array
from runtime.rows.encoding.values import spelled

_JOINERS: Final = "\u200c\u200d"
"""Characters without a width that join letters, or keep them apart, inside words of Indic scripts and Persian."""

OTHER = "?"
"""Text that decoding gives for a word outside the vocabulary."""


def words_of(text: str | list[Any]) -> list[str]:
    """Return the words of a text: runs of letters, their marks and digits, in lower case. A list keeps its words.

    Marks are accents and the vowel signs of Indic and other scripts. Texts take the composed form of Unicode.
    """
    if isinstance(text, list):
        return [str(spelled(word)) for word in text]
    text = text.lower()
    return re.findall(r"\w+", text) if text.isascii() else _words_with_marks(normalize("NFC", text))


def _words_with_marks(text: str) -> list[str]:
    marks = "".join(sorted(letter for letter in {*text} if category(letter).startswith("M")))
    found = re.findall(rf"\w[\w{marks}{_JOINERS}]*", text)
    return [word.rstrip(_JOINERS) for word in found]


def tokens_of(text: str | list[Any], places: Mapping[str, int]) -> list[int]:
    """Return the numbers of words by their indices in a vocabulary, or of bytes if it is empty."""
    if places or isinstance(text, list):
        return [places.get(word, 1) for word in words_of(text)]
    return [byte + 1 for byte in text.encode(errors="replace")]


def hashes_of(text: str | list[Any], buckets: int) -> list[int]:
    """Return a number from 1 to buckets - 1 for each word: the CRC-32 of its UTF-8, modulo their number, plus 1."""
    return [crc32(word.encode(errors="replace")) % (buckets - 1) + 1 for word in words_of(text)]


def texts_again(numbers: Array, words: Sequence[str]) -> Array:
    """Return texts for rows of numbers, whose last axis counts words or bytes; raise ValueError for other numbers."""
    most = len(words) + 1 if words else 256
    outside = numbers[(numbers < 0) | (numbers > most)]
    if outside.size:
        raise ValueError(f"{outside[0]}")
    return texts_by_row(numbers, lambda row: _text(row, words))


def texts_by_row(numbers: Array, text: Callable[[list[int]], str]) -> Array:
    """Return the texts that a function makes of rows of numbers without their zeros."""
    rows = numbers.reshape(-1, numbers.shape[-1]) if numbers.ndim else numbers.reshape(1, 1)
    texts: Array = np.empty(len(rows), object)
    texts[:] = [text([number for number in row if number]) for row in rows.tolist()]
    return texts.reshape(numbers.shape[:-1])


def _text(numbers: list[int], words: Sequence[str]) -> str:
    if words:
        return " ".join(OTHER if number == 1 else words[number - 2] for number in numbers)
    return bytes(number - 1 for number in numbers).decode(errors="replace")
