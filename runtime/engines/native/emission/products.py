"""Groups that begin with a product: the tile's vectors go through the pointwise nodes while they are in registers."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Final, NamedTuple

from runtime.engines.native.emission.body import Body, counted
from runtime.engines.native.emission.nest import Nest, moved, nest, row_major, unravelled
from runtime.engines.native.emission.task import Task
from runtime.engines.native.forms import Product, Stage, Stages, Work
from runtime.engines.native.ir import DTYPES, Index, Value
from runtime.engines.native.product import Matrix, Plan, plan_product, product, tile_cycles
from runtime.engines.native.product.plan import PAGE
from runtime.engines.native.target import Target

LEFT, RIGHT = "left factor", "right factor"  # no tensor has a space in its name

PART_NANOSECONDS: Final = 8000.0
"""Below so much, dividing costs more than a second thread gains."""

MOST_PARTS: Final = 8
"""Of one matrix: each copies operands for itself."""

COPY_NANOSECONDS: Final = 0.3
"""For an element of an operand that is copied."""

FAR: Final = 2.0
"""How much longer a product takes that reads rows of the right operand where they fall on each other in the cache."""

BY_ROWS: Final = 1.3
"""How much longer a cut by rows takes than it looks.

A product forward and the gradient of its weights have the columns of the weights in common, so cut by columns each
thread finds in its caches what it wrote there.
"""

MANY: Final = 8
"""Matrices that are enough for all threads, whole."""


class Shape(NamedTuple):
    """A product as matrices: loops around it, rows, columns, depth, and the strides of its operands."""

    loops: Nest
    m: int
    n: int
    k: int
    left: tuple[int, int]
    right: tuple[int, int]


def product_shape(task: Task) -> Shape:
    """How a group's product is cut into matrices: neighbouring axes are one where all operands go on evenly."""
    node, domain = task.group.nodes[0], task.group.domain
    assert isinstance(node.form, Product), "only asked of groups that begin with one"
    factors = node.form.factors(*(task.lying(name) for name in node.inputs), **node.attributes)
    assert factors is not None, "only read where there is code for it"
    beside = {name for other in task.group.nodes[1:] for name in other.inputs} | set(task.stored)
    steps = {name: task.steps(name, domain) for name in task.table if name in beside}
    steps |= counted(task.group.nodes, task.types, domain)
    steps |= {LEFT: factors.left[:-1], RIGHT: factors.right[:-1]}
    rows = nest(domain[:-1], {name: step[:-1] for name, step in steps.items()})
    is_row = bool(rows.extents) and not rows.steps[RIGHT][-1]  # else the last axis has a right factor for each place
    m, around = (rows.extents[-1], rows.extents[:-1]) if is_row else (1, rows.extents)
    kept = {name: (*step, *(() if is_row else (0,)), steps[name][-1]) for name, step in rows.steps.items()}
    left, right = kept[LEFT], kept[RIGHT]
    return Shape(
        Nest((*around, m, domain[-1]), kept),
        m,
        domain[-1],
        factors.depth,
        (left[-2], factors.left[-1]),
        (factors.right[-1], right[-1]),
    )


class Cut(NamedTuple):
    """A product divided into equal parts along its rows or its columns, the last of which may be smaller."""

    by_rows: bool
    size: int
    parts: int


