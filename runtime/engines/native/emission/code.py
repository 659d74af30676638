"""All groups as one object: equal groups are one function, called with other addresses.

A function of a group takes a table of addresses. The tables of all groups stand one after the other, so a segment,
which calls groups in order, takes the first table and knows where the others begin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from runtime.engines.native import jit
from runtime.engines.native.emission.elements import elements
from runtime.engines.native.emission.products import product_scratch, products
from runtime.engines.native.emission.reductions import reductions
from runtime.engines.native.emission.task import Task
from runtime.engines.native.ir import INT64, Module, pointer
from runtime.engines.native.target import Target

ADDRESS = 8
"""Bytes of an address."""


@dataclass(frozen=True)
class Source:
    """The code of a step before it is compiled.

    Attributes:
        module: all functions.
        functions: by task, the name of the one that computes it.
        segments: the names of the functions that call several.
    """

    module: Module
    functions: list[str]
    segments: list[str]


def scratch_of_task(target: Target, task: Task) -> list[int]:
    """Bytes that a group needs besides what it reads and writes."""
    return product_scratch(target, task) if task.group.product else []


def emit(target: Target, tasks: Sequence[Task], segments: Sequence[Sequence[int]], tables: Sequence[int]) -> Source:
    """Write the functions.

    Args:
        target: what for.
        tasks: the groups that have forms, in order.
        segments: positions of tasks that are computed one after the other.
        tables: for each task, how many addresses stand before its own.
    """
    module = Module(target)
    names: dict[str, str] = {}
    functions: list[str] = []
    for task in tasks:
        key = task.key
        if key not in names:
            names[key] = f"group_{len(names)}"
            _function(module, names[key], task)
        functions.append(names[key])
    for number, positions in enumerate(segments):
        f = module.function(f"segment_{number}", [pointer(INT64)])
        for i in positions:
            f.call(functions[i], f.arguments[0] + (tables[i] - tables[positions[0]]))
        f.end()
    return Source(module, functions, [f"segment_{number}" for number in range(len(segments))])


def _function(module: Module, name: str, task: Task) -> None:
    f = module.function(name, [pointer(INT64)])
    write = products if task.group.product else reductions if task.group.reduction else elements
    write(f, task, f.arguments[0])
    f.end()


def loaded(source: Source) -> jit.Loaded:
    """The code, ready to be called."""
    return jit.load(jit.compiled(source.module), source.module.target)
