"""The variants of a convolution and of its filter's gradient; the cheapest that applies is taken.

A variant says to which shapes it applies and how many cycles it takes for them, by the parameters of
`runtime.codegen.costs`. Variants add in different orders, so the choice sets bits: it depends on the shape and the
nominal target only, never on the sizes of this CPU's caches. Of variants with equal cycles, the first is taken.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Final, Protocol

from runtime.codegen.costs import DEPTHWISE_TAP_CYCLES, PARTIAL_SUM_CYCLES
from runtime.codegen.ir import Type
from runtime.codegen.kernels.conv.channel_multiplier import with_repeated_channels, with_summed_channels
from runtime.codegen.kernels.conv.correlation import correlation_steps
from runtime.codegen.kernels.conv.depthwise import Depthwise
from runtime.codegen.kernels.conv.depthwise_filter_gradient import DepthwiseFilterGradient
from runtime.codegen.kernels.conv.filter_gradient import filter_steps
from runtime.codegen.kernels.conv.filter_gradient_1x1 import FilterGradient1x1
from runtime.codegen.kernels.conv.filter_plan import FilterGradient
from runtime.codegen.kernels.conv.folded import Folded
from runtime.codegen.kernels.conv.line_filter_gradient import LineFilterGradient
from runtime.codegen.kernels.conv.plan import ConvShape, direct_cycles, plan_convolution
from runtime.codegen.kernels.conv.streamed import Streamed
from runtime.codegen.kernels.conv.winograd.convolution import Winograd
from runtime.codegen.kernels.conv.winograd.filter_gradient import WinogradFilterGradient
from runtime.codegen.kernels.steps import KernelSteps
from runtime.codegen.machine import Target


class Variant(Protocol):
    """A way to compute a convolution, or the gradient of its filter, of one shape."""

    @property
    def cycles(self) -> float:
        """Cycles that it takes."""
        ...

    def steps(self) -> KernelSteps:
        """Return its kernel steps."""
        ...


class Direct:
    """Tiles of output pixels, to whose sums taps are added one after the other."""

    def __init__(self, target: Target, element: Type, shape: ConvShape) -> None:
        self.target, self.element, self.shape = target, element, shape
        self.plan = plan_convolution(target, element.bits, shape)
        self.cycles: float = direct_cycles(target, element.bits, shape)

    @staticmethod
    def applies(target: Target, element: Type, shape: ConvShape) -> bool:
        """Return True unless a group has one channel and its results fill no vector."""
        return shape.wide >= target.lanes(element.bits) or not OneChannelGroups.applies(target, element, shape)

    def steps(self) -> KernelSteps:
        """Return steps that copy common operands, and one that computes."""
        return correlation_steps(self.target, self.element, self.shape, self.plan)


class OneChannelGroups:
    """Groups with one channel of the image each, from which one or several channels of the result are computed."""

    def __init__(self, target: Target, element: Type, shape: ConvShape) -> None:
        self.target, self.element, self.shape = target, element, shape
        self.times, self.lanes = shape.deep * shape.wide, target.lanes(element.bits)
        alone = shape._replace(groups=shape.groups * self.times, deep=1, wide=1)
        self.depthwise = Depthwise(target, element, alone)
        self.results = shape.images * prod(
            sum(phase.pixels for phase in axis.phases) for axis in (shape.rows, shape.columns)
        )
        vectors = alone.steps / alone.groups * -(-alone.groups // self.lanes)
        repeated = (self.results if shape.is_filter_transposed else shape.source // shape.groups) * alone.groups
        self.cycles: float = vectors * DEPTHWISE_TAP_CYCLES + repeated * PARTIAL_SUM_CYCLES * (self.times > 1)

    @staticmethod
    def applies(target: Target, element: Type, shape: ConvShape) -> bool:
        """Return True for groups of one channel of the convolution's image."""
        del target, element
        return shape.groups > 1 and (shape.wide if shape.is_filter_transposed else shape.deep) == 1

    def steps(self) -> KernelSteps:
        """Return the steps of a depthwise convolution, and one that repeats or adds channels if there are several."""
        steps, shape = self.depthwise.steps(), self.shape
        if self.times == 1:
            return steps
        if shape.is_filter_transposed:
            return with_summed_channels(steps, self.element, self.lanes, self.results, shape.groups, self.times)
        return with_repeated_channels(steps, self.element, self.lanes, (0, shape.source), self.times)


class DirectFilterGradient:
    """Tiles of channels of the input and panels of channels of the result, in parts of all output pixels."""

    def __init__(self, target: Target, shape: FilterGradient) -> None:
        self.target, self.shape = target, shape
        self.cycles: float = shape.places * shape.planned(target).cycles(target)

    @staticmethod
    def applies(target: Target, shape: FilterGradient) -> bool:
        """Return True unless a group has one channel: its loops would be shorter than the price assumes."""
        return not OneChannelFilterGradient.applies(target, shape)

    def steps(self) -> KernelSteps:
        """Return a step of parts, and one that adds them."""
        return filter_steps(self.target, self.shape)


class OneChannelFilterGradient:
    """Groups with one channel of the image each, from which one or several channels of the result are computed."""

    def __init__(self, target: Target, shape: FilterGradient) -> None:
        self.shape = shape
        alone = replace(shape, groups=shape.groups * shape.wide, wide=1)
        self.depthwise = DepthwiseFilterGradient(
            target, shape.element, alone.images, alone.rows, alone.columns, alone.groups
        )
        self.source = shape.images * shape.rows.source * shape.columns.source * shape.groups
        self.cycles: float = self.depthwise.cycles + self.source * shape.wide * PARTIAL_SUM_CYCLES * (shape.wide > 1)

    @staticmethod
    def applies(target: Target, shape: FilterGradient) -> bool:
        """Return True for groups of one channel of the input."""
        del target
        return shape.groups > 1 and shape.deep == 1

    def steps(self) -> KernelSteps:
        """Return the steps of a depthwise gradient, after one that repeats channels if there are several."""
        steps, shape = self.depthwise.steps(), self.shape
        return (
            steps
            if shape.wide == 1
            else with_repeated_channels(steps, shape.element, shape.lanes, (0, self.source), shape.wide)
        )


CONVOLUTIONS: Final = (OneChannelGroups, Streamed, Direct, Folded, Winograd)
"""Variants of a convolution and of the gradient of its input."""

FILTER_GRADIENTS: Final = (
    OneChannelFilterGradient,
    FilterGradient1x1,
    LineFilterGradient,
    DirectFilterGradient,
    WinogradFilterGradient,
)
"""Variants of the gradient of a filter."""


def convolution_variant(target: Target, element: Type, shape: ConvShape) -> Variant:
    """Return the variant of a convolution, or of the gradient of its input, that is cheapest on the nominal target."""
    nominal = target.nominal
    kinds = [kind for kind in CONVOLUTIONS if kind.applies(nominal, element, shape)]
    return min(kinds, key=lambda kind: kind(nominal, element, shape).cycles)(target, element, shape)


def filter_gradient_variant(target: Target, shape: FilterGradient) -> Variant:
    """Return the variant of the gradient of a filter that is cheapest on the nominal target."""
    nominal, of_nominal = target.nominal, shape.on(target.nominal)
    kinds = [kind for kind in FILTER_GRADIENTS if kind.applies(nominal, of_nominal)]
    return min(kinds, key=lambda kind: kind(nominal, of_nominal).cycles)(target, shape)
