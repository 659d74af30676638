"""Convolutions and their gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Final

from prograd_proto import TensorType
from runtime.codegen.ir import DTYPES, FLOAT32, Type
from runtime.codegen.kernels.conv.axes import backward_axis, forward_axis
from runtime.codegen.kernels.conv.bfloat16 import (
    DirectOfPairs,
    FilterGradientOfPairs,
    bfloat16_filter_variant,
    bfloat16_variant,
    with_widened_operands,
)
from runtime.codegen.kernels.conv.correlation import correlation_steps
from runtime.codegen.kernels.conv.depthwise import Depthwise
from runtime.codegen.kernels.conv.filter_gradient_1x1 import FilterGradient1x1
from runtime.codegen.kernels.conv.filter_plan import BLOCK_PIXELS, FilterAxis, FilterGradient
from runtime.codegen.kernels.conv.plan import WANTED_ITEMS, ConvShape, plan_convolution
from runtime.codegen.kernels.conv.variants import (
    Direct,
    OneChannelFilterGradient,
    OneChannelGroups,
    Variant,
    convolution_variant,
    filter_gradient_variant,
)
from runtime.codegen.kernels.op_types import OpTypes
from runtime.codegen.kernels.steps import KernelSteps
from runtime.codegen.machine import Target
from runtime.codegen.rules.rule import FLOAT_DTYPES, RULES, CustomKernel

FEW_IMAGES: Final = 4
"""Number of images from which threads share images, and not lines of their pixels."""

MIN_LINE_PIXELS: Final = 48
"""Least number of pixels of a line of a few images under a 1x1 filter."""

LINE_CHANNELS: Final = 64
"""Channels of the result, of which threads share the panels, that count as one item of work."""


def convolution(target: Target, op: OpTypes) -> KernelSteps:
    """Return the steps of a convolution."""
    x, w = op.present
    if x.dtype == "bfloat16":
        return _of_bfloat16(bfloat16_variant(target, shape_of(x, w, op.outputs[0], op.attributes)))
    return convolution_variant(target, DTYPES[x.dtype], shape_of(x, w, op.outputs[0], op.attributes)).steps()


def convolution_with_prologue(target: Target, op: OpTypes) -> KernelSteps | None:
    """Return the steps of a convolution that computes its image as it copies it; None if its variant cannot do so."""
    x, w = op.present
    shape = shape_of(x, w, op.outputs[0], op.attributes)
    if x.dtype == "bfloat16":
        found = bfloat16_variant(target, shape)
        if isinstance(found, DirectOfPairs):
            return found.steps_with_prologue()
        steps = _with_prologue(target, FLOAT32, shape, found)
        return steps and with_widened_operands(steps)
    element = DTYPES[x.dtype]
    return _with_prologue(target, element, shape, convolution_variant(target, element, shape))


def _with_prologue(target: Target, element: Type, shape: ConvShape, found: Variant) -> KernelSteps | None:
    if isinstance(found, OneChannelGroups):
        return Depthwise(target, element, shape, is_source_computed=True).steps() if found.times == 1 else None
    plan = plan_convolution(target, element.bits, shape, is_source_computed=True)
    if plan.by_panels or plan.columns > 1 or not isinstance(found, Direct):
        return None
    return correlation_steps(target, element, shape, plan)


def _of_bfloat16(found: DirectOfPairs | Variant) -> KernelSteps:
    """Return the steps of a variant for operands of bfloat16."""
    return found.steps() if isinstance(found, DirectOfPairs) else with_widened_operands(found.steps())


def input_gradient(target: Target, op: OpTypes) -> KernelSteps:
    """Return the steps of the gradient of the input: a convolution of dy with the flipped filter."""
    dy, w = op.present
    shape = shape_of(dy, w, op.outputs[0], op.attributes, is_gradient=True)
    if dy.dtype == "bfloat16":
        return _of_bfloat16(bfloat16_variant(target, shape))
    return convolution_variant(target, DTYPES[dy.dtype], shape).steps()


def filter_gradient(target: Target, op: OpTypes) -> KernelSteps:
    """Return the steps of the gradient of the filter."""
    x, dy = op.present
    shape = filter_gradient_of(target, x, dy, op.outputs[0], op.attributes)
    if x.dtype != "bfloat16":
        return filter_gradient_variant(target, shape).steps()
    found = bfloat16_filter_variant(target, shape)
    return found.steps() if isinstance(found, FilterGradientOfPairs) else with_widened_operands(found.steps())


def filter_gradient_with_prologue(target: Target, op: OpTypes) -> KernelSteps | None:
    """Return the steps of a filter's gradient that computes the image while it copies it; None if it cannot."""
    x, dy = op.present
    shape = filter_gradient_of(target, x, dy, op.outputs[0], op.attributes)
    is_narrow = x.dtype == "bfloat16"
    found = (bfloat16_filter_variant if is_narrow else filter_gradient_variant)(target, shape)
    takes_prologue = isinstance(found, FilterGradient1x1) or (
        isinstance(found, OneChannelFilterGradient) and shape.wide == 1
    )
    if isinstance(found, FilterGradientOfPairs):
        return found.steps() if found.takes_prologue else None
    if not takes_prologue:
        return None
    return with_widened_operands(found.steps()) if is_narrow else found.steps()


