"""The page of the census, docs/from-pytorch-networks.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from frontends.census import LIMITS, Row, agrees, all_names, differing

COLUMNS: Final = ("outputs", "loss", "gradients", "statistics", "SGD", "AdamW")

HEAD: Final = """# Networks of PyTorch that were compared

`PYTHONPATH=tests python -m frontends.census` compares imported networks with PyTorch 2.13, and
`python -m frontends.census --page` makes this page of its rows. Networks have small configurations, seeded weights and
no dropout; batches have 3 rows, images 64 pixels a side unless the name says another size, and texts 16 tokens.

Numbers are the largest differences, relative to the largest element of each tensor: results in evaluation mode, a loss
of all results in training mode, its gradients, running statistics after a step, and all states after five steps of SGD
with momentum and of AdamW. The reference engine computed all rows; `pytest tests/frontends` compares networks by the
native engine. In rows of float64 the module computes in float64 throughout: norms and rotary positions of some
transformers cast to float32, whatever the dtype of the module, and PyTorch's gradient of `hardsigmoid` is 1 / 6 in
float32, so it is written out. Rows of float32 are those of small networks.
"""

TAIL: Final = """\
* Rows with ¹ exceed a limit in float32 and none in float64. If the last stages of a network normalise few elements,
  rounding in another order changes the sign of some at `relu`, and with it gradients. AdamW divides small
  gradients by their size, and so enlarges their rounding.
* Rows with ² differ in float64. Training of `mnasnet0_5` and `shufflenet_v2_x0_5` with images of 64 pixels enlarges
  every rounding: if the weights of `mnasnet0_5` change by 1e-15, PyTorch's own states after five steps change by 4e-6
  (SGD) and 3e-8 (AdamW).
"""


def page(rows: Mapping[str, Row]) -> str:
    """Return the page."""
    return "\n".join(_lines(rows)) + "\n"


def _lines(rows: Mapping[str, Row]) -> Iterator[str]:
    listed = {name: rows[name] for name in sorted(all_names()) if name in rows}
    others = {name: rows[name] for name in sorted(rows) if name not in listed}
    in_float32 = [row for row in listed.values() if "float32" in row]
    narrow = sum(not differing(row, "float32") for row in in_float32)
    yield HEAD
    yield f"* Of {len(listed)} architectures, {sum(map(agrees, listed.values()))} agree in float64: results, loss,"
    yield "  statistics and states to 1e-9, gradients to 1e-6."
    yield f"* Of {len(in_float32)} small ones, {narrow} agree in float32, too: results to 1e-4, the rest to 1e-3."
    yield f"* {_stepped(listed, 'float32')} have PyTorch's states after five steps in float32, and"
    yield f"  {_stepped(listed, 'float64')} in float64."
    yield TAIL
    yield from _table(listed)
    yield from _errors(listed)
    if others:
        yield "\n## Further networks\n"
        yield from _table(others)
        yield from _errors(others)


def _stepped(rows: Mapping[str, Row], dtype: str) -> int:
    """Return the number of networks whose states agree after five steps."""
    measured = [row for row in rows.values() if {"SGD", "AdamW"} <= row.get(dtype, {}).keys()]
    return sum(not {"SGD", "AdamW"} & {*differing(row, dtype)} for row in measured)


def _table(rows: Mapping[str, Row]) -> Iterator[str]:
    yield "| network | dtype | results | loss | gradients | statistics | SGD | AdamW |"
    yield "| --- " * 8 + "|"
    for name, row in rows.items():
        for dtype in LIMITS:
            if numbers := row.get(dtype):
                mark = " ²" if differing(row, "float64") else " ¹" if differing(row, "float32") else ""
                cells = [f"{numbers[key]:.0e}" if key in numbers else "" for key in COLUMNS]
                yield f"| {name}{mark} | {dtype} | {' | '.join(cells)} |"


def _errors(rows: Mapping[str, Row]) -> Iterator[str]:
    failed = {name: row["error"] for name, row in rows.items() if "error" in row}
    if failed:
        yield "\nNot imported, or not compared:\n"
    for name, error in failed.items():
        yield f"* `{name}`: {error}"
