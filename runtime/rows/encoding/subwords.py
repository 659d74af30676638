"""Texts as numbers of subwords, by a tokenizer of the package `tokenizers`: byte-pair encoding.

The number of a subword is that of the tokenizer plus 1, so that 0 is padding.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np

from runtime.dtypes import Array
from runtime.errors import DataError
from runtime.extras import extra


def trained_tokenizer(texts: Iterable[str], size: int) -> str:
    """Return a byte-level BPE tokenizer as JSON, with at most `size` subwords, but all 256 bytes, of these texts."""
    module = extra("tokenizers", "text", "byte-pair encoding")
    made = module.ByteLevelBPETokenizer()
    made.train_from_iterator(texts, vocab_size=max(size, 256), min_frequency=2, show_progress=False)
    return made._tokenizer.to_str()


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
    rows = numbers.reshape(-1, numbers.shape[-1]) if numbers.ndim else numbers.reshape(1, 1)
    texts: Array = np.empty(len(rows), object)
    texts[:] = [made.decode([number - 1 for number in row if number]) for row in rows.tolist()]
    return texts.reshape(numbers.shape[:-1])


@lru_cache(maxsize=8)
def _made(tokenizer: str) -> Any:
    module = extra("tokenizers", "text", "byte-pair encoding")
    try:
        return module.Tokenizer.from_str(tokenizer)
    except Exception as error:  # the package raises Exception itself
        raise DataError(f"the tokenizer in the encoding is damaged: {str(error)[:200]}") from None
