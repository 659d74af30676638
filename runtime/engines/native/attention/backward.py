"""The gradients of attention: a unit is a head of keys and values, with all queries that read it, block after block.

With weights p and their gradient dp, that of the scores is p * (dp - the sum of p * dp).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from prograd_proto import TensorType
from runtime.engines.native.attention.forward import blocks_of
from runtime.engines.native.attention.heads import Heads, heads_of
from runtime.engines.native.attention.products import SECOND, WEIGHTS, Sizes, multiply, room
from runtime.engines.native.attention.weights import Block, scores, write_weights
from runtime.engines.native.emission.nest import along
from runtime.engines.native.forms.stages import Stage, Stages, Work
from runtime.engines.native.ir import Index, Value
from runtime.engines.native.ir.words import across
from runtime.engines.native.product import Matrix
from runtime.engines.native.product.loops import Epilogue, stored
from runtime.engines.native.reduction import SUM, in_lanes
from runtime.engines.native.target import Target


def backward(
    target: Target, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType], attributes: Mapping[str, Any]
) -> Stages:
    """One stage."""
    *operands, mask = inputs
    q, k, v, _ = (x for x in operands if x is not None)
    heads = heads_of(target, q, k, v, mask, attributes["causal"], attributes["scale"])
    of_group = heads.heads // heads.groups

    def write(work: Work, start: Value, stop: Value) -> None:
        f = work.f
        for group in f.range(start, stop):
            _clear(work, heads, f.index(group))
            for part in f.range(0, of_group * heads.blocks):
                head = group * of_group + f.index(part) // heads.blocks
                for first, rows in blocks_of(work, heads, f.index(part) % heads.blocks):
                    _Block(work, heads, f.index(group), head, first, rows).write()

    products = [part for rows in {heads.block, heads.last} for part in (scores(heads, rows), *_products(heads, rows))]
    own = room(heads, products, heads.block, True)
    return Stages((Stage(write, heads.images * heads.groups, heads.nanoseconds * 2.5),), own=own)


def _products(heads: Heads, rows: int) -> tuple[Sizes, Sizes, Sizes, Sizes]:
    """Of weights' gradients, of those of queries, of keys and of values."""
    keys, depth, width, row = heads.keys, heads.depth, heads.width, heads.row
    return (
        Sizes(rows, keys, width, (width, 1), (1, width)),
        Sizes(rows, depth, keys, (row, 1), (depth, 1)),
        Sizes(keys, depth, rows, (1, row), (depth, 1)),
        Sizes(keys, width, rows, (1, row), (width, 1)),
    )


def _clear(work: Work, heads: Heads, group: Value) -> None:
    """Sums of keys' and values' gradients begin at 0."""
    for to, size in ((work.outputs[1], heads.keys * heads.depth), (work.outputs[2], heads.keys * heads.width)):
        at = to + group * size

        def zero(i: Index, lanes: int, count: int, at: Value = at) -> None:
            work.f.store(work.f.constant(heads.element.of(lanes), 0), at, i, count if lanes else None)

        along(work.f, size, heads.lanes, zero)


class _Block:
    def __init__(self, work: Work, heads: Heads, group: Value, head: Value, first: Index, rows: int) -> None:
        self.work, self.heads, self.rows = work, heads, rows
        *operands, self.mask = work.inputs
        q, k, v, dy = (x for x in operands if x is not None)
        query = head * heads.queries + first
        self.q, self.dy = q + query * heads.depth, dy + query * heads.width
        self.k, self.v = k + group * (heads.keys * heads.depth), v + group * (heads.keys * heads.width)
        dq, dk, dv = work.outputs
        self.dq = dq + query * heads.depth
        self.dk, self.dv = dk + group * (heads.keys * heads.depth), dv + group * (heads.keys * heads.width)
        self.block = Block(head // heads.heads, head % heads.heads, first, rows)

    def write(self) -> None:
        """All products of a block."""
        work, heads, element = self.work, self.heads, self.heads.element
        row, depth, width = heads.row, heads.depth, heads.width
        of_weights, of_queries, of_keys, of_values = _products(heads, self.rows)
        write_weights(work, heads, self.block, self.q, self.k, self.mask, whole=True)
        p, dp = Matrix(work.own(WEIGHTS, element), row), Matrix(work.own(SECOND, element), row)
        multiply(work, heads, of_weights, Matrix(self.dy, width), Matrix(self.v, 1, width), stored(dp))
        multiply(work, heads, of_values, Matrix(p.at, 1, row), Matrix(self.dy, width), self._added(self.dv, width))
        for i in work.f.range(0, self.rows):
            self._of_scores(p.at + i * row, dp.at + i * row)
        multiply(work, heads, of_queries, dp, Matrix(self.k, depth), stored(Matrix(self.dq, depth)))
        multiply(work, heads, of_keys, Matrix(dp.at, 1, row), Matrix(self.q, depth), self._added(self.dk, depth))

    def _added(self, to: Value, width: int) -> Epilogue:
        f, lanes = self.work.f, self.heads.lanes

        def add(x: Value, i: Index, j: Index, count: int) -> None:
            at = to + (i * width + j)
            f.store(f.load(at, 0, lanes, count) + x, at, 0, count)

        return add

    def _of_scores(self, p: Value, dp: Value) -> None:
        """The gradient of weights becomes that of scores, a row of both."""
        f, lanes, keys = self.work.f, self.heads.lanes, self.heads.keys

        def both(j: Index, tail: int | None) -> list[Value]:
            return [f.load(p, j, lanes, tail) * f.load(dp, j, lanes, tail)]

        [total] = in_lanes(f, keys, both, [SUM], [self.heads.element.of(lanes)])
        total = f.splat(across(total, SUM.join), lanes)

        def change(j: Index, tail: int) -> None:
            x = (f.load(dp, j, lanes, tail) - total) * f.load(p, j, lanes, tail) * self.heads.scale
            f.store(x, dp, j, tail)

        whole = keys // lanes * lanes
        for j in f.range(0, whole, lanes):
            change(j, lanes)
        if whole < keys:
            change(whole, keys - whole)
