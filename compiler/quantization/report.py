"""The accuracy of a program in integers of eight bits: its metrics before and after, and the error of each product."""

# pyright: basic
# arrays have no types here.

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from compiler.aligned_text import columns
from compiler.quantization.integers import INPUT_SCALE, INPUT_ZERO, products_of
from compiler.quantization.ranges import BLOCK_ROWS, blocks_of, tensors
from runtime.runs.run import Run

HEAD = ("weight", "operand", "error")


def report(
    before: Run, after: Run, entry: str, weights: Sequence[str], rows: str | Mapping[str, Any] | None
) -> Iterator[str]:
    """Yield lines: for each weight the range of its operand and the error of its products, then the metrics.

    An error is the root of the mean squared difference of a result, of the first 256 rows, divided by the root of its
    mean square. Metrics are those of the entry `evaluate`, if there is one, over all of these rows.
    """
    errors = _errors(before, after, entry, weights, rows)
    lines: list[tuple[str, str, str]] = []
    for name in weights:
        scale, zero = float(after.state[f"{name}.{INPUT_SCALE}"]), int(after.state[f"{name}.{INPUT_ZERO}"])
        lines.append((name, f"[{-zero * scale:.4g}, {(255 - zero) * scale:.4g}]", errors[name]))
    yield from columns(HEAD, lines)
    if "evaluate" in before.entries:
        first, second = (run.evaluate(rows) for run in (before, after))
        for name, value in first.items():
            if np.ndim(value) == 0:
                yield f"{name}: {float(value):.6g} before, {float(second[name]):.6g} after"


def _errors(
    before: Run, after: Run, entry: str, weights: Sequence[str], rows: str | Mapping[str, Any] | None
) -> dict[str, str]:
    products = products_of(before.session.bindings(entry)[0].block)
    there = {tensor.name for tensor in after.session.bindings(entry)[0].block.tensors}
    names = {op.outputs[0] for name in weights for op in products[name]} & there
    block = next(blocks_of(before, entry, rows, BLOCK_ROWS))
    wanted, found = (tensors(run, entry, block, sorted(names)) for run in (before, after))
    made: dict[str, str] = {}
    for name in weights:
        own = [op.outputs[0] for op in products[name] if op.outputs[0] in names]
        apart = sum(float(np.square(found[y] - wanted[y], dtype="f8").sum()) for y in own)
        whole = sum(float(np.square(wanted[y], dtype="f8").sum()) for y in own)
        made[name] = f"{(apart / whole) ** 0.5:.2%}" if whole else "-"
    return made
