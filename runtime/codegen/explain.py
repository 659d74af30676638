"""Lowering and its result in words: a block after any pass, and the code at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from prograd_proto.spelling import closest_or_all
from runtime.codegen.emit.code import emit
from runtime.codegen.groups.group import Group
from runtime.codegen.groups.nodes import Node
from runtime.codegen.lowering.chunks import item_ranges
from runtime.codegen.lowering.control import copies_of_block
from runtime.codegen.lowering.lowered_block import LoweredBlock
from runtime.codegen.lowering.passes.pipeline import PASSES
from runtime.codegen.rules import CustomKernel, KernelStep, Moment, Pointwise, Product, Reduction
from runtime.errors import UsageError
from runtime.placement.alignment import aligned

MAX_NAMED_STEPS: Final = 4
"""Upper bound on the kernel steps of a group whose work items are printed one by one."""

KINDS: Final[dict[type, str]] = {
    Pointwise: "pointwise",
    Product: "product",
    Reduction: "reduction",
    Moment: "reduction",
    CustomKernel: "custom kernel",
}
"""The names of the kinds of lowering rules."""


def explained(block: LoweredBlock, after: str | None = None) -> Iterator[str]:
    """Return lines about a lowered block; with `after`, about its state after the pass of this name.

    Raises UsageError if no pass of this name applies to the block.
    """
    yield from _lines(block if after is None else _after(block, after))


def code_of(block: LoweredBlock) -> str:
    """Return the LLVM IR of all functions of a lowered block."""
    kernels = [(kernel, steps) for kernel, steps in zip(block.kernels, block.steps, strict=True) if kernel is not None]
    source = emit(block.target, [kernel for kernel, _ in kernels], [steps for _, steps in kernels], float("inf"))
    return next(source.modules).text


def _after(block: LoweredBlock, name: str) -> LoweredBlock:
    """Return the block after one pass, by lowering it again up to there."""
    names = [each.name for each in PASSES.of_step(block.is_instrumented)]
    if name not in names:
        raise UsageError(f"the native engine has no pass {name!r}{closest_or_all(name, names, 'the passes are')}")
    snapshots = PASSES.snapshots(block.unlowered())
    return next(snapshot for passed, snapshot in snapshots if passed == name)


def _lines(block: LoweredBlock) -> Iterator[str]:
    yield from _groups(block) if block.groups else _nodes(block)
    yield from _memory(block) if block.memory.stored else ()
    yield from _counts(block) if block.groups else ()


def _nodes(block: LoweredBlock) -> Iterator[str]:
    for name, view in block.nodes.views.items():
        yield f"{'view':>13}  {name} = {view}"
    for node in block.nodes.nodes:
        inputs, outputs = ", ".join(filter(None, node.inputs)), ", ".join(node.outputs)
        kind = "blocks" if node.rule is None and node.op.id in block.bodies else _kind(node)
        yield f"{kind:>13}  {outputs} = {node.name}({inputs})"
        yield from _bodies(block, node)


def _kind(node: Node) -> str:
    return "NumPy" if node.rule is None else KINDS[type(node.rule)]


def _groups(block: LoweredBlock) -> Iterator[str]:
    """Return a line for each group, first of those that are prepacked, and lines that begin a phase."""
    prepacked = [i for i, steps in enumerate(block.steps) if steps.is_prepacked]
    if prepacked:
        yield "prepacked"
    phase = -1
    for i in (*prepacked, *(i for i in range(len(block.groups)) if i not in prepacked)):
        if block.phases.first and i not in prepacked and block.phases.first[i] != phase:
            phase = block.phases.first[i]
            yield f"phase {phase + 1}"
        group = block.groups[i]
        work = f"{_work(block, i)}{_chunks(block, i)}{_shared(block, i)}"
        yield f"  {_domain(block, group):>16}  {group.label}{_stored(block, i)}{work}"
        for node in group.nodes:
            yield from _bodies(block, node)


def _domain(block: LoweredBlock, group: Group) -> str:
    if block.is_control(group):
        return "blocks"
    return "NumPy" if group.is_host else f"({', '.join(map(str, group.domain))})"


def _bodies(block: LoweredBlock, node: Node) -> Iterator[str]:
    """Return the lines of the blocks inside an op, indented below it."""
    for number, body in enumerate(block.bodies.get(node.op.id, ()), 1):
        yield f"{'':18}block {number} of {node.op.type}"
        yield from (f"{'':18}{line}" for line in _lines(body))


def _stored(block: LoweredBlock, i: int) -> str:
    """Return the tensors that a group writes, once it is known where."""
    if not block.memory.stored:
        return ""
    in_state = block.memory.in_state
    stored = [f"{name} in {in_state[name]}" if name in in_state else name for name in block.memory.stored[i]]
    return f" -> {', '.join(stored)}"


def _work(block: LoweredBlock, i: int) -> str:
    """Return the work items of a group's kernel steps, in a step and when it is prepacked."""
    steps = block.steps[i] if block.steps else None
    if steps is None or not steps.all:
        return ""
    shown = steps.all if steps.is_prepacked else steps.steps
    more = f" and {len(shown) - MAX_NAMED_STEPS} more steps" if len(shown) > MAX_NAMED_STEPS else ""
    prepacked = f", {_work_items(steps.prepacked)} prepacked" if steps.prepacked and not steps.is_prepacked else ""
    return f"; {_work_items(shown[:MAX_NAMED_STEPS])}{more}{prepacked}"


