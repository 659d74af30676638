"""What becomes of a block, in words: after any of the passes that lower it, or the code at their end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from prograd_proto.spelling import closest
from runtime.codegen.emit.code import emit
from runtime.codegen.lower import Lowered
from runtime.codegen.lowering.chunks import stretches
from runtime.codegen.lowering.groups import Group
from runtime.codegen.lowering.nodes import Node, Nodes
from runtime.codegen.rules import Stage
from runtime.errors import UsageError
from runtime.placement.alignment import aligned

PASSES: Final = {
    "read": "ops with their forms; views are what they are views of, constants are numbers",
    "accesses": "ops that pick elements out of a tensor as how others read that",
    "layers": "recurrent layers with what is around them, as they are best computed together",
    "fuse": "ops that are computed by one nest of loops",
    "remake": "what is cheap is computed again where it is read, instead of being stored",
    "order": "updates of states after all that reads the old value",
    "divide": "each group as stages of units of work",
    "prepack": "what follows from states alone is apart: it is made when they have changed",
    "phases": "what may be computed at the same time",
    "place": "what still needs memory, and where it lies",
    "chunks": "the units that threads share",
}
"""In order, with what each makes."""


def explained(step: Lowered, after: str | None = None) -> Iterator[str]:
    """Lines that say what there is after a pass; after the last one, unless it is named.

    Raises UsageError if there is no such pass.
    """
    if after is not None and after not in PASSES:
        hint = closest(after, PASSES) or f"; the passes are {', '.join(PASSES)}"
        raise UsageError(f"the native engine has no pass {after!r}{hint}")
    known = list(PASSES)[: list(PASSES).index(after or "chunks") + 1]
    if "fuse" not in known:
        yield from _nodes({"read": step.read, "accesses": step.accessed}.get(known[-1], step.nodes))
        return
    groups = step.groups if "order" in known else step.remade if "remake" in known else step.fused
    apart = [i for i, staged in enumerate(step.stages) if "prepack" in known and staged.is_prepacked]
    if apart:
        yield "prepacked"
    phase = -1
    for i in [*apart, *(i for i in range(len(groups)) if i not in apart)]:
        if "phases" in known and i not in apart and step.phases.first[i] != phase:
            phase = step.phases.first[i]
            yield f"phase {phase + 1}"
        yield f"  {_where(groups[i]):>16}  {_in_words(step, i, groups[i], known)}"
    if "place" in known:
        yield from _memory(step)
    yield from _left(step)


def code_of(step: Lowered) -> str:
    """LLVM's IR of all functions."""
    tasks = [(task, staged) for task, staged in zip(step.tasks, step.stages, strict=True) if task is not None]
    source = emit(step.target, [task for task, _ in tasks], [staged for _, staged in tasks], float("inf"))
    return next(source.modules).text


def _nodes(block: Nodes) -> Iterator[str]:
    for name, access in block.accesses.items():
        yield f"{'access':>10}  {name} = {access}"
    for node in block.nodes:
        read, made = ", ".join(filter(None, node.inputs)), ", ".join(node.outputs)
        yield f"{_kind(node):>10}  {made} = {node.op.type}({read})"


def _kind(node: Node) -> str:
    return "NumPy" if node.form is None else type(node.form).__name__.lower()


def _where(group: Group) -> str:
    return "NumPy" if group.is_host else f"({', '.join(map(str, group.domain))})"


def _in_words(step: Lowered, i: int, group: Group, known: list[str]) -> str:
    words = " + ".join(node.op.type for node in group.nodes)
    if "place" in known:
        stored = step.memory.stored[i]
        places = [
            f"{name} in {step.memory.in_state[name]}" if name in step.memory.in_state else name for name in stored
        ]
        words += f" -> {', '.join(places)}"
    staged = step.stages[i]
    stages = staged.stages if "prepack" in known and not staged.is_prepacked else staged.all
    if "divide" in known and stages:
        words += f"; {_units(stages[:4])}{f' and {len(stages) - 4} more stages' if len(stages) > 4 else ''}"
    if "prepack" in known and staged.prepacked and not staged.is_prepacked:
        words += f", {_units(staged.prepacked)} prepacked"
    stages = staged.stages
    if "chunks" in known and step.threads > 1 and stages:
        words += _chunks(step, i)
    return words


def _units(stages: Sequence[Stage]) -> str:
    return " then ".join(f"{stage.units} unit{'s' * (stage.units != 1)}" for stage in stages)


def _chunks(step: Lowered, i: int) -> str:
    stages = step.stages[i].stages
    others = next((len(chain) - 1 for chain in step.phases.chains if i in chain), 0)
    of_chain = f" in {step.threads} chunks with those of {others} other group{'s' * (others != 1)}" if others else ""
    rest = stages[1:] if others else stages
    count = sum(len(stretches(stage, step.threads)) for stage in rest)
    return of_chain + (f"{' and' * bool(others)} in {count} chunk{'s' * (count != 1)}" if rest else "")


def _memory(step: Lowered) -> Iterator[str]:
    memory = step.memory
    kept = sum(len(names) for names in memory.stored)
    made = sum(len(group.makes) for group in step.groups)
    bytes_of_all = sum(aligned(buffer.nbytes) for buffer in memory.buffers)
    yield f"{kept} of {made} results are in memory, {len(memory.in_state)} of them in states; the rest are in registers"
    yield f"arena {memory.arena_bytes} bytes for buffers of {bytes_of_all}"
    if memory.packed_bytes:
        yield f"prepacked {memory.packed_bytes} bytes, of states alone"


def _left(step: Lowered) -> Iterator[str]:
    hosts = Counter(group.nodes[0].op.type for group in step.groups if group.is_host)
    functions = len({task.key for task in step.tasks if task is not None})
    native = sum(task is not None for task in step.tasks)
    yield f"{native} groups by {functions} functions for {step.target.name}, {step.phases.count} phases"
    if hosts:
        yield f"by NumPy, between them: {', '.join(f'{name} {count}' for name, count in sorted(hosts.items()))}"
