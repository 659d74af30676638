"""Strips: units that go through the rows of a batch in order, as do those of the groups before and after.

Who computes a strip of one layer may go on with the same strip of the next, and nobody has to wait: see
`lowering.chains`. Here is what of a group's table such a strip reads its own rows of.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from runtime.codegen.kernels.stages import Strips
from runtime.codegen.lowering.task import Task


def strips_of_places(task: Task, count: int, others: Iterable[str] = ()) -> Strips | None:
    """So many equal stretches of the places of a group's domain in row-major order, if they write their own rows.

    Of operands that have a place for each of the domain, or one for each of its first axes, they read their own rows;
    and of these others.
    """
    if not task.group.domain or not all(_has_rows(task, name) for name in task.stored):
        return None
    return strips(task, count, task.group.domain[0], [*others, *filter(lambda x: _has_rows(task, x), task.table)])


def strips(task: Task, count: int, rows: int, reads: Iterable[str]) -> Strips | None:
    """So many equal strips of rows, that read their own rows of these tensors; none if there is one."""
    names = set(reads)
    places = frozenset(i for i, name in enumerate(task.table) if name in names)
    return Strips(count, rows, places) if count > 1 and places else None


def has_rows_apart(task: Task, name: str, rows: int, apart: int) -> bool:
    """Whether a tensor has so many rows along its first axis, whose elements lie so far from those of the next."""
    type = task.types[name]
    return (
        bool(type.rank)
        and type.static_shape[0] == rows
        and prod(type.static_shape[1:]) == apart
        and _is_whole(task, name)
    )


def _has_rows(task: Task, name: str) -> bool:
    """Whether the first axis of a tensor is that of the domain."""
    type, domain = task.types[name], task.group.domain
    of_rows = name in task.group.of_rows and 0 not in task.group.joined
    return (
        bool(type.rank)
        and type.static_shape[0] == domain[0]
        and (type.rank == len(domain) or of_rows)
        and _is_whole(task, name)
    )


def _is_whole(task: Task, name: str) -> bool:
    return name not in task.accesses
