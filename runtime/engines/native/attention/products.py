"""The products of a unit, and the memory that they need beside their operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from runtime.engines.native.attention.heads import Heads
from runtime.engines.native.forms.stages import Work
from runtime.engines.native.product import Matrix, Plan, plan_product, product
from runtime.engines.native.product.loops import Epilogue

SCRATCH, WAITING, WEIGHTS, LINE, SECOND = range(5)
"""The thread's own memory: for copies of operands, for sums of a depth that is cut, for weights, for a number of each
query, and for what belongs to the gradient of weights."""


class Sizes(NamedTuple):
    """A product of m x k by k x n, and the steps of both operands along rows and columns."""

    m: int
    n: int
    k: int
    left: tuple[int, int]
    right: tuple[int, int]


def planned(heads: Heads, sizes: Sizes) -> Plan:
    """How it is cut."""
    return plan_product(heads.target, heads.element.bits, *sizes)


def room(heads: Heads, products: Sequence[Sizes], lines: int, of_gradient: bool) -> tuple[int, ...]:
    """Bytes of each scratch of a thread."""
    plans = [planned(heads, sizes) for sizes in products]
    waiting = [sizes.m * sizes.n for sizes, plan in zip(products, plans, strict=True) if plan.depths > 1]
    weights = heads.block * heads.row
    counts = (max(plan.scratch for plan in plans), max(waiting, default=0), weights, lines)
    return tuple(max(count, 8) * heads.item for count in (*counts, *((weights,) if of_gradient else ())))


def multiply(work: Work, heads: Heads, sizes: Sizes, left: Matrix, right: Matrix, epilogue: Epilogue) -> None:
    """Write a product."""
    plan = planned(heads, sizes)
    waiting = Matrix(work.own(WAITING, heads.element), sizes.n)
    scratch = work.own(SCRATCH, heads.element)
    product(
        work.f, plan, heads.element, sizes.m, sizes.n, sizes.k, left, right, epilogue, partial=waiting, scratch=scratch
    )
