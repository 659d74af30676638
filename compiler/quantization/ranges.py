"""The ranges of the operands that products multiply by weights, over rows of data, and the errors of their results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from compiler.quantization.integers import Range
from compiler.quantization.products import all_products, layers_of
from compiler.quantization.recurrent import operands_of
from registry import OpError
from runtime.rows.orders import Listed
from runtime.rows.rows import Rows
from runtime.rows.stored_column import rows_of
from runtime.runs.evaluation import run_over
from runtime.runs.run import Run
from runtime.runs.untrained import warn_of_initial_values

BLOCK_ROWS: Final = 256
"""Rows whose operands are in memory together."""

MAX_ROWS: Final = 1024
"""Rows that ranges are taken from."""


def blocks_of(run: Run, entry: str, data: str | Mapping[str, Any] | None, most: int) -> Iterator[Rows]:
    """Yield the first rows of a split, or of arrays by feed, in blocks."""
    rows = run.session.rows(entry, data)
    numbers = rows.order.numbers(0, min(most, len(rows)))
    for start in range(0, len(numbers), BLOCK_ROWS):
        yield Rows(rows.columns, rows.whole, Listed(numbers[start : start + BLOCK_ROWS]))


def ranges(
    run: Run,
    entry: str,
    chosen: Sequence[str],
    data: str | Mapping[str, Any] | None,
    percentile: float | None = None,
) -> dict[str, Range]:
    """Return the range of the operand of each weight, with 0 in it.

    With a `percentile`, such as 99.9, this percentage of the numbers of a block of 256 rows lies below the upper end,
    and the same percentage above the lower end; both ends are means over blocks.

    Raises OpError for a weight that no product of the entry reads.
    """
    block = run.session.bindings(entry)[0].block
    products = layers_of(block) | all_products(block)
    unread = [name for name in chosen if name not in products]
    if unread:
        raise OpError(
            f"quantize: no product of the entry {entry!r} reads {unread[0]}, so nothing tells the range of what it "
            f"multiplies; keep={unread[0]!r} leaves it as it is"
        )
    read = {name: [tensor for op in products[name] for tensor in operands_of(op)] for name in chosen}
    fed = {tensor for tensors in read.values() for tensor in tensors}
    ends: dict[str, list[tuple[float, float]]] = {name: [] for name in fed}
    for rows in blocks_of(run, entry, data, MAX_ROWS):
        arrays = tensors(run, entry, rows, sorted(fed))
        for name in fed:
            ends[name].append(_ends(arrays[name], percentile))
    warn_of_initial_values(run.program, run.states, "the codes stand for initial values")
    merge = (np.mean, np.mean) if percentile is not None else (np.min, np.max)
    return {name: _merged([ends[tensor] for tensor in read[name]], merge) for name in chosen}


def tensors(run: Run, entry: str, rows: Rows, names: Sequence[str]) -> dict[str, Any]:
    """Return tensors of an entry over rows, by name; feeds are the rows themselves."""
    bound = run.session.bindings(entry)[0]
    feeds = {p.tensor: p.feed for p in bound.block.parameters if p.WhichOneof("source") == "feed"}
    inner = [name for name in names if name not in feeds]
    found = dict(run_over(run.session, entry, rows, fetch=inner).arrays)
    taken = rows.numbers
    return found | {name: rows_of(rows.columns[feeds[name]], taken) for name in names if name in feeds}


def _ends(array: Any, percentile: float | None) -> tuple[float, float]:
    if not array.size:
        return 0.0, 0.0
    if percentile is None:
        return float(array.min()), float(array.max())
    low, high = np.percentile(array, [100 - percentile, percentile])
    return float(low), float(high)


def _merged(ends: Sequence[Sequence[tuple[float, float]]], merge: Any) -> Range:
    every = np.array([pair for each in ends for pair in each], np.float64)
    return Range(min(float(merge[0](every[:, 0])), 0.0), max(float(merge[1](every[:, 1])), 0.0))
