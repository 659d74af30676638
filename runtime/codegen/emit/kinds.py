"""How the work of a group is divided, by the kind of its form."""

from __future__ import annotations

from collections.abc import Callable

from runtime.codegen.emit.bottlenecks import bottleneck_stages
from runtime.codegen.emit.elements import element_stages
from runtime.codegen.emit.finishing import finished
from runtime.codegen.emit.making import making
from runtime.codegen.emit.one_column import column_stages
from runtime.codegen.emit.products import product_stages
from runtime.codegen.emit.reductions import reduction_stages
from runtime.codegen.emit.rows import row_stages
from runtime.codegen.lowering.nodes import Additions, Node
from runtime.codegen.lowering.task import Task
from runtime.codegen.machine import Target
from runtime.codegen.rules import Loops, Pointwise, Prepack, Stages
from runtime.codegen.rules.shape import MOVES, moving_stages


def stages_of(target: Target, task: Task) -> Stages:
    """The stages of a group that has a form; apart from others those that are made only when states have changed."""
    stages = _stages_of(target, task)
    if task.is_prepacked:
        scratch = frozenset(range(len(stages.shared) + len(stages.own)))
        return stages._replace(stages=(), prepacked=stages.stages, packed=scratch)
    packs = [stage for stage in stages.stages if _is_steady(task, stage.prepack)]
    others = tuple(stage for stage in stages.stages if not _is_steady(task, stage.prepack))
    packed = frozenset(number for stage in packs if stage.prepack for number in stage.prepack.writes)
    return stages._replace(stages=others, prepacked=tuple(packs), packed=packed)


def _is_steady(task: Task, prepack: Prepack | None) -> bool:
    """Whether all that a stage reads is the same from step to step."""
    loops = [node for node in task.group.before if isinstance(node.form, Loops)]
    inputs = [name for node in (*loops, task.group.nodes[0]) for name in node.inputs]
    return prepack is not None and all(not inputs[n] or inputs[n] in task.steady for n in prepack.reads)


def _stages_of(target: Target, task: Task) -> Stages:
    node = task.group.nodes[0]
    if node.op.type in MOVES:
        sources, results = map(task.lying, node.inputs), [task.types[name] for name in node.outputs]
        return moving_stages(target, node.op.type, [*sources], results, node.attributes)
    if any(isinstance(before.form, Loops) for before in task.group.before):
        return bottleneck_stages(target, task)
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
        return column_stages if task.additions is Additions.LANES else product_stages
    if group.is_rows:
        return row_stages
    return reduction_stages if group.is_reduced else element_stages
