"""The summary of a file of rows of codes: lengths of texts, the share that counts, and the first row as text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, cast

import numpy as np

from prograd_proto.printable import sentence
from runtime.dtypes import Array
from runtime.errors import ExecutionError
from runtime.files.tensor_files import keys_of, read_arrays, read_metadata, unverified
from runtime.language.model import IGNORED, ROWS_KEY

BARS: Final = 8
"""The number of ranges of lengths that are shown."""

WIDTH: Final = 40
"""The letters of the longest bar."""


def lines_of_chats(path: Path) -> Iterator[str]:
    """Yield lines for the terminal; none for a file of other rows."""
    if path.suffix != ".safetensors":
        return
    about = _about(path)
    keys = keys_of(path)
    if about is None or not {"codes", "labels"} <= {*keys}:
        return
    with unverified(path) as reader:
        arrays = read_arrays(path, reader, ["codes", "labels"], ["segments"])
    labels = arrays["labels"]
    if labels.ndim != 2 or not labels.size:
        return
    lengths = _lengths(arrays)
    filled, counted = lengths.sum() / labels.size, (labels != IGNORED).mean()
    rows, length = labels.shape
    yield f"texts: {len(lengths)} in {rows} rows of {length} codes, {filled:.0%} full; {counted:.0%} counts"
    edges = [length * i // BARS for i in range(BARS + 1)]
    numbers = [int(((low < lengths) & (lengths <= high)).sum()) for low, high in pairwise(edges)]
    for (low, high), number in zip(pairwise(edges), numbers, strict=True):
        bar = "#" * -(-WIDTH * number // max(1, *numbers))
        yield f"  {low + 1:>6} to {high:>6} codes  {number:>8}  {bar}".rstrip()
    yield f"the first row: {sentence(str(about.get('first', '')))}"


def _about(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(read_metadata(path).get(ROWS_KEY, "null"))
    except (ExecutionError, ValueError, RecursionError):
        return None
    return cast(dict[str, Any], found) if isinstance(found, dict) else None


def _lengths(arrays: dict[str, Array]) -> Array:
    """Return the codes of each text: of each segment, or of a row up to the last one that is no padding."""
    if "segments" not in arrays:
        there = (arrays["codes"] != 0) | (arrays["labels"] != IGNORED)
        return np.where(there.any(1), there.shape[1] - np.argmax(there[:, ::-1], 1), 0)
    found = [np.bincount(row)[1:] for row in arrays["segments"].clip(0)]
    lengths = np.concatenate(found)
    return lengths[lengths > 0]
