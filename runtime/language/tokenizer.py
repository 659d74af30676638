"""Texts as codes, and codes as texts, by the tokenizer of a language model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from runtime.errors import DataError
from runtime.extras import extra

HALF: Final = "a text has half of a surrogate pair, which is no character"


def is_unicode(text: str) -> bool:
    """Return True unless a text has half of a surrogate pair, as JSON may."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class Tokenizer:
    """A tokenizer of the package `tokenizers`, from the text of its tokenizer.json."""

    def __init__(self, text: str, where: str = "tokenizer.json") -> None:
        """Read a tokenizer; raise DataError for an invalid text, UsageError without the package."""
        module = extra("tokenizers", "lm", "the tokenizer of a language model")
        try:
            self._made: Any = module.Tokenizer.from_str(text)
            self._made.no_truncation()
            self._made.no_padding()
        except BaseException as error:  # the package raises Exception itself, and PanicException
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
            raise DataError(f"{where}: the file describes no tokenizer: {str(error)[:120]}") from None

    @property
    def size(self) -> int:
        """The number of codes, special ones included."""
        return int(self._made.get_vocab_size(with_added_tokens=True))

    def codes(self, text: str, *, special: bool = False) -> list[int]:
        """Return the codes of a text, with those that begin and end a text if `special`.

        Raises DataError for a text with half of a surrogate pair.
        """
        if not is_unicode(text):
            raise DataError(HALF)
        return list(self._made.encode(text, add_special_tokens=special).ids)

    def spans(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Return the codes of a text, each with the range of characters that it stands for."""
        found = self._made.encode(text, add_special_tokens=False)
        return list(found.ids), list(found.offsets)

    def row(self, text: str, pair: str | None, most: int) -> tuple[list[int], list[int], bool]:
        """Return the codes of a text, or of two, with those that begin and end texts, their types, and if it was cut.

        Raises ValueError if `most` codes have no room for the codes that the tokenizer adds.
        """
        found = self._made.encode(text, pair, add_special_tokens=True)
        if len(found.ids) <= most:
            return list(found.ids), list(found.type_ids), False
        added = self._made.num_special_tokens_to_add(pair is not None)
        if added >= most:
            raise ValueError(f"a row of {most} codes has no room for the {added} that the tokenizer adds")
        try:
            self._made.enable_truncation(most)
            found = self._made.encode(text, pair, add_special_tokens=True)
        finally:
            self._made.no_truncation()
        return list(found.ids), list(found.type_ids), True

    def code(self, token: str) -> int | None:
        """Return the code of a token; None if there is none."""
        return self._made.token_to_id(token)

    def text(self, codes: Sequence[int], *, special: bool = False) -> str:
        """Return the text of codes, with special ones written out if `special`."""
        return str(self._made.decode(list(codes), skip_special_tokens=not special))


class Pieces:
    """The text of codes that come one by one: a piece ends where its last character is whole."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._codes: list[int] = []
        self._from = 0  # the first code of the text that `_told` is the beginning of
        self._told = 0  # the first code that was not told

    def add(self, code: int) -> str:
        """Return what a code adds to the text; "" within a character of several codes."""
        self._codes.append(code)
        before = self._tokenizer.text(self._codes[self._from : self._told])
        after = self._tokenizer.text(self._codes[self._from :])
        if len(after) <= len(before) or after.endswith("\ufffd"):
            return ""
        self._from, self._told = self._told, len(self._codes)
        return after[len(before) :]

    def rest(self) -> str:
        """Return what is left when no code follows."""
        before = self._tokenizer.text(self._codes[self._from : self._told])
        return self._tokenizer.text(self._codes[self._from :])[len(before) :]


def stop_code(files: Mapping[str, str], tokenizer: Tokenizer) -> int | None:
    """Return the code that ends a text, as tokenizer_config.json names it; None if it names none."""
    return named_code(files, tokenizer, "eos_token")


def named_code(files: Mapping[str, str], tokenizer: Tokenizer, key: str) -> int | None:
    """Return the code of a token that a key of tokenizer_config.json names; None if it names none."""
    try:
        given: Any = json.loads(files.get("tokenizer_config.json", "{}")).get(key)
    except (ValueError, AttributeError, RecursionError):
        return None
    given = given.get("content") if isinstance(given, dict) else given
    return tokenizer.code(given) if isinstance(given, str) else None
