"""Groups of pointwise nodes alone: loops over the domain, vectors along its last axis."""

from __future__ import annotations

from runtime.engines.native.emission.body import Body
from runtime.engines.native.emission.nest import along, nest, over, row_major
from runtime.engines.native.emission.task import Task
from runtime.engines.native.ir import Function, Index, Value


def elements(f: Function, task: Task, context: Value) -> None:
    """Write the group."""
    body = Body(f, task.group.nodes, task.types, task.stored, task.places(f, context), task.constants)
    domain = task.group.domain
    steps = {name: row_major(task.types[name].static_shape, domain) for name in task.table}
    loops = nest(domain, steps)
    *outer, inner = loops.extents or (1,)

    def line(at: list[Index]) -> None:
        def vector(i: Index, lanes: int, count: int) -> None:
            body.at(loops.steps, [*at, i], lanes, count)

        along(f, inner, body.lanes, vector)

    over(f, outer, line)
