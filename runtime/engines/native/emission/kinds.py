"""How the work of a group is divided, by the kind of its form."""

from __future__ import annotations

from runtime.engines.native.emission.elements import element_stages
from runtime.engines.native.emission.products import product_stages
from runtime.engines.native.emission.reductions import reduction_stages
from runtime.engines.native.emission.rows import row_stages
from runtime.engines.native.emission.task import Task
from runtime.engines.native.forms import Loops, Stages
from runtime.engines.native.forms.shape import MOVES, moving_stages
from runtime.engines.native.target import Target


def stages_of(target: Target, task: Task) -> Stages:
    """The stages of a group that has a form."""
    node = task.group.nodes[0]
    if node.op.type in MOVES:
        sources, results = map(task.lying, node.inputs), [task.types[name] for name in node.outputs]
        return moving_stages(target, node.op.type, [*sources], results, node.attributes)
    if isinstance(node.form, Loops):
        inputs = [task.types[name] if name else None for name in node.inputs]
        return node.form.plan(target, inputs, [task.types[name] for name in node.outputs], node.attributes)
    if task.group.product:
        return product_stages(target, task)
    if task.group.is_rows:
        return row_stages(target, task)
    return reduction_stages(target, task) if task.group.is_reduced else element_stages(target, task)
