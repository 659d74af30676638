"""All groups as one object: equal stages of equal groups are one function, called with other addresses.

A function takes the table of addresses of its group, the first unit and the one after the last, and the number of the
thread: `void group(table, start, stop, thread)`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from runtime.codegen.ir import INT64, Module, pointer
from runtime.codegen.kernels.stages import Write
from runtime.codegen.lowering.task import Task
from runtime.codegen.machine import Target
from runtime.codegen.rules import Loops, Stages

ADDRESS = 8
"""Bytes of an address."""

MODULE_BYTES: Final = 1 << 20
"""Text of a module after which the next group begins a new one. LLVM takes up to 24 bytes for each byte of text and a
second for a MiB of it, so this bounds the memory of compiling and the time until a limit of time is seen."""


class Source(NamedTuple):
    """The code of a step before it is compiled.

    Attributes:
        modules: the functions, in modules that are written when they are asked for.
        functions: by task and stage, the name of the function that computes it; complete after the last module.
    """

    modules: Iterator[Module]
    functions: list[list[str]]


def emit(target: Target, tasks: Sequence[Task], stages: Sequence[Stages], module_bytes: float = MODULE_BYTES) -> Source:
    """Write the functions of `tasks`, of which these are the stages, in modules of about `module_bytes` of text."""
    functions: list[list[str]] = []
    return Source(_modules(target, tasks, stages, module_bytes, functions), functions)


def _modules(
    target: Target, tasks: Sequence[Task], stages: Sequence[Stages], module_bytes: float, functions: list[list[str]]
) -> Iterator[Module]:
    own_loops = any(isinstance(node.form, Loops) for task in tasks for node in task.group.nodes)
    module = Module(target, has_plain_loops=not own_loops)
    known: dict[str, list[str]] = {}
    for task, staged in zip(tasks, stages, strict=True):
        key = task.key
        if key not in known:
            if module.nbytes >= module_bytes:
                yield module
                module = Module(target, has_plain_loops=not own_loops)
            known[key] = _functions(module, f"group_{len(known)}", task, staged)
        functions.append(known[key])
    yield module


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
