"""The results of attention: a unit is a head and a block of its queries."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any

from prograd_proto import TensorType
from runtime.engines.native.attention.heads import Heads, heads_of
from runtime.engines.native.attention.products import LINE, WEIGHTS, Sizes, multiply, room
from runtime.engines.native.attention.weights import Block, scores, write_weights
from runtime.engines.native.forms.stages import Stage, Stages, Work
from runtime.engines.native.ir import Index, Value
from runtime.engines.native.product import Matrix
from runtime.engines.native.target import Target


def forward(
    target: Target, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType], attributes: Mapping[str, Any]
) -> Stages:
    """One stage."""
    *operands, mask = inputs
    q, k, v = (x for x in operands if x is not None)
    heads = heads_of(target, q, k, v, mask, attributes["causal"], attributes["scale"])

    def write(work: Work, start: Value, stop: Value) -> None:
        f = work.f
        for unit in f.range(start, stop):
            head, number = f.index(unit) // heads.blocks, f.index(unit) % heads.blocks
            for first, rows in blocks_of(work, heads, number):
                _block(work, heads, head, first, rows)

    products = [part for rows in {heads.block, heads.last} for part in (scores(heads, rows), results(heads, rows))]
    units = heads.images * heads.heads * heads.blocks
    return Stages((Stage(write, units, heads.nanoseconds),), own=room(heads, products, heads.block, False))


def blocks_of(work: Work, heads: Heads, number: Value) -> Generator[tuple[Index, int]]:
    """The first query of a block and how many there are, written for both sizes if there are two."""
    if heads.block == heads.last:
        yield number * heads.block, heads.block
        return
    is_last = number.equal(heads.blocks - 1)
    with work.f.when(~is_last):
        yield number * heads.block, heads.block
    with work.f.when(is_last):
        yield (heads.blocks - 1) * heads.block, heads.last


def results(heads: Heads, rows: int) -> Sizes:
    """The product of weights and values."""
    return Sizes(rows, heads.width, heads.keys, (heads.row, 1), (heads.width, 1))


def _block(work: Work, heads: Heads, head: Value, first: Index, rows: int) -> None:
    f, [y] = work.f, work.outputs
    *operands, mask = work.inputs
    q, k, v = (x for x in operands if x is not None)
    group = head // (heads.heads // heads.groups)
    keys, values = k + group * (heads.keys * heads.depth), v + group * (heads.keys * heads.width)
    query = head * heads.queries + first
    block = Block(head // heads.heads, head % heads.heads, first, rows)
    write_weights(work, heads, block, q + query * heads.depth, keys, mask, whole=False)
    line, to = work.own(LINE, heads.element), y + query * heads.width

    def divided(x: Value, i: Index, j: Index, count: int) -> None:
        f.store(x * f.load(line, i), to + (i * heads.width + j), 0, count)

    weights = Matrix(work.own(WEIGHTS, heads.element), heads.row)
    multiply(work, heads, results(heads, rows), weights, Matrix(values, heads.width), divided)
