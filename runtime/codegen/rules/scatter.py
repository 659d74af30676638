"""Rows by several numbers each: read, joined with what is there, and which of equal ones is the last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Final

from prograd_proto import TensorType
from prograd_proto.dtypes import ITEM_BYTES
from runtime.codegen.ir import BOOL, DTYPES, INT64, Type, Value
from runtime.codegen.ir.words import convert, maximum, minimum
from runtime.codegen.kernels.stages import Stage, Stages, Work
from runtime.codegen.machine import Target
from runtime.codegen.rules.form import FORMS, Loops
from runtime.codegen.rules.index import Around, Join, Operands, given, join_rows, read_rows
from runtime.codegen.rules.lookup import Lookup

EVERY: Final = frozenset(ITEM_BYTES)

JOINS: Final[dict[str, Join]] = {
    "add": lambda a, b: a + b,
    "max": maximum,
    "min": minimum,
    "set": lambda a, b: b,
}


def gather_nd(target: Target, inputs: Operands, outputs: Sequence[TensorType], attributes: Mapping[str, Any]) -> Stages:
    x, indices = given(inputs)
    rows, lookup, count = named(x.static_shape, indices, attributes["batch_axes"])
    return read_rows(target, Type("unsigned", 8 * ITEM_BYTES[x.dtype]), count, rows, lookup)


def scatter_nd(
    target: Target, inputs: Operands, outputs: Sequence[TensorType], attributes: Mapping[str, Any]
) -> Stages:
    x, indices, _ = given(inputs)
    rows, lookup, count = named(x.static_shape, indices, attributes["batch_axes"])
    return join_rows(target, DTYPES[x.dtype], count, rows, lookup, JOINS[attributes["reduction"]])


def is_last_index(
    target: Target, inputs: Operands, outputs: Sequence[TensorType], attributes: Mapping[str, Any]
) -> Stages:
    """One thread notes for each place the last row that names it; then every row asks whether that is itself."""
    [indices] = given(inputs)
    rows, lookup, count = named(attributes["shape"], indices, attributes["batch_axes"])

    def row(work: Work, i: Value) -> tuple[Value, Value]:
        [numbers] = [x for x in work.inputs if x is not None]
        return work.shared(0, INT64), lookup.place(work, numbers, i)

    def note(work: Work, start: Value, stop: Value) -> None:
        for i in work.f.range(0, count):
            last, place = row(work, work.f.index(i))
            work.f.store(work.f.index(i), last, place)

    def ask(work: Work, start: Value, stop: Value) -> None:
        f = work.f
        for i in f.range(start, stop):
            last, place = row(work, f.index(i))
            f.store(convert(f.load(last, place).equal(f.index(i)), BOOL), work.outputs[0], i)

    stages = Stage(note, 1, count * 2.0), Stage(ask, count, count * 2.0)
    return Stages(stages, (rows.size * INT64.bits // 8,), refuses=True)


def has_places(inputs: Operands, outputs: Sequence[TensorType], attributes: Mapping[str, Any]) -> bool:
    """Return True if indices can name anything in the attribute `shape`, which no operand has.

    Else the NumPy kernel computes it, which refuses all indices.
    """
    [indices] = given(inputs)
    rows, _, _ = named(attributes["shape"], indices, attributes["batch_axes"])
    return rows.size > 0


def named(shape: tuple[int, ...], indices: TensorType, batch_axes: int) -> tuple[Around, Lookup, int]:
    """A tensor as the rows that indices name, how they name them, and how many there are of indices."""
    *counts, width = indices.static_shape
    after = batch_axes + width
    rows = Around(1, prod(shape[:after]), prod(shape[after:]))
    of_batch = prod(counts[batch_axes:]) if prod(counts[:batch_axes]) > 1 else 0
    return rows, Lookup(shape[batch_axes:after], of_batch), prod(counts)


FORMS["gather_nd"] = Loops(gather_nd, EVERY)
FORMS["scatter_nd"] = Loops(scatter_nd, EVERY)
FORMS["is_last_index"] = Loops(is_last_index, EVERY, has_places)
