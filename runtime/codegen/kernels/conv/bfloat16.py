"""Convolutions of bfloat16 images and filters with float32 sums.

A direct convolution may read pairs of channels as words, see `kernels.pair_products`, and the gradient of a filter
pairs of images. All other variants compute with float32: every load of an operand widens it. The cheapest is taken, by
the prices of a machine with the instruction for pairs and vectors of 16 lanes, so that the choice and its bits do not
depend on the instruction set.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from runtime.codegen.costs import PACKED_ELEMENT_CYCLES
from runtime.codegen.ir import FLOAT32, Index, Value
from runtime.codegen.ir.halves import widened
from runtime.codegen.ir.types import WIDENED_BFLOAT16
from runtime.codegen.ir.words import bits, shuffle
from runtime.codegen.kernels.conv.correlation import correlation_steps
from runtime.codegen.kernels.conv.filter_gradient import filter_steps
from runtime.codegen.kernels.conv.filter_gradient_1x1 import FilterGradient1x1
from runtime.codegen.kernels.conv.filter_plan import NOMINAL_TARGET, FilterGradient
from runtime.codegen.kernels.conv.plan import ConvShape, direct_cycles, plan_convolution
from runtime.codegen.kernels.conv.variants import (
    CONVOLUTIONS,
    FILTER_GRADIENTS,
    Variant,
    convolution_variant,
    filter_gradient_variant,
)
from runtime.codegen.kernels.conv.winograd.convolution import Winograd
from runtime.codegen.kernels.conv.winograd.filter_gradient import WinogradFilterGradient
from runtime.codegen.kernels.pair_products import WORD, paired
from runtime.codegen.kernels.steps import ComputedOperand, KernelContext, KernelStep, KernelSteps, Write
from runtime.codegen.machine import NOMINAL_LANES, Target


class DirectOfPairs:
    """A direct convolution whose depth is pairs of channels."""

    def __init__(self, target: Target, shape: ConvShape) -> None:
        self.target = target
        self.shape = shape._replace(deep=shape.deep // 2, of_pairs=True)
        self.cycles: float = direct_cycles(target, WORD.bits, self.shape)

    @staticmethod
    def applies(shape: ConvShape) -> bool:
        """Return True if a group has an even number of channels."""
        return shape.deep % 2 == 0

    def steps(self) -> KernelSteps:
        """Return the steps of a convolution of words."""
        plan = plan_convolution(self.target, WORD.bits, self.shape)
        return with_words(correlation_steps(self.target, WORD, self.shape, plan))

    def steps_with_prologue(self) -> KernelSteps | None:
        """Return the steps that compute the image as they copy it; None if there are several copies."""
        plan = plan_convolution(self.target, WORD.bits, self.shape, is_source_computed=True)
        if plan.by_panels or plan.columns > 1:
            return None
        return with_words(correlation_steps(self.target, WORD, self.shape, plan))


def of_pairs(target: Target, shape: ConvShape) -> Winograd | None:
    """Return Winograd's form with pairs of channels; None if it cannot compute the convolution."""
    if shape.deep % 2 or not Winograd.applies(target, FLOAT32, shape):
        return None
    return Winograd(target, WORD, shape._replace(deep=shape.deep // 2, of_pairs=True))


def bfloat16_variant(target: Target, shape: ConvShape) -> DirectOfPairs | Variant:
    """Return the cheapest variant of a convolution of bfloat16, or of the gradient of its input."""
    single = convolution_variant(NOMINAL_TARGET, FLOAT32, shape)
    least = single.cycles
    if DirectOfPairs.applies(shape):
        least = min(least, DirectOfPairs(NOMINAL_TARGET, shape).cycles)
    transformed = of_pairs(NOMINAL_TARGET, shape)
    if transformed is not None and transformed.cycles < least:
        found = of_pairs(target, shape)
        assert found is not None, "it applies to all targets"
        return found
    if least < single.cycles:
        return DirectOfPairs(target, shape)
    kind = next(kind for kind in CONVOLUTIONS if isinstance(single, kind))
    return kind(target, FLOAT32, shape)


class FilterGradientOfPairs:
    """The gradient of a filter whose depth is pairs of images, or pairs of lines under a 1x1 filter."""

    def __init__(self, target: Target, shape: FilterGradient) -> None:
        self.target, self.shape = target, replace(shape, of_pairs=True, has_nominal_order=True)
        self.alone: FilterGradient1x1 | None = None
        if FilterGradient1x1.applies(target, self.shape):
            self.alone = FilterGradient1x1(target, self.shape)
            self.cycles = self.alone.cycles
            return
        self.shape = replace(self.shape, images=shape.images // 2)
        copied = shape.images * shape.rows.source * shape.columns.source * shape.groups * shape.deep
        self.cycles: float = self.shape.places * self.shape.planned(target).cycles + copied * PACKED_ELEMENT_CYCLES / 2

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


def filters_of_pairs(target: Target, shape: FilterGradient) -> WinogradFilterGradient | None:
    """Return Winograd's form of a filter's gradient with pairs of images; None if it cannot compute the gradient."""
    shape = replace(shape, images=shape.images // 2, of_pairs=True)
    return WinogradFilterGradient(target, shape) if WinogradFilterGradient.applies(target, shape) else None


def bfloat16_filter_variant(target: Target, shape: FilterGradient) -> FilterGradientOfPairs | Variant:
    """Return the cheapest variant of a filter's gradient."""
    shape = replace(shape, has_nominal_order=True)
    nominal = replace(shape, lanes=NOMINAL_LANES)
    single = filter_gradient_variant(NOMINAL_TARGET, nominal)
    if FilterGradientOfPairs.applies(shape):
        transformed = filters_of_pairs(NOMINAL_TARGET, nominal)
        least = min(single.cycles, FilterGradientOfPairs(NOMINAL_TARGET, nominal).cycles)
        if transformed is not None and transformed.cycles < least:
            found = filters_of_pairs(target, shape)
            assert found is not None, "it applies to all targets"
            return found
    if FilterGradientOfPairs.applies(shape) and FilterGradientOfPairs(NOMINAL_TARGET, nominal).cycles < single.cycles:
        return FilterGradientOfPairs(target, shape)
    kind = next(kind for kind in FILTER_GRADIENTS if isinstance(single, kind))
    return kind(target, shape)


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
        return context._replace(inputs=inputs, computed_operand=_widened(context.computed_operand))

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


def _widened(operand: ComputedOperand | None) -> ComputedOperand | None:
    if operand is None:
        return None

    def read(row: Index, column: Index, lanes: int, count: int) -> Value:
        return widened(operand.read(row, column, lanes, count))

    return operand._replace(read=read)


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
