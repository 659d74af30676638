"""Numbers out of range, in a sentence that names the row that has them, or the metric that is full.

1. The row is named only if it is certain: the op reads the number from an integer feed by ops that move elements and
   change none, and no other such feed has it in these rows.
2. Rows of a parameter are looked up by number, as in an embedding: the error says how many rows there must be.
3. A metric is named if nothing but its totals is computed from the op: it is a fetch, and the totals are states named
   after it. A metric that counts its rows in `seen` keeps an element of each row, and is full if the next row has no
   place.
"""

from __future__ import annotations

from typing import Final

from prograd_proto import attributes_of
from prograd_proto import program_pb2 as pb
from runtime.entries import BoundEntry
from runtime.errors import OutOfRange
from runtime.rows.rows import Rows
from runtime.rows.streamed import Streamed

MOVES: Final = frozenset(
    {"broadcast_to", "cast", "concat", "identity", "pad", "reshape", "slice", "split", "transpose", "where"}
)
"""Operators that give the numbers of an operand unchanged or in another dtype; they may leave some out."""

_LOOK_UPS: Final = frozenset({"gather", "sparse_matmul"})
"""Operators that look up rows of a parameter by their numbers."""


def explained(error: OutOfRange, bound: BoundEntry, rows: Rows | Streamed, start: int) -> OutOfRange:
    """Return the error of a step with the rows from `start` on, with what is known of its number."""
    op = next((op for op in bound.block.ops if op.id == error.op), None)
    if op is None:
        return error
    metric = _metric_of(bound.block, op)
    if metric and op.type == "scatter_nd" and any(u.state.startswith(f"{metric}.seen") for u in bound.block.updates):
        places = bound.types[op.inputs[0]].shape[0]
        where = f" from {error.place}" if error.place else ""
        return _as(
            error,
            f"the metric {metric!r}{where} keeps {places} scores, and there are more; declare it with rows= of at "
            "least the rows of an epoch and of an evaluation, or with bins=",
        )
    count = min(bound.rows, len(rows) - start)
    holding = rows.holding(error.number, _feeds_of(bound, op), start, count)
    row = holding[0] if len(holding) == 1 else ""
    return _as(error, f"{f'metric {metric!r}: ' if metric else ''}{error}{row}{_count_of(bound, op, error.number)}")


def _as(error: OutOfRange, text: str) -> OutOfRange:
    return OutOfRange(text, error.number, error.op, error.place)


def _count_of(bound: BoundEntry, op: pb.OpDesc, number: int) -> str:
    """Return the number of rows that an embedding needs for a number, as a clause; "" for another op."""
    states = {p.tensor: p.state for p in bound.block.parameters if p.WhichOneof("source") == "state"}
    table = next((states[name] for name in op.inputs if op.type in _LOOK_UPS and name in states), "")
    if not table or number < 0 or attributes_of(op).get("axis", 0) != 0:
        return ""
    return f"; {table!r} has a row for each number, so it takes count={number + 1} or more"


def _feeds_of(bound: BoundEntry, op: pb.OpDesc) -> list[str]:
    """Return the feeds whose elements reach an operand of an op unchanged."""
    makers = {name: each for each in bound.block.ops for name in each.outputs if each.type in MOVES}
    reached, left = set[str](), [*op.inputs]
    while left:
        name = left.pop()
        if name not in reached:
            reached.add(name)
            left += makers[name].inputs if name in makers else ()
    return [p.feed for p in bound.block.parameters if p.WhichOneof("source") == "feed" and p.tensor in reached]


def _metric_of(block: pb.BlockDesc, op: pb.OpDesc) -> str:
    """Return the metric whose totals are all that is computed from an op; "" if there is none."""
    reached = {*op.outputs}
    for each in block.ops:
        if not reached.isdisjoint(each.inputs):
            reached.update(each.outputs)
    owners = {update.state.rpartition(".")[0] for update in block.updates if update.tensor in reached}
    fetches = {fetch.name for fetch in block.fetches}
    return owners.pop() if len(owners) == 1 and owners <= fetches else ""
