"""Texts as numbers of subwords, by a tokenizer of the package `tokenizers`: byte-pair encoding.

The number of a subword is that of the tokenizer plus 1, so that 0 is padding.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from json import loads
from typing import Any, Final, cast

from runtime.dtypes import Array
from runtime.errors import DataError, UsageError
from runtime.extras import extra
from runtime.rows.encoding.tokens import texts_by_row

_BYTES: Final = "ByteLevel"
"""The type of the parts of a tokenizer that divides texts into bytes."""


def trained_tokenizer(texts: Iterable[str], size: int) -> str:
    """Return a byte-level BPE tokenizer as JSON, with at most `size` subwords of these texts, at least the 256 bytes.

    Raises UsageError for a smaller size.
    """
    if size < 256:
        raise UsageError(f"vocabulary {size}: byte-pair encoding begins with 256 bytes, so say 256 or more")
    module = extra("tokenizers", "text", "byte-pair encoding")
    made = module.ByteLevelBPETokenizer()
    made.train_from_iterator(texts, vocab_size=size, min_frequency=2, show_progress=False)
    return made._tokenizer.to_str()


def is_tokenizer(text: str) -> bool:
    """Return True if JSON describes byte-pair encoding as `trained_tokenizer` makes it.

    Others may have regular expressions that take for ever, paddings without bound, or random merges.
    """
    try:
        said = loads(text)
    except (ValueError, RecursionError):
        return text == ""
    if not isinstance(said, dict):
        return False
    given = cast(dict[str, Any], said)
    kinds = {name: cast(dict[str, Any], v).get("type") for name, v in given.items() if isinstance(v, dict)}
    return (
        kinds == {"pre_tokenizer": _BYTES, "post_processor": _BYTES, "decoder": _BYTES, "model": "BPE"}
        and not any(given.get(name) for name in ("normalizer", "truncation", "padding", "added_tokens"))
        and given["model"].get("dropout") is None
    )


def tokens_by(tokenizer: str, texts: list[str]) -> list[list[int]]:
    """Return the numbers of the subwords of texts."""
    return [[number + 1 for number in found.ids] for found in _made(tokenizer).encode_batch(texts)]


def texts_of_tokens(numbers: Array, tokenizer: str) -> Array:
    """Return texts for rows of numbers, without padding; raise DataError for a number of no subword."""
    made = _made(tokenizer)
    most = made.get_vocab_size()
    outside = numbers[(numbers < 0) | (numbers > most)]
    if outside.size:
        raise DataError(f"the tokenizer has {most} subwords, and {outside[0]} is the number of none")
    return texts_by_row(numbers, lambda row: made.decode([number - 1 for number in row]))


@lru_cache(maxsize=8)
def _made(tokenizer: str) -> Any:
    module = extra("tokenizers", "text", "byte-pair encoding")
    try:
        return module.Tokenizer.from_str(tokenizer)
    except BaseException as error:  # the package raises Exception itself, and PanicException
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        raise DataError(f"the tokenizer in the encoding is damaged: {str(error)[:200]}") from None
