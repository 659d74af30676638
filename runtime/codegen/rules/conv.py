"""Convolutions and their gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from prograd_proto import TensorType
from runtime.codegen.ir import DTYPES, Type
from runtime.codegen.kernels.conv.axes import backward_axis, forward_axis
from runtime.codegen.kernels.conv.channel_multiplier import with_repeated_channels, with_summed_channels
from runtime.codegen.kernels.conv.correlation import correlation_steps
from runtime.codegen.kernels.conv.depthwise import Depthwise
from runtime.codegen.kernels.conv.depthwise_filter_gradient import DepthwiseFilterGradient
from runtime.codegen.kernels.conv.filter_gradient import filter_steps
from runtime.codegen.kernels.conv.filter_gradient_1x1 import FilterGradient1x1
from runtime.codegen.kernels.conv.filter_plan import BLOCK_PIXELS, FilterAxis, FilterGradient
from runtime.codegen.kernels.conv.folded import Folded
from runtime.codegen.kernels.conv.line_filter_gradient import LineFilterGradient
from runtime.codegen.kernels.conv.plan import ConvShape, cycles, plan_convolution
from runtime.codegen.kernels.conv.streamed import Streamed
from runtime.codegen.kernels.conv.winograd.convolution import Winograd
from runtime.codegen.kernels.conv.winograd.filter_gradient import WinogradFilterGradient
from runtime.codegen.kernels.steps import KernelSteps
from runtime.codegen.machine import Target
from runtime.codegen.rules.rule import RULES, CustomKernel

Types = Sequence[TensorType | None]


def convolution(
    target: Target, inputs: Types, outputs: Sequence[TensorType], attributes: Mapping[str, Any]
) -> KernelSteps:
    """Forwards."""
    x, w = (_there(type) for type in inputs)
    return _steps(target, x, w, outputs[0], attributes)


def convolution_with_prologue(
    target: Target, inputs: Sequence[TensorType], outputs: Sequence[TensorType], attributes: Mapping[str, Any]
) -> KernelSteps | None:
    """The same of an image that is made where it is copied, if each pixel is copied about once."""
    x, w = inputs
    element, shape = DTYPES[x.dtype], shape_of(x, w, outputs[0], attributes)
    if _is_depthwise_group(shape):
        return Depthwise(target, element, shape, is_made=True).steps() if shape.deep * shape.wide == 1 else None
    plan = plan_convolution(target, element.bits, shape, is_made=True)
    if _winograd(target, element, shape):
        return None
    if plan.by_panels or plan.columns > 1 or (Folded.takes(shape) and Folded(target, element, shape).is_wanted):
        return None
    return correlation_steps(target, element, shape, plan)


def input_gradient(
    target: Target, inputs: Types, outputs: Sequence[TensorType], attributes: Mapping[str, Any]
) -> KernelSteps:
    """Backwards to the input: a convolution of the gradient with the filter turned around."""
    dy, w = (_there(type) for type in inputs)
    return _steps(target, dy, w, outputs[0], attributes, is_gradient=True)


def filter_gradient(
    target: Target, inputs: Types, outputs: Sequence[TensorType], attributes: Mapping[str, Any]
) -> KernelSteps:
    """Backwards to the filter."""
    x, dy = (_there(type) for type in inputs)
    found = _filter_gradient(target, x, dy, outputs[0], attributes)
    if not isinstance(found, FilterGradient):
        return found.steps()
    if not _is_depthwise(found):
        if LineFilterGradient.takes(found) and (of_lines := LineFilterGradient(target, found)).is_wanted(target):
            return of_lines.steps()
        if WinogradFilterGradient.takes(found):
            winograd, direct = WinogradFilterGradient(target, found), found.planned(target)
            if winograd.is_wanted(direct.cycles * found.images * found.rows.pixels * found.columns.pixels):
                return winograd.steps()
        return filter_steps(target, found)
    alone = replace(found, groups=found.groups * found.wide, wide=1)
    steps = DepthwiseFilterGradient(
        target, found.element, alone.images, alone.rows, alone.columns, alone.groups
    ).steps()
    return with_repeated_channels(steps, found.element, found.lanes, (0, prod(x.static_shape)), found.wide)


def filter_gradient_with_prologue(
    target: Target, inputs: Sequence[TensorType], outputs: Sequence[TensorType], attributes: Mapping[str, Any]
) -> KernelSteps | None:
    """The same of an image that is made where it is copied, if each pixel is copied about once."""
    found = _filter_gradient(target, inputs[0], inputs[1], outputs[0], attributes)
    return None if isinstance(found, FilterGradient) else found.steps()


def _filter_gradient(
    target: Target, x: TensorType, dy: TensorType, w: TensorType, attributes: Mapping[str, Any]
) -> DepthwiseFilterGradient | FilterGradient1x1 | FilterGradient:
    """Loops for channels by themselves or filters of one place; of others what they are of."""
    stride, padding, dilation, groups = (attributes[name] for name in ("stride", "padding", "dilation", "groups"))
    window, element = w.static_shape[:2], DTYPES[x.dtype]
    n, *extents, _ = x.static_shape
    indices = list(dy.static_shape[1:3])
    if window == stride == (1, 1) and not any(padding) and extents[0] * extents[1] <= BLOCK_PIXELS:
        extents = indices = [1, extents[0] * extents[1]]
    rows, columns = (
        FilterAxis(extents[i], indices[i], window[i], stride[i], padding[i], dilation[i]) for i in range(2)
    )
    deep, wide = x.static_shape[3] // groups, dy.static_shape[3] // groups
    shape = FilterGradient(element, n, rows, columns, groups, deep, wide, target.lanes(element.bits))
    if _is_depthwise(shape):
        return DepthwiseFilterGradient(target, element, n, rows, columns, groups) if wide == 1 else shape
    of_points = FilterGradient1x1(target, shape)
    return of_points if of_points.is_wanted else shape


def _is_depthwise(shape: FilterGradient) -> bool:
    return shape.groups > 1 and shape.deep == 1


def _steps(
    target: Target,
    source: TensorType,
    w: TensorType,
    result: TensorType,
    attributes: Mapping[str, Any],
    is_gradient: bool = False,
) -> KernelSteps:
    element, shape = DTYPES[source.dtype], shape_of(source, w, result, attributes, is_gradient)
    if _is_depthwise_group(shape):
        return _depthwise(target, element, shape)
    plan = plan_convolution(target, element.bits, shape)
    if Streamed.is_wanted(shape, plan):
        return Streamed(target, element, shape, plan).steps()
    if winograd := _winograd(target, element, shape):
        return winograd.steps()
    if Folded.takes(shape) and (folded := Folded(target, element, shape)).is_wanted:
        return folded.steps()
    return correlation_steps(target, element, shape, plan)


def _winograd(target: Target, element: Type, shape: ConvShape) -> Winograd | None:
    """The loops with fewer multiplications, if there are such and they take less time."""
    if not Winograd.takes(element, shape):
        return None
    others = [cycles(target, element.bits, shape)]
    if Folded.takes(shape):
        others.append(Folded(target, element, shape).cycles)
    found = Winograd(target, element, shape)
    return found if found.is_wanted(min(others)) else None


def shape_of(
    source: TensorType, w: TensorType, result: TensorType, attributes: Mapping[str, Any], is_gradient: bool = False
) -> ConvShape:
    stride, padding, dilation, groups = (attributes[name] for name in ("stride", "padding", "dilation", "groups"))
    window = w.static_shape[:2]
    n, *extents, channels = source.static_shape
    indices = list(result.static_shape[1:3])
    if window == stride == (1, 1) and not any(padding) and n >= 4:
        extents, indices = [1, extents[0] * extents[1]], [1, indices[0] * indices[1]]
    axis = backward_axis if is_gradient else forward_axis
    axes = [axis(extents[i], window[i], stride[i], padding[i], dilation[i], indices[i]) for i in range(2)]
    wide = result.static_shape[3] // groups
    return ConvShape(n, axes[0], axes[1], groups, channels // groups, wide, (window[0], window[1]), is_gradient)


def _is_depthwise_group(shape: ConvShape) -> bool:
    return shape.groups > 1 and (shape.wide if shape.is_filter_transposed else shape.deep) == 1


def _there(type: TensorType | None) -> TensorType:
    assert type is not None, "a convolution has no absent operands"
    return type


def _depthwise(target: Target, element: Type, shape: ConvShape) -> KernelSteps:
    """Groups whose image has one channel, of which a result has one or several."""
    times, lanes = shape.deep * shape.wide, target.lanes(element.bits)
    steps = Depthwise(target, element, shape._replace(groups=shape.groups * times, deep=1, wide=1)).steps()
    if times == 1:
        return steps
    if shape.is_filter_transposed:
        indices = [sum(phase.pixels for phase in axis.phases) for axis in (shape.rows, shape.columns)]
        return with_summed_channels(steps, element, lanes, shape.images * prod(indices) * shape.groups, times)
    return with_repeated_channels(steps, element, lanes, (0, shape.source), times)


RULES["conv2d"] = CustomKernel(convolution, takes_epilogue=True, plan_with_prologue=convolution_with_prologue)
RULES["conv2d_input_gradient"] = CustomKernel(input_gradient)
RULES["conv2d_filter_gradient"] = CustomKernel(filter_gradient, plan_with_prologue=filter_gradient_with_prologue)
