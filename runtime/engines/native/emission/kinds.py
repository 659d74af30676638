"""How the work of a group is divided, by the kind of its form."""

from __future__ import annotations

from collections.abc import Callable

from runtime.engines.native.emission.elements import element_stages
from runtime.engines.native.emission.finishing import finished
from runtime.engines.native.emission.making import making
from runtime.engines.native.emission.one_column import column_stages, is_one_column
from runtime.engines.native.emission.products import product_stages
from runtime.engines.native.emission.reductions import reduction_stages
from runtime.engines.native.emission.rows import row_stages
from runtime.engines.native.emission.task import Task
from runtime.engines.native.forms import Loops, Pointwise, Stages
from runtime.engines.native.forms.shape import MOVES, moving_stages
from runtime.engines.native.lowering.nodes import Node
from runtime.engines.native.target import Target


def stages_of(target: Target, task: Task) -> Stages:
    """The stages of a group that has a form."""
    node = task.group.nodes[0]
    if node.op.type in MOVES:
        sources, results = map(task.lying, node.inputs), [task.types[name] for name in node.outputs]
        return moving_stages(target, node.op.type, [*sources], results, node.attributes)
    if isinstance(node.form, Loops):
        stages = _of_loops(target, task, node, node.form)
        return finished(task, stages) if len(task.group.nodes) > 1 else stages
    stages = _kind(task)(target, task)
    return stages._replace(refuses=any(isinstance(n.form, Pointwise) and n.form.refused for n in task.group.nodes))


def _of_loops(target: Target, task: Task, node: Node, form: Loops) -> Stages:
    inputs = [task.types[name] if name else None for name in node.inputs]
    outputs = [task.types[name] for name in node.outputs]
    if not task.group.before:
        return form.plan(target, inputs, outputs, node.attributes)
    assert form.made is not None, f"{node.op.type} makes no operand"
    stages = form.made(target, [type for type in inputs if type], outputs, node.attributes)
    assert stages is not None, f"{node.op.type} makes no operand of these types"
    return making(task, stages)


def _kind(task: Task) -> Callable[[Target, Task], Stages]:
    group = task.group
    if group.product:
        return column_stages if is_one_column(task) else product_stages
    if group.is_rows:
        return row_stages
    return reduction_stages if group.is_reduced else element_stages
