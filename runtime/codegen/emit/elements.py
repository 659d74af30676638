"""Groups of pointwise nodes alone: loops over the domain, vectors along its last axis."""

from __future__ import annotations

from math import prod
from typing import Final

from runtime.codegen.emit.body import Body, counted
from runtime.codegen.emit.strips import strips_of_places
from runtime.codegen.ir import Index, Value
from runtime.codegen.ir.words import minimum
from runtime.codegen.kernels.nest import Nest, along, leading, nest, over, spread
from runtime.codegen.lowering.task import Task
from runtime.codegen.machine import Target
from runtime.codegen.rules import Stage, Stages, Work

VECTORS: Final = 16
"""Of a line without axes around it, what is done as one unit."""

WANTED: Final = 32
"""Units, so that threads have something to share."""

NANOSECONDS: Final = 0.06
"""For an element of a node: a guess."""


def element_stages(target: Target, task: Task) -> Stages:
    """One stage, of stretches of the line or of places of the axes around it."""
    domain = task.group.domain
    steps = {name: task.steps(name, domain) for name in task.table}
    loops = nest(domain, steps | counted(task.group.nodes, task.types, domain))
    cost = prod(domain) * (2 + len(task.group.nodes)) * NANOSECONDS
    if len(loops.extents) < 2:
        return _of_one_axis(target, task, loops, cost)
    count = leading(loops.extents[:-1], WANTED)

    def write(work: Work, start: Value, stop: Value) -> None:
        f, body = work.f, _body(work, task)

        def places(first: list[Index]) -> None:
            over(f, loops.extents[count:-1], line, first)

        def line(at: list[Index]) -> None:
            along(
                f, loops.extents[-1], body.lanes, lambda i, lanes, valid: body.at(loops.steps, [*at, i], lanes, valid)
            )

        spread(f, loops.extents[:count], start, stop, places)

    units = prod(loops.extents[:count])
    return Stages((Stage(write, units, cost, strips=strips_of_places(task, units)),))


def _of_one_axis(target: Target, task: Task, loops: Nest, cost: float) -> Stages:
    extent = prod(loops.extents)
    block = VECTORS * target.vector_bytes  # a multiple of the lanes of any element

    def write(work: Work, start: Value, stop: Value) -> None:
        f, body = work.f, _body(work, task)
        if extent <= block:
            along(f, extent, body.lanes, lambda i, lanes, valid: body.at(loops.steps, [i], lanes, valid))
            return
        whole = extent // body.lanes * body.lanes
        for i in f.range(start * block, minimum(stop * block, whole), body.lanes):
            body.at(loops.steps, [i], body.lanes, body.lanes)
        if whole < extent:
            with f.when(stop * block >= extent):
                body.at(loops.steps, [whole], body.lanes, extent - whole)

    strips = None if extent % block else strips_of_places(task, extent // block)
    return Stages((Stage(write, -(-extent // block), cost, strips=strips),))


def _body(work: Work, task: Task) -> Body:
    return Body(work.f, task.group.nodes, task.types, task.stored, work.places, task.constants, refuse=work.refuse)
