"""Convolutions of bfloat16 images and filters with float32 sums.

A convolution may read pairs of channels as words, see `kernels.pair_products`, and the gradient of a filter pairs of
images, both directly and in Winograd's form. All other variants compute with float32: every load of an operand widens
it. The cheapest is taken, by the prices of a machine with the instruction for pairs and vectors of 16 lanes, so that
the choice and its bits do not depend on the instruction set.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from runtime.codegen.costs import PACKED_ELEMENT_CYCLES
from runtime.codegen.ir import FLOAT32, Index, Type, Value
from runtime.codegen.ir.types import WIDENED_BFLOAT16
from runtime.codegen.ir.words import bits, shuffle
from runtime.codegen.kernels.conv.correlation import correlation_steps
from runtime.codegen.kernels.conv.filter_gradient import filter_steps
from runtime.codegen.kernels.conv.filter_gradient_1x1 import FilterGradient1x1
from runtime.codegen.kernels.conv.filter_plan import FilterGradient
from runtime.codegen.kernels.conv.plan import ConvPlan, ConvShape, direct_cycles, plan_convolution
from runtime.codegen.kernels.conv.variants import (
    CONVOLUTIONS,
    FILTER_GRADIENTS,
    Variant,
)
from runtime.codegen.kernels.conv.winograd.convolution import Winograd
from runtime.codegen.kernels.conv.winograd.filter_gradient import WinogradFilterGradient
from runtime.codegen.kernels.pair_products import WORD, paired
from runtime.codegen.kernels.steps import ComputedOperand, KernelContext, KernelStep, KernelSteps, Write
from runtime.codegen.machine import NOMINAL_TARGET, Target


class DirectOfPairs:
    """A direct convolution whose depth is pairs of channels."""

    def __init__(self, target: Target, shape: ConvShape) -> None:
        self.target = target
        self.shape = shape._replace(deep=shape.deep // 2, of_pairs=True)
        self.cycles: float = direct_cycles(target, WORD.bits, self.shape)

    def steps(self) -> KernelSteps:
        """Return the steps of a convolution of words."""
        plan = plan_convolution(self.target, WORD.bits, self.shape)
        return self._of_plan(plan)

    def steps_with_prologue(self) -> KernelSteps | None:
        """Return the steps that compute the image as they copy it; None if there are several copies."""
        plan = plan_convolution(self.target, WORD.bits, self.shape, is_source_computed=True)
        if plan.by_panels or plan.columns > 1:
            return None
        return self._of_plan(plan)

    def _of_plan(self, plan: ConvPlan) -> KernelSteps:
        steps = correlation_steps(self.target, WORD, self.shape, plan)
        return with_widened_source(steps) if plan.is_widened else with_words(steps)


def winograd_of_pairs(target: Target, shape: ConvShape) -> Winograd:
    """Return Winograd's form with pairs of channels."""
    return Winograd(target, WORD, shape._replace(deep=shape.deep // 2, of_pairs=True))


Way = Callable[[Target], DirectOfPairs | Variant]
"""Makes a variant of a convolution for a target."""


def bfloat16_variant(target: Target, shape: ConvShape) -> DirectOfPairs | Variant:
    """Return the cheapest variant of a convolution of bfloat16, or of the gradient of its input."""
    return min(ways(shape), key=lambda way: way(NOMINAL_TARGET).cycles)(target)


def ways(shape: ConvShape) -> list[Way]:
    """Return the variants of a convolution of bfloat16, or of the gradient of its input."""
    kinds = [kind for kind in CONVOLUTIONS if kind.applies(NOMINAL_TARGET, FLOAT32, shape)]
    found: list[Way] = [partial(_single, kind, shape) for kind in kinds]
    if shape.deep % 2 == 0:
        found.append(partial(DirectOfPairs, shape=shape))
        found += [partial(winograd_of_pairs, shape=shape)] * (Winograd in kinds)
    return found


def _single(kind: Callable[[Target, Type, ConvShape], Variant], shape: ConvShape, target: Target) -> Variant:
    return kind(target, FLOAT32, shape)


class FilterGradientOfPairs:
    """The gradient of a filter whose depth is pairs of images, or pairs of lines under a 1x1 filter."""

    def __init__(self, target: Target, shape: FilterGradient) -> None:
        self.target, self.shape = target, replace(shape, of_pairs=True, of_bfloat16=True)
        self.alone: FilterGradient1x1 | None = None
        if FilterGradient1x1.applies(target, self.shape):
            self.alone = FilterGradient1x1(target, self.shape)
            self.cycles = self.alone.cycles
            return
        self.shape = replace(self.shape, images=shape.images // 2)
        copied = shape.images * shape.rows.source * shape.columns.source * shape.groups * shape.deep
        products = self.shape.places * self.shape.planned(target).cycles(target)
        self.cycles: float = products + copied * PACKED_ELEMENT_CYCLES / 2

    @staticmethod
    def applies(shape: FilterGradient) -> bool:
        """Return True for an even number of images, unless a group has one channel."""
        return shape.images % 2 == 0 and not (shape.groups > 1 and shape.deep == 1)

    @property
    def takes_prologue(self) -> bool:
        """True if the image may be computed where it is copied."""
        return self.alone is not None

    def steps(self) -> KernelSteps:
        """Return the kernel steps of a gradient of words."""
        return self.alone.steps() if self.alone is not None else filter_steps(self.target, self.shape)


def winograd_filters_of_pairs(target: Target, shape: FilterGradient) -> WinogradFilterGradient:
    """Return Winograd's form of a filter's gradient with pairs of images."""
    return WinogradFilterGradient(target, replace(shape, images=shape.images // 2, of_pairs=True))


FilterWay = Callable[[Target, FilterGradient], FilterGradientOfPairs | Variant]
"""Makes a variant of the gradient of a filter."""


def bfloat16_filter_variant(target: Target, shape: FilterGradient) -> FilterGradientOfPairs | Variant:
    """Return the cheapest variant of a filter's gradient."""
    shape = replace(shape, of_bfloat16=True)
    nominal = shape.on(NOMINAL_TARGET)
    return min(filter_ways(nominal), key=lambda way: way(NOMINAL_TARGET, nominal).cycles)(target, shape)


def filter_ways(nominal: FilterGradient) -> list[FilterWay]:
    """Return the variants of a filter's gradient of bfloat16, from its shape on the nominal target."""
    kinds = [kind for kind in FILTER_GRADIENTS if kind.applies(NOMINAL_TARGET, nominal)]
    found: list[FilterWay] = [*kinds]
    if FilterGradientOfPairs.applies(nominal):
        found.append(FilterGradientOfPairs)
        found += [winograd_filters_of_pairs] * (WinogradFilterGradient in kinds)
    return found


def with_words(steps: KernelSteps) -> KernelSteps:
    """Return the kernel steps of words, whose first operand lies in memory, or is computed, as bfloat16."""

    def words(context: KernelContext) -> KernelContext:
        source, *others = context.inputs
        first = context.f.cast(source, WORD) if source is not None else None
        return context._replace(inputs=[first, *others], computed_operand=_of_words(context.computed_operand))

    return _with_contexts(steps, words)


def with_widened_operands(steps: KernelSteps) -> KernelSteps:
    """Return the kernel steps of float32, whose operands lie in memory, or are computed, as bfloat16."""

    def wide(context: KernelContext) -> KernelContext:
        inputs = [context.f.cast(x, WIDENED_BFLOAT16) if x is not None else None for x in context.inputs]
        operand = context.computed_operand
        return context._replace(inputs=inputs, computed_operand=operand.widened() if operand is not None else None)

    return _with_contexts(steps, wide)


def with_widened_source(steps: KernelSteps) -> KernelSteps:
    """Return the kernel steps of float32 pairs, whose first operand lies in memory, or is computed, as bfloat16."""

    def wide(context: KernelContext) -> KernelContext:
        (source, *others), operand = context.inputs, context.computed_operand
        first = context.f.cast(source, WIDENED_BFLOAT16) if source is not None else None
        return context._replace(
            inputs=[first, *others], computed_operand=operand.widened() if operand is not None else None
        )

    return _with_contexts(steps, wide)


ChangeContext = Callable[[KernelContext], KernelContext]


def _with_contexts(steps: KernelSteps, change: ChangeContext) -> KernelSteps:
    """Return the kernel steps, which get changed contexts."""
    changed: dict[Write, Write] = {}  # steps with the same function share its code

    def with_change(step: KernelStep) -> KernelStep:
        def write(context: KernelContext, start: Value, stop: Value) -> None:
            step.write(change(context), start, stop)

        return step._replace(write=changed.setdefault(step.write, write))

    return steps._replace(steps=tuple(map(with_change, steps.steps)))


def _of_words(operand: ComputedOperand | None) -> ComputedOperand | None:
    if operand is None:
        return None

    def read(row: Index, column: Index, lanes: int, count: int) -> Value:
        first = operand.read(row, column * 2, lanes, min(2 * count, lanes) if lanes else 1)
        if not lanes:
            return paired(first, operand.read(row, column * 2 + 1, 0, 1))
        if 2 * count <= lanes:
            second = first.function.constant(first.type, 0)
        else:
            second = operand.read(row, column * 2 + lanes, lanes, 2 * count - lanes)
        return bits(shuffle(first, second, range(2 * lanes)), WORD)

    return operand._replace(read=read)
