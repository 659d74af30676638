"""Prepack: what follows from states and constants alone is made when they have changed, not in every step.

Only in entries that update no state, such as those that predict: there every step reads the same weights. Two things
are made so. A group that reads nothing else, such as a weight that is transposed or the scale of a batch norm, is
prepacked as a whole: nothing is left of it in a step. Of others those stages are that say so, `Stage.prepack`: weights
in panels, filters transformed. What they leave has memory of its own, in which nothing else lies, ever; all threads
that make steps of an entry read the same.

It has to be worth its memory: it is kept if the part of a step's time that it saves is not far less than the part of
the step's memory that it takes. What has to be made in every step is divided as if nothing were known of its operands.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final

from runtime.codegen.lowering.groups import Group
from runtime.codegen.lowering.nodes import Nodes
from runtime.codegen.lowering.task import Task, task_of
from runtime.codegen.rules import Pointwise, Stages
from runtime.placement.alignment import aligned
from runtime.step import spills

SMALL: Final = 1 << 16
"""Bytes that need not be worth anything."""

WORTH: Final = 0.01
"""The part of a step's time that has to be saved by as many bytes as all states that the step reads."""


Divide = Callable[[Task], Stages]
"""Gives the stages of a task."""


def prepacked(nodes: Nodes, groups: Sequence[Group], tasks: Sequence[Task | None], divide: Divide) -> list[Task | None]:
    """The tasks of groups in order, which know of their operands what is steady, if that is worth it."""
    if nodes.block.desc.updates:
        return list(tasks)
    steady = {*nodes.state_of, *nodes.constants}
    bytes_of_states = sum(nodes.types[name].nbytes for name in nodes.state_of)
    whole = sum(stage.cost for task in tasks if task is not None for stage in divide(task).stages)
    price = WORTH * whole / max(bytes_of_states, 1)
    result: list[Task | None] = []
    for group, task in zip(groups, tasks, strict=True):
        known = None if task is None else _with_steady(nodes, group, task, steady, divide, price)
        if known and known.is_prepacked:
            steady.update(group.makes)
        result.append(known or task)
    return result


def _with_steady(
    nodes: Nodes, group: Group, task: Task, steady: Collection[str], divide: Divide, price: float
) -> Task | None:
    """A task that is prepacked, whole or in part; None if it cannot be, or is not worth this price of a byte."""
    whole = all(name in steady for name in group.reads) and _is_the_same_each_time(group, divide(task))
    task = task_of(nodes, group, group.makes, frozenset(steady), is_prepacked=whole)
    made = divide(task)
    if not made.prepacked:
        return None
    sizes = [*made.shared, *made.own]
    nbytes = sum(aligned(sizes[number]) for number in made.packed)
    nbytes += sum(aligned(nodes.types[name].nbytes) for name in group.makes) if whole else 0
    saved = sum(stage.cost for stage in made.prepacked)
    return task if nbytes <= SMALL or saved >= price * nbytes else None


def _is_the_same_each_time(group: Group, stages: Stages) -> bool:
    """Whether it draws nothing at random, moves nothing to a file and cannot be refused."""
    draws = any(isinstance(node.form, Pointwise) and node.form.is_random for node in group.nodes)
    return not (draws or stages.refuses or spills(group.nodes[0].op.type))