def filter_gradient_of(
    target: Target, x: TensorType, dy: TensorType, w: TensorType, attributes: Mapping[str, Any]
) -> FilterGradient:
    """Return the shape of a filter's gradient; small images under a 1x1 filter are treated as one line of pixels."""
    stride, padding, dilation, groups = (attributes[name] for name in ("stride", "padding", "dilation", "groups"))
    window, element = w.static_shape[:2], DTYPES[w.dtype]
    n, *extents, _ = x.static_shape
    indices = list(dy.static_shape[1:3])
    if window == stride == (1, 1) and not any(padding) and extents[0] * extents[1] <= BLOCK_PIXELS:
        extents = indices = [1, extents[0] * extents[1]]
    rows, columns = (
        FilterAxis(extents[i], indices[i], window[i], stride[i], padding[i], dilation[i]) for i in range(2)
    )
    deep, wide = x.static_shape[3] // groups, dy.static_shape[3] // groups
    return FilterGradient(element, n, rows, columns, groups, deep, wide, target.lanes(element.bits))


def shape_of(
    source: TensorType, w: TensorType, result: TensorType, attributes: Mapping[str, Any], is_gradient: bool = False
) -> ConvShape:
    """Return the shape of a convolution, or of the gradient of its input.

    Images under a 1x1 filter are treated as lines of pixels, see `_lines`. An image that is one column of pixels is
    treated as one row, because a tile holds pixels of one row where threads share the rows of an image.
    """
    stride, padding, dilation, groups = (attributes[name] for name in ("stride", "padding", "dilation", "groups"))
    window = w.static_shape[:2]
    n, *extents, channels = source.static_shape
    indices = list(result.static_shape[1:3])
    if window == stride == (1, 1) and not any(padding):
        extents = indices = _lines(n, extents, result.static_shape[3])
    axis = backward_axis if is_gradient else forward_axis
    axes = [axis(extents[i], window[i], stride[i], padding[i], dilation[i], indices[i]) for i in range(2)]
    if window[1] == extents[1] == indices[1] == 1:
        axes, window = axes[::-1], window[::-1]
    wide = result.static_shape[3] // groups
    return ConvShape(n, axes[0], axes[1], groups, channels // groups, wide, (window[0], window[1]), is_gradient)


def _lines(images: int, extents: Sequence[int], wide: int) -> list[int]:
    """Return the extents of images under a 1x1 filter as lines of pixels, so long that tiles fill the registers.

    Many images are one line each. Few have several, or panels of channels, for the threads; otherwise they stay.
    """
    pixels = prod(extents)
    if images >= FEW_IMAGES:
        return [1, pixels]
    most, fewest = pixels // MIN_LINE_PIXELS, -(-WANTED_ITEMS // (images * -(-wide // LINE_CHANNELS)))
    return next(
        ([lines, pixels // lines] for lines in range(fewest, max(most, 1) + 1) if pixels % lines == 0), [*extents]
    )


FACTOR_DTYPES: Final = FLOAT_DTYPES | {"bfloat16"}
"""Dtypes of images and filters; those of bfloat16 have sums of float32."""

RULES["conv2d"] = CustomKernel(
    convolution, FACTOR_DTYPES, takes_epilogue=True, plan_with_prologue=convolution_with_prologue
)
RULES["conv2d_input_gradient"] = CustomKernel(input_gradient, FACTOR_DTYPES)
RULES["conv2d_input_gradient of bfloat16"] = CustomKernel(input_gradient, FACTOR_DTYPES, takes_epilogue=True)
RULES["conv2d_filter_gradient"] = CustomKernel(
    filter_gradient, FACTOR_DTYPES, plan_with_prologue=filter_gradient_with_prologue
)
