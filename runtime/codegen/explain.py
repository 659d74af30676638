"""What becomes of a block, in words: after any of the passes that lower it, or the code at their end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from prograd_proto.spelling import closest
from runtime.codegen.emit.code import emit
from runtime.codegen.lower import Lowered
from runtime.codegen.lowering.chunks import item_ranges
from runtime.codegen.lowering.groups import Group
from runtime.codegen.lowering.nodes import Node, Nodes
from runtime.codegen.rules import KernelStep
from runtime.errors import UsageError
from runtime.placement.alignment import aligned

PASSES: Final = {
    "read": "ops with their lowering rules; views and constants are resolved",
    "views": "transposes, slices and splits that their readers replace by strides and offsets are gone",
    "layers": "recurrent layers, joined with the ops around them",
    "fuse": "groups of ops that one loop nest computes",
    "recompute": "groups after cheap values are recomputed in their consumers instead of stored",
    "order": "groups in order: updates of states follow the last reader of the old value",
    "divide": "the kernel steps of each group, and their work items",
    "prepack": "values derived from states alone, separate: they are computed when the states have changed",
    "phases": "phases: groups that may run concurrently",
    "place": "tensors that need memory, and their offsets",
    "chunks": "chunks: the work items that a thread takes at once",
}
"""Passes of lowering in order, each with the contents of the view after it."""


def explained(step: Lowered, after: str | None = None) -> Iterator[str]:
    """Lines that say what there is after a pass; after the last one, unless it is named.

    Raises UsageError if there is no such pass.
    """
    if after is not None and after not in PASSES:
        hint = closest(after, PASSES) or f"; the passes are {', '.join(PASSES)}"
        raise UsageError(f"the native engine has no pass {after!r}{hint}")
    known = list(PASSES)[: list(PASSES).index(after or "chunks") + 1]
    if "fuse" not in known:
        yield from _nodes({"read": step.read, "views": step.with_views}.get(known[-1], step.nodes))
        return
    groups = step.groups if "order" in known else step.recomputed if "recompute" in known else step.fused
    apart = [i for i, steps in enumerate(step.steps) if "prepack" in known and steps.is_prepacked]
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
    kernels = [(kernel, steps) for kernel, steps in zip(step.kernels, step.steps, strict=True) if kernel is not None]
    source = emit(step.target, [kernel for kernel, _ in kernels], [steps for _, steps in kernels], float("inf"))
    return next(source.modules).text


def _nodes(block: Nodes) -> Iterator[str]:
    for name, view in block.views.items():
        yield f"{'access':>10}  {name} = {view}"
    for node in block.nodes:
        read, made = ", ".join(filter(None, node.inputs)), ", ".join(node.outputs)
        yield f"{_kind(node):>10}  {made} = {node.op.type}({read})"


def _kind(node: Node) -> str:
    return "NumPy" if node.rule is None else type(node.rule).__name__.lower()


def _where(group: Group) -> str:
    return "NumPy" if group.is_host else f"({', '.join(map(str, group.domain))})"


def _in_words(step: Lowered, i: int, group: Group, known: list[str]) -> str:
    words = " + ".join(node.op.type for node in group.nodes)
    if "place" in known:
        stored = step.memory.stored[i]
        indices = [
            f"{name} in {step.memory.in_state[name]}" if name in step.memory.in_state else name for name in stored
        ]
        words += f" -> {', '.join(indices)}"
    steps = step.steps[i]
    kernel_steps = steps.steps if "prepack" in known and not steps.is_prepacked else steps.all
    if "divide" in known and kernel_steps:
        more = f" and {len(kernel_steps) - 4} more steps" if len(kernel_steps) > 4 else ""
        words += f"; {_work_items(kernel_steps[:4])}{more}"
    if "prepack" in known and steps.prepacked and not steps.is_prepacked:
        words += f", {_work_items(steps.prepacked)} prepacked"
    kernel_steps = steps.steps
    if "chunks" in known and step.threads > 1 and kernel_steps:
        words += _chunks(step, i)
    return words


def _work_items(steps: Sequence[KernelStep]) -> str:
    return " then ".join(f"{kernel_step.work_items} unit{'s' * (kernel_step.work_items != 1)}" for kernel_step in steps)


def _chunks(step: Lowered, i: int) -> str:
    steps = step.steps[i].steps
    others = next((len(chain) - 1 for chain in step.phases.tiled_chains if i in chain), 0)
    of_chain = f" in {step.threads} chunks with those of {others} other group{'s' * (others != 1)}" if others else ""
    rest = steps[1:] if others else steps
    count = sum(len(item_ranges(kernel_step, step.threads)) for kernel_step in rest)
    return of_chain + (f"{' and' * bool(others)} in {count} chunk{'s' * (count != 1)}" if rest else "")


def _memory(step: Lowered) -> Iterator[str]:
    memory = step.memory
    kept = sum(len(names) for names in memory.stored)
    made = sum(len(group.outputs) for group in step.groups)
    bytes_of_all = sum(aligned(buffer.nbytes) for buffer in memory.buffers)
    yield f"{kept} of {made} results are in memory, {len(memory.in_state)} of them in states; the rest are in registers"
    yield f"arena {memory.arena_bytes} bytes for buffers of {bytes_of_all}"
    if memory.packed_bytes:
        yield f"prepacked {memory.packed_bytes} bytes, of states alone"


def _left(step: Lowered) -> Iterator[str]:
    hosts = Counter(group.nodes[0].op.type for group in step.groups if group.is_host)
    functions = len({kernel.key for kernel in step.kernels if kernel is not None})
    native = sum(kernel is not None for kernel in step.kernels)
    yield f"{native} groups by {functions} functions for {step.target.name}, {step.phases.count} phases"
    if hosts:
        yield f"by NumPy, between them: {', '.join(f'{name} {count}' for name, count in sorted(hosts.items()))}"
