"""Texts as numbers: bytes, or words of a vocabulary; and numbers as texts again.

A byte is itself and 1, a word its place in the vocabulary and 2. 1 is a word that is in no vocabulary, 0 is nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from runtime.dtypes import Array

OTHER = "?"
"""What is read where a word was in no vocabulary."""


def words_of(text: str | list[Any]) -> list[str]:
    """The words of a text: letters and digits that stand together, in small letters. A list keeps its words."""
    from re import findall

    return [str(word) for word in text] if isinstance(text, list) else findall(r"\w+", text.lower())


def tokens_of(text: str | list[Any], places: Mapping[str, int]) -> list[int]:
    """The numbers of words by their places in a vocabulary, or of bytes if it is empty."""
    if places or isinstance(text, list):
        return [places.get(word, 1) for word in words_of(text)]
    return [byte + 1 for byte in text.encode(errors="replace")]


def texts_again(numbers: Array, words: Sequence[str]) -> Array:
    """Texts for rows of numbers, whose last axis counts words or bytes. Raises ValueError for a number of none."""
    most = len(words) + 1 if words else 256
    outside = numbers[(numbers < 0) | (numbers > most)]
    if outside.size:
        raise ValueError(f"{outside[0]}")
    rows = numbers.reshape(-1, numbers.shape[-1]) if numbers.ndim else numbers.reshape(1, 1)
    texts: Array = np.empty(len(rows), object)
    texts[:] = [_text([number for number in row if number], words) for row in rows.tolist()]
    return texts.reshape(numbers.shape[:-1])


def _text(numbers: list[int], words: Sequence[str]) -> str:
    if words:
        return " ".join(OTHER if number == 1 else words[number - 2] for number in numbers)
    return bytes(number - 1 for number in numbers).decode(errors="replace")
