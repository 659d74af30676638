"""The accuracy of a program in integers of eight bits: its metrics before and after, and the error of each product."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from compiler.aligned_text import columns
from compiler.quantization.products import MAX_CODE, all_products, layers_of, readers_of
from compiler.quantization.ranges import BLOCK_ROWS, blocks_of, tensors
from compiler.quantization.weight_names import INPUT_SCALE, INPUT_ZERO
from prograd_proto import program_pb2 as pb
from runtime.runs.run import Run

HEAD = ("weight", "operand", "error")


def report(
    before: Run, after: Run, entry: str, weights: Sequence[str], rows: str | Mapping[str, Any] | None
) -> Iterator[str]:
    """Yield lines: the ranges of operands with the errors of products, then the metrics.

    An error is the root of the mean squared difference of a result, of the first 256 rows, divided by the root of its
    mean square. Metrics are those of the entry `evaluate`, if there is one, over all of these rows.
    """
    errors = _errors(before, after, entry, weights, rows)
    yield from columns(HEAD, [(name, _range(after, name), errors[name]) for name in weights])
    if "evaluate" in before.entries:
        first, second = (run.evaluate(rows) for run in (before, after))
        for name, value in first.items():
            if np.ndim(value) == 0:
                yield f"{name}: {float(value):.6g} before, {float(second[name]):.6g} after"


def ranges_report(after: Run, weights: Sequence[str]) -> Iterator[str]:
    """Yield a line for each weight with the range of its operand."""
    yield from columns(HEAD[:2], [(name, _range(after, name)) for name in weights])


def _range(run: Run, name: str) -> str:
    scale, zero = float(run.state[f"{name}.{INPUT_SCALE}"]), int(run.state[f"{name}.{INPUT_ZERO}"])
    return f"[{-zero * scale:.4g}, {(MAX_CODE - zero) * scale:.4g}]"


def _errors(
    before: Run, after: Run, entry: str, weights: Sequence[str], rows: str | Mapping[str, Any] | None
) -> dict[str, str]:
    before_block = before.session.bindings(entry)[0].block
    products = layers_of(before_block) | all_products(before_block)
    there = {tensor.name for tensor in after.session.bindings(entry)[0].block.tensors}
    results = {name: [_result(before_block, op.outputs[0], there) for op in products[name]] for name in weights}
    names = {y for found in results.values() for y in found} & there
    block = next(blocks_of(before, entry, rows, BLOCK_ROWS))
    wanted, found = (tensors(run, entry, block, sorted(names)) for run in (before, after))
    made: dict[str, str] = {}
    for name in weights:
        own = [y for y in results[name] if y in names]
        apart = sum(float(np.square(found[y] - wanted[y], dtype="f8").sum()) for y in own)
        whole = sum(float(np.square(wanted[y], dtype="f8").sum()) for y in own)
        made[name] = f"{(apart / whole) ** 0.5:.2%}" if whole else "-"
    return made


def _result(block: pb.BlockDesc, name: str, there: set[str]) -> str:
    """Return the result of a product that both blocks have: that of the normalisation, if the scale includes one."""
    readers = readers_of(block)
    while name not in there and len(readers.get(name, ())) == 1:
        name = readers[name][0].outputs[0]
    return name