def _work_items(steps: Sequence[KernelStep]) -> str:
    return " then ".join(_counted(kernel_step.work_items, "work item") for kernel_step in steps)


def _chunks(block: LoweredBlock, i: int) -> str:
    """Return the number of chunks of a group, and of the other groups of its tiled chain."""
    steps = block.steps[i].steps if block.chunks and block.threads > 1 else ()
    if not steps:
        return ""
    chains = zip(block.phases.tiled_chains, block.phases.runs, strict=True)
    others, runs = next(((len(chain) - 1, runs) for chain, runs in chains if i in chain), (0, 1))
    of_chain = f" in {runs} chunks with those of {_counted(others, 'other group')}" if others else ""
    rest = [step for j, step in enumerate(steps) if j != block.steps[i].tiled] if others else steps
    count = sum(len(item_ranges(kernel_step, block.threads)) for kernel_step in rest)
    return of_chain + (f"{' and' * bool(others)} in {_counted(count, 'chunk')}" if rest else "")


def _shared(block: LoweredBlock, i: int) -> str:
    """Return that threads share the iterations of a group that is a loop."""
    is_placed = block.is_control(block.groups[i]) and bool(block.memory.stored)
    copies = copies_of_block(block, block.groups[i].nodes[0].op) if is_placed else 1
    return f"; {copies} threads share its iterations, each with a copy of the block's memory" if copies > 1 else ""


def _memory(block: LoweredBlock) -> Iterator[str]:
    memory = block.memory
    stored, computed = sum(map(len, memory.stored)), sum(len(group.outputs) for group in block.groups)
    buffer_bytes = sum(aligned(buffer.nbytes) for buffer in memory.buffers)
    in_states = len(memory.in_state)
    yield f"{stored} of {computed} results are in memory, {in_states} of them in states; the rest are in registers"
    yield f"arena {memory.arena_bytes} bytes for buffers of {buffer_bytes}"
    if memory.packed_bytes:
        yield f"prepacked {memory.packed_bytes} bytes, of states alone"


def _counts(block: LoweredBlock) -> Iterator[str]:
    """Return the numbers of groups, functions and phases as far as they are known, and the host ops."""
    controls = Counter(group.nodes[0].op.type for group in block.groups if block.is_control(group))
    hosts = Counter(group.nodes[0].op.type for group in block.groups if group.is_host) - controls
    functions = len({kernel.key for kernel in block.kernels if kernel is not None})
    by_functions = f" by {functions} functions for {block.target.name}" if block.kernels else ""
    phases = f", {block.phases.count} phases" if block.phases.first else ""
    yield f"{len(block.groups) - hosts.total() - controls.total()} groups{by_functions}{phases}"
    if controls:
        yield f"compiled with their blocks: {_named(controls)}"
    if hosts:
        yield f"by NumPy, between them: {_named(hosts)}; compiler build refuses such ops"
    inside = Counter(name for bodies in block.bodies.values() for body in bodies for name in _inner_hosts(body))
    if inside and block.owner is None:
        yield f"by NumPy in each iteration, without a lowering rule: {_named(inside)}; compiler build refuses such ops"


def _inner_hosts(block: LoweredBlock) -> Iterator[str]:
    """Yield the types of the host ops in a block and in the blocks inside its ops."""
    yield from (group.nodes[0].op.type for group in block.groups if group.is_host and not block.is_control(group))
    for bodies in block.bodies.values():
        for body in bodies:
            yield from _inner_hosts(body)


def _named(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"
