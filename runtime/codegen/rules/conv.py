"""Convolutions and their gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from prograd_proto import TensorType
from runtime.codegen.ir import DTYPES, Type
from runtime.codegen.kernels.conv.axes import backwards, forwards
from runtime.codegen.kernels.conv.correlation import correlation_stages
from runtime.codegen.kernels.conv.depthwise import Depthwise
from runtime.codegen.kernels.conv.depthwise_filters import DepthwiseFilters
from runtime.codegen.kernels.conv.filter_loops import filter_stages
from runtime.codegen.kernels.conv.filters import DEPTH, Filters, Side
from runtime.codegen.kernels.conv.folded import Folded
from runtime.codegen.kernels.conv.line_filters import LineFilters
from runtime.codegen.kernels.conv.multiplied import added, repeated
from runtime.codegen.kernels.conv.plan import Shape, cycles, planned
from runtime.codegen.kernels.conv.point_filters import PointFilters
from runtime.codegen.kernels.conv.streamed import Streamed
from runtime.codegen.kernels.conv.winograd.filter_gradient import WinogradFilters
from runtime.codegen.kernels.conv.winograd.loops import Winograd
from runtime.codegen.kernels.stages import Stages
from runtime.codegen.machine import Target
from runtime.codegen.rules.form import FORMS, Loops

Types = Sequence[TensorType | None]


def convolution(target: Target, inputs: Types, outputs: Sequence[TensorType], attributes: Mapping[str, Any]) -> Stages:
    """Forwards."""
    x, w = (_there(type) for type in inputs)
    return _stages(target, x, w, outputs[0], attributes)


def convolution_of_made(
    target: Target, inputs: Sequence[TensorType], outputs: Sequence[TensorType], attributes: Mapping[str, Any]
) -> Stages | None:
    """The same of an image that is made where it is copied, if each pixel is copied about once."""
    x, w = inputs
    element, shape = DTYPES[x.dtype], shape_of(x, w, outputs[0], attributes)
    if _is_by_itself(shape):
        return Depthwise(target, element, shape, is_made=True).stages() if shape.deep * shape.wide == 1 else None
    plan = planned(target, element.bits, shape, is_made=True)
    if _winograd(target, element, shape):
        return None
    if plan.by_panels or plan.columns > 1 or (Folded.takes(shape) and Folded(target, element, shape).is_wanted):
        return None
    return correlation_stages(target, element, shape, plan)


def input_gradient(
    target: Target, inputs: Types, outputs: Sequence[TensorType], attributes: Mapping[str, Any]
) -> Stages:
    """Backwards to the input: a convolution of the gradient with the filter turned around."""
    dy, w = (_there(type) for type in inputs)
    return _stages(target, dy, w, outputs[0], attributes, is_gradient=True)


def filter_gradient(
    target: Target, inputs: Types, outputs: Sequence[TensorType], attributes: Mapping[str, Any]
) -> Stages:
    """Backwards to the filter."""
    x, dy = (_there(type) for type in inputs)
    found = _filter_gradient(target, x, dy, outputs[0], attributes)
    if not isinstance(found, Filters):
        return found.stages()
    if not _has_own_channels(found):
        if LineFilters.takes(found) and (of_lines := LineFilters(target, found)).is_wanted(target):
            return of_lines.stages()
        if WinogradFilters.takes(found):
            winograd, direct = WinogradFilters(target, found), found.planned(target)
            if winograd.is_wanted(direct.cycles * found.images * found.rows.places * found.columns.places):
                return winograd.stages()
        return filter_stages(target, found)
    alone = replace(found, groups=found.groups * found.wide, wide=1)
    stages = DepthwiseFilters(target, found.element, alone.images, alone.rows, alone.columns, alone.groups).stages()
    return repeated(stages, found.element, found.lanes, (0, prod(x.static_shape)), found.wide)


def filter_gradient_of_made(
    target: Target, inputs: Sequence[TensorType], outputs: Sequence[TensorType], attributes: Mapping[str, Any]
) -> Stages | None:
    """The same of an image that is made where it is copied, if each pixel is copied about once."""
    found = _filter_gradient(target, inputs[0], inputs[1], outputs[0], attributes)
    return None if isinstance(found, Filters) else found.stages()


def _filter_gradient(
    target: Target, x: TensorType, dy: TensorType, w: TensorType, attributes: Mapping[str, Any]
) -> DepthwiseFilters | PointFilters | Filters:
    """Loops for channels by themselves or filters of one place; of others what they are of."""
    stride, padding, dilation, groups = (attributes[name] for name in ("stride", "padding", "dilation", "groups"))
    window, element = w.static_shape[:2], DTYPES[x.dtype]
    n, *extents, _ = x.static_shape
    places = list(dy.static_shape[1:3])
    if window == stride == (1, 1) and not any(padding) and extents[0] * extents[1] <= DEPTH:
        extents = places = [1, extents[0] * extents[1]]
    rows, columns = (Side(extents[i], places[i], window[i], stride[i], padding[i], dilation[i]) for i in range(2))
    deep, wide = x.static_shape[3] // groups, dy.static_shape[3] // groups
    shape = Filters(element, n, rows, columns, groups, deep, wide, target.lanes(element.bits))
    if _has_own_channels(shape):
        return DepthwiseFilters(target, element, n, rows, columns, groups) if wide == 1 else shape
    of_points = PointFilters(target, shape)
    return of_points if of_points.is_wanted else shape


def _has_own_channels(shape: Filters) -> bool:
    return shape.groups > 1 and shape.deep == 1


def _stages(
    target: Target,
    source: TensorType,
    w: TensorType,
    result: TensorType,
    attributes: Mapping[str, Any],
    is_gradient: bool = False,
) -> Stages:
    element, shape = DTYPES[source.dtype], shape_of(source, w, result, attributes, is_gradient)
    if _is_by_itself(shape):
        return _by_themselves(target, element, shape)
    plan = planned(target, element.bits, shape)
    if Streamed.is_wanted(shape, plan):
        return Streamed(target, element, shape, plan).stages()
    if winograd := _winograd(target, element, shape):
        return winograd.stages()
    if Folded.takes(shape) and (folded := Folded(target, element, shape)).is_wanted:
        return folded.stages()
    return correlation_stages(target, element, shape, plan)


def _winograd(target: Target, element: Type, shape: Shape) -> Winograd | None:
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
) -> Shape:
    stride, padding, dilation, groups = (attributes[name] for name in ("stride", "padding", "dilation", "groups"))
    window = w.static_shape[:2]
    n, *extents, channels = source.static_shape
    places = list(result.static_shape[1:3])
    if window == stride == (1, 1) and not any(padding) and n >= 4:
        extents, places = [1, extents[0] * extents[1]], [1, places[0] * places[1]]
    axis = backwards if is_gradient else forwards
    axes = [axis(extents[i], window[i], stride[i], padding[i], dilation[i], places[i]) for i in range(2)]
    wide = result.static_shape[3] // groups
    return Shape(n, axes[0], axes[1], groups, channels // groups, wide, (window[0], window[1]), is_gradient)


def _is_by_itself(shape: Shape) -> bool:
    return shape.groups > 1 and (shape.wide if shape.turned else shape.deep) == 1


def _there(type: TensorType | None) -> TensorType:
    assert type is not None, "a convolution has no absent operands"
    return type


def _by_themselves(target: Target, element: Type, shape: Shape) -> Stages:
    """Groups whose image has one channel, of which a result has one or several."""
    times, lanes = shape.deep * shape.wide, target.lanes(element.bits)
    stages = Depthwise(target, element, shape._replace(groups=shape.groups * times, deep=1, wide=1)).stages()
    if times == 1:
        return stages
    if shape.turned:
        places = [sum(phase.places for phase in axis.phases) for axis in (shape.rows, shape.columns)]
        return added(stages, element, lanes, shape.images * prod(places) * shape.groups, times)
    return repeated(stages, element, lanes, (0, shape.source), times)


FORMS["conv2d"] = Loops(convolution, is_finished=True, made=convolution_of_made)
FORMS["conv2d_input_gradient"] = Loops(input_gradient)
FORMS["conv2d_filter_gradient"] = Loops(filter_gradient, made=filter_gradient_of_made)
