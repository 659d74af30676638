"""The proof that every row of an entry's fetches depends on the same row of its feeds alone.

Then rows that do not fill a step may run in it all the same, with any rows behind them. The proof goes op by op:

1. A feed that has rows has row i at index i of axis 0, and so has every tensor that *has rows*.
2. An op that reads such tensors yields another one if the row rule of its operator says so (`runtime.row_rules`).
3. A tensor that depends on no rows is the same for all rows. If it has as many along axis 0 nevertheless, they must be
   equal. An op of such tensors has equal rows if its row rule says so.
4. Any other result is *mixed*, as random numbers are, and so is every result computed from it. Then the entry is not
   row-wise.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from prograd_proto import TensorType, attributes_of
from prograd_proto import program_pb2 as pb
from runtime.entries import BoundEntry
from runtime.operators import CONTRACTS
from runtime.row_rules import RowOperand


class _Known(NamedTuple):
    """The facts that hold before an op: static types, the tensors with rows, and those whose rows are all equal.

    `mixed` are the tensors that depend on some row, and that have no rows; all others are the same for all rows.
    """

    rows: int
    types: Mapping[str, TensorType]
    with_rows: set[str]
    equal: set[str]
    mixed: set[str]


def is_row_wise(bound: BoundEntry, fetched: Collection[str]) -> bool:
    """Return True if the named tensors, and all that the entry fetches, have rows; the entry must update nothing."""
    block = bound.block
    if block.updates or bound.rows < 2:
        return False
    fed = {p.tensor for p in block.parameters if p.WhichOneof("source") == "feed" and bound.feeds[p.feed].by_row}
    known = _Known(bound.rows, bound.types, fed, set(), set())
    for op in block.ops:
        _read(op, known)
    names = {fetch.tensor for fetch in block.fetches} | set(fetched)
    named = {fetch.name for fetch in block.fetches} | set(fetched)
    return names <= known.with_rows and named <= bound.row_names


def _read(op: pb.OpDesc, known: _Known) -> None:
    """Note the results of the op."""
    if not known.mixed.isdisjoint(op.inputs) or op.random_stream:
        known.mixed.update(op.outputs)
    elif known.with_rows.isdisjoint(op.inputs):
        if _has_equal_rows(op) if op.type == "constant" else _keeps_rows(op, known):
            known.equal.update(op.outputs)
    else:
        holds = _keeps_rows(op, known)
        for name in op.outputs:
            shape = known.types[name].static_shape
            (known.with_rows if holds and shape[:1] == (known.rows,) else known.mixed).add(name)


def _keeps_rows(op: pb.OpDesc, known: _Known) -> bool:
    """Return what the row rule of the operator says; False without one, as for ops that run blocks."""
    rule = CONTRACTS[op.type].rows if op.type in CONTRACTS else None
    if rule is None:
        return False
    operands = [
        RowOperand(known.types[name].static_shape, name in known.with_rows, name in known.equal) if name else None
        for name in op.inputs
    ]
    return rule(operands, known.types[op.outputs[0]].static_shape, attributes_of(op))


def _has_equal_rows(op: pb.OpDesc) -> bool:
    value = op.attributes[0].tensor_value
    count = value.shape[0] if value.shape else 1
    size = len(value.data) // max(1, count)
    return value.data == value.data[:size] * count