def product_stages(target: Target, task: Task) -> Stages:
    """One stage: a unit is a part of a matrix, or a whole one where there are many."""
    shape, dtype = product_shape(task), _dtype(task)
    bits = DTYPES[dtype].bits
    around = shape.loops.extents[:-2]
    cut = divided(target, bits, shape, prod(around))
    whole, last = (_plan(target, bits, shape, cut, size) for size in _sizes(shape, cut))
    item = bits // 8
    waiting = shape.m * shape.n * prod(around) * item if whole.depths > 1 else 0
    room = max(whole.scratch, last.scratch) * item

    def write(work: Work, start: Value, stop: Value) -> None:
        emission = _Emission(work, task, shape, cut)
        for unit in work.f.range(start, stop):
            at = unravelled(work.f, work.f.index(unit) // cut.parts, around)
            part = work.f.index(unit) % cut.parts
            if whole == last and _sizes(shape, cut)[0] == _sizes(shape, cut)[1]:
                emission.part(at, part, whole, cut.size)
                continue
            is_last = part.equal(cut.parts - 1)
            with work.f.when(~is_last):
                emission.part(at, part, whole, cut.size)
            with work.f.when(is_last):
                emission.part(at, part, last, _sizes(shape, cut)[1])

    cost = prod(around) * cost_of(target, bits, shape)
    return Stages((Stage(write, prod(around) * cut.parts, cost),), (max(waiting, 64),), (max(room, 64),))


def cost_of(target: Target, bits: int, shape: Shape) -> float:
    """Nanoseconds of one matrix: multiply-adds at four fifths of two vectors in a cycle of 2.5 GHz, and its start."""
    rate = target.lanes(bits) * 2 * 2.5 * 0.8 * (1 if target.fma else 0.5)
    return shape.m * shape.n * shape.k / rate + (shape.m * shape.n + shape.n * shape.k) * 0.02


def divided(target: Target, bits: int, shape: Shape, matrices: int) -> Cut:
    """How one matrix is divided: into parts of some microseconds, where they lose least to edges of tiles.

    Bits do not depend on it: an element is the same sum in every part.
    """
    lanes = target.lanes(bits)
    wanted = min(int(cost_of(target, bits, shape) / PART_NANOSECONDS), MOST_PARTS) if matrices < MANY else 1
    cuts = [Cut(True, shape.m, 1)]
    for parts in range(2, wanted + 1, 2):
        rows, columns = -(-shape.m // parts), -(-shape.n // (parts * lanes)) * lanes
        cuts += [Cut(True, rows, -(-shape.m // rows))] if parts <= shape.m else []
        cuts += [Cut(False, columns, -(-shape.n // columns))] if parts * lanes <= shape.n else []
    return min(cuts, key=lambda cut: _cost_of_cut(target, bits, shape, cut) * (1 + 0.1 / cut.parts))


def _cost_of_cut(target: Target, bits: int, shape: Shape, cut: Cut) -> float:
    """Nanoseconds of all parts, copies of operands included, on one thread; one part keeps another thread waiting."""
    m, n = (cut.size, shape.n) if cut.by_rows else (shape.m, cut.size)
    plan = _plan(target, bits, shape, cut, cut.size)
    copied = plan.pack_left * m + plan.pack_right * n
    far = not plan.pack_right and n > plan.width and shape.right[0] * bits // 8 % PAGE == 0
    cycles = tile_cycles(target, plan.lanes, m, n) * (FAR if far else 1)
    part = (cycles * 0.4 + copied * COPY_NANOSECONDS) * shape.k
    return part * (cut.parts if cut.parts > 1 else 1.5) * (BY_ROWS if cut.by_rows and cut.parts > 1 else 1)


def _sizes(shape: Shape, cut: Cut) -> tuple[int, int]:
    """Of all parts but the last, and of the last."""
    total = shape.m if cut.by_rows else shape.n
    return cut.size, total - cut.size * (cut.parts - 1)


def _plan(target: Target, bits: int, shape: Shape, cut: Cut, size: int) -> Plan:
    m, n = (size, shape.n) if cut.by_rows else (shape.m, size)
    return plan_product(target, bits, m, n, shape.k, shape.left, shape.right)


class _Emission:
    def __init__(self, work: Work, task: Task, shape: Shape, cut: Cut) -> None:
        self.f, self.work, self.shape, self.cut, self.dtype = work.f, work, shape, cut, _dtype(task)
        node = task.group.nodes[0]
        self.result = node.outputs[0]
        nodes, given = task.group.nodes[1:], node.outputs
        self.body = Body(self.f, nodes, task.types, task.stored, work.places, task.constants, given, refuse=work.refuse)
        self.left, self.right = (work.places[name] for name in node.inputs)

    def part(self, at: list[Index], number: Value, plan: Plan, size: int) -> None:
        """A part of the matrix at these places of the axes around it."""
        shape, steps = self.shape, self.shape.loops.steps
        m, n = (size, shape.n) if self.cut.by_rows else (shape.m, size)
        first = number * self.cut.size
        row, column = (first, 0) if self.cut.by_rows else (0, first)
        element = DTYPES[self.dtype]

        def finished(x: Value, i: Index, j: Index, count: int) -> None:
            self.body.at(steps, [*at, row + i, column + j], plan.lanes, count, {self.result: x})

        waiting = Matrix(self.work.shared(0, element), shape.n).moved(row, column)
        matrix = moved(at, row_major(shape.loops.extents[:-2], shape.loops.extents[:-2]))
        product(
            self.f,
            plan,
            element,
            m,
            n,
            shape.k,
            Matrix(self.left + shape.loops.offset(LEFT, at), *shape.left).moved(row, 0),
            Matrix(self.right + shape.loops.offset(RIGHT, at), *shape.right).moved(0, column),
            finished,
            partial=replace(waiting, at=waiting.at + matrix * (shape.m * shape.n)) if plan.depths > 1 else None,
            scratch=self.work.own(0, element) if plan.scratch else None,
        )


def _dtype(task: Task) -> str:
    return task.types[task.group.nodes[0].outputs[0]].dtype
