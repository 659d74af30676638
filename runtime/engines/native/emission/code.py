"""All groups as one object: equal stages of equal groups are one function, called with other addresses.

A function takes the table of addresses of its group, the first unit and the one after the last, and the number of the
thread: `void group(table, start, stop, thread)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from runtime.engines.native.emission.task import Task
from runtime.engines.native.forms import Loops, Stages
from runtime.engines.native.forms.stages import Write
from runtime.engines.native.ir import INT64, Module, pointer
from runtime.engines.native.target import Target

ADDRESS = 8
"""Bytes of an address."""


class Source(NamedTuple):
    """The code of a step before it is compiled.

    Attributes:
        module: all functions.
        functions: by task and stage, the name of the one that computes it.
    """

    module: Module
    functions: list[list[str]]


def emit(target: Target, tasks: Sequence[Task], stages: Sequence[Stages]) -> Source:
    """Write the functions of tasks, of which these are the stages."""
    own_loops = any(isinstance(node.form, Loops) for task in tasks for node in task.group.nodes)
    module = Module(target, has_plain_loops=not own_loops)
    known: dict[str, list[str]] = {}
    functions: list[list[str]] = []
    for task, staged in zip(tasks, stages, strict=True):
        key = task.key
        if key not in known:
            known[key] = _functions(module, f"group_{len(known)}", task, staged)
        functions.append(known[key])
    return Source(module, functions)


def _functions(module: Module, name: str, task: Task, staged: Stages) -> list[str]:
    written: dict[Write, str] = {}
    for stage in staged.all:
        if stage.write in written:
            continue
        written[stage.write] = f"{name}_{len(written)}"
        f = module.function(written[stage.write], [pointer(INT64), INT64, INT64, INT64])
        stage.write(task.work(f, staged), f.arguments[1], f.arguments[2])
        f.end()
    return [written[stage.write] for stage in staged.all]
