"""Groups that begin with a product: the tile's vectors go through the pointwise nodes while they are in registers."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.engines.native.emission.body import Body
from runtime.engines.native.emission.nest import Nest, nest, over, row_major
from runtime.engines.native.emission.task import Task
from runtime.engines.native.forms import Product
from runtime.engines.native.ir import DTYPES, Function, Index, Value
from runtime.engines.native.product import Matrix, Plan, plan_product, product
from runtime.engines.native.target import Target

LEFT, RIGHT = "left factor", "right factor"  # no tensor has a space in its name


@dataclass(frozen=True)
class Shape:
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
    factors = node.form.factors(*(task.types[name] for name in node.inputs), **node.attributes)
    beside = {name for other in task.group.nodes[1:] for name in other.inputs} | set(task.stored)
    steps = {name: row_major(task.types[name].static_shape, domain) for name in task.table if name in beside}
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


def product_plan(target: Target, task: Task) -> tuple[Shape, Plan]:
    """How the group's product is cut."""
    shape = product_shape(task)
    bits = DTYPES[_dtype(task)].bits
    return shape, plan_product(target, bits, shape.m, shape.n, shape.k, shape.left, shape.right)


def product_scratch(target: Target, task: Task) -> list[int]:
    """Bytes for copies of operands, and for sums that wait."""
    shape, plan = product_plan(target, task)
    item = DTYPES[_dtype(task)].bits // 8
    waiting = shape.m * shape.n * item if plan.depths > 1 else 0
    return [max(plan.scratch * item, 64), max(waiting, 64)]


def products(f: Function, task: Task, context: Value) -> None:
    """Write the group."""
    node, dtype = task.group.nodes[0], _dtype(task)
    shape, plan = product_plan(f.target, task)
    places = task.places(f, context)
    body = Body(f, task.group.nodes[1:], task.types, task.stored, places, task.constants, node.outputs)
    room, waiting = (task.scratch(f, context, dtype, i) for i in range(2))
    left, right = (places[name] for name in node.inputs)
    steps = shape.loops.steps

    def matrices(at: list[Index]) -> None:
        def finished(x: Value, i: Index, j: Index, count: int) -> None:
            body.at(steps, [*at, i, j], plan.lanes, count, {node.outputs[0]: x})

        product(
            f,
            plan,
            DTYPES[dtype],
            shape.m,
            shape.n,
            shape.k,
            Matrix(left + shape.loops.offset(LEFT, at), *shape.left),
            Matrix(right + shape.loops.offset(RIGHT, at), *shape.right),
            finished,
            partial=Matrix(waiting, shape.n) if plan.depths > 1 else None,
            scratch=room if plan.scratch else None,
        )

    over(f, shape.loops.extents[:-2], matrices)


def _dtype(task: Task) -> str:
    return task.types[task.group.nodes[0].outputs[0]].dtype
