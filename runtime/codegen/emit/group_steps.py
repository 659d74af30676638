"""The kernel steps of a group, by the kind of its lowering rule."""

from __future__ import annotations

from collections.abc import Callable

from runtime.codegen.emit.bottlenecks import bottleneck_steps
from runtime.codegen.emit.conv_epilogue import with_epilogue
from runtime.codegen.emit.elements import element_steps
from runtime.codegen.emit.matrix_vector import column_steps
from runtime.codegen.emit.moments import has_moments, moment_steps
from runtime.codegen.emit.producer import with_prologue
from runtime.codegen.emit.products import product_steps
from runtime.codegen.emit.reductions import reduction_steps
from runtime.codegen.emit.row_tiles import row_tiles_of_images
from runtime.codegen.emit.rows import row_steps
from runtime.codegen.groups.group_kernel import GroupKernel
from runtime.codegen.groups.nodes import Additions, Node
from runtime.codegen.machine import Target
from runtime.codegen.rules import CustomKernel, KernelSteps, Pointwise, Prepack, Product
from runtime.codegen.rules.shape import MOVES, moving_steps


def steps_of(target: Target, kernel: GroupKernel) -> KernelSteps:
    """Return the kernel steps of a group with a lowering rule.

    Those that run only when states have changed are separate.
    """
    steps = _steps_of(target, kernel)
    if kernel.is_prepacked:
        scratch = frozenset(range(len(steps.shared_scratch) + len(steps.thread_scratch)))
        return steps._replace(steps=(), prepacked=steps.steps, packed=scratch)
    packs = [kernel_step for kernel_step in steps.steps if _is_invariant(kernel, kernel_step.prepack)]
    others = tuple(kernel_step for kernel_step in steps.steps if not _is_invariant(kernel, kernel_step.prepack))
    packed = frozenset(number for kernel_step in packs if kernel_step.prepack for number in kernel_step.prepack.writes)
    return steps._replace(steps=others, prepacked=tuple(packs), packed=packed)


def _is_invariant(kernel: GroupKernel, prepack: Prepack | None) -> bool:
    """Return True if all operands that a kernel step reads are the same in every step."""
    loops = [node for node in kernel.group.prologue if isinstance(node.rule, CustomKernel)]
    first = kernel.group.nodes[0]
    nodes = [first] if isinstance(first.rule, Product) else [*loops, first]
    inputs = [name for node in nodes for name in node.inputs]
    return prepack is not None and all(not inputs[n] or inputs[n] in kernel.invariant for n in prepack.reads)


def _steps_of(target: Target, kernel: GroupKernel) -> KernelSteps:
    node = kernel.group.nodes[0]
    if node.op.type in MOVES:
        sources, results = map(kernel.layout, node.inputs), [kernel.types[name] for name in node.outputs]
        return moving_steps(target, node.op.type, [*sources], results, node.attributes)
    if isinstance(node.rule, CustomKernel):
        if any(isinstance(before.rule, CustomKernel) for before in kernel.group.prologue):
            return bottleneck_steps(target, kernel)
        steps = row_tiles_of_images(kernel, _custom(target, kernel, node, node.rule))
        return with_epilogue(kernel, steps) if len(kernel.group.nodes) > 1 else steps
    steps = _kind(kernel)(target, kernel)
    return steps._replace(
        has_runtime_check=any(isinstance(n.rule, CustomKernel) for n in kernel.group.prologue)
        or any(isinstance(n.rule, Pointwise) and n.rule.is_invalid for n in kernel.group.nodes)
    )


def _custom(target: Target, kernel: GroupKernel, node: Node, rule: CustomKernel) -> KernelSteps:
    op = node.op_types(kernel.types)
    if not kernel.group.prologue:
        if rule.strided is not None:
            layouts = [kernel.layout(name) if name else None for name in node.inputs]
            return rule.strided.plan(target, op, layouts)
        return rule.plan(target, op)
    assert rule.plan_with_prologue is not None, f"{node.op.type} makes no operand"
    steps = rule.plan_with_prologue(target, op)
    assert steps is not None, f"{node.op.type} makes no operand of these types"
    return with_prologue(kernel, steps)


def _kind(kernel: GroupKernel) -> Callable[[Target, GroupKernel], KernelSteps]:
    group = kernel.group
    if group.product:
        return column_steps if kernel.additions is Additions.LANES else product_steps
    if has_moments(kernel):
        return moment_steps
    if group.is_rows:
        return row_steps
    return reduction_steps if group.is_reduced else element_steps
