"""Convolutions and their gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from prograd_proto import TensorType
from runtime.engines.native.convolution.axes import backwards, forwards
from runtime.engines.native.convolution.correlation import correlation_stages
from runtime.engines.native.convolution.depthwise import Depthwise
from runtime.engines.native.convolution.depthwise_filters import DepthwiseFilters
from runtime.engines.native.convolution.filter_loops import filter_stages
from runtime.engines.native.convolution.filters import DEPTH, Filters, Side
from runtime.engines.native.convolution.folded import Folded
from runtime.engines.native.convolution.line_filters import LineFilters
from runtime.engines.native.convolution.multiplied import added, repeated
from runtime.engines.native.convolution.plan import Shape, planned
from runtime.engines.native.convolution.point_filters import PointFilters
from runtime.engines.native.convolution.streamed import Streamed
from runtime.engines.native.forms.form import FORMS, Loops
from runtime.engines.native.forms.stages import Stages
from runtime.engines.native.ir import DTYPES, Type
from runtime.engines.native.target import Target

Types = Sequence[TensorType | None]


def convolution(target: Target, inputs: Types, outputs: Sequence[TensorType], attributes: Mapping[str, Any]) -> Stages:
    """Forwards."""
    x, w = (_there(type) for type in inputs)
    return _stages(target, x, w, outputs[0], attributes)


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
    stride, padding, dilation, groups = (attributes[name] for name in ("stride", "padding", "dilation", "groups"))
    window, element = outputs[0].static_shape[:2], DTYPES[x.dtype]
    n, *extents, _ = x.static_shape
    places = list(dy.static_shape[1:3])
    if window == stride == (1, 1) and not any(padding) and extents[0] * extents[1] <= DEPTH:
        extents = places = [1, extents[0] * extents[1]]
    rows, columns = (Side(extents[i], places[i], window[i], stride[i], padding[i], dilation[i]) for i in range(2))
    deep, wide = x.static_shape[3] // groups, dy.static_shape[3] // groups
    lanes = target.lanes(element.bits)
    if groups > 1 and deep == 1:
        stages = DepthwiseFilters(target, element, n, rows, columns, groups * wide).stages()
        return stages if wide == 1 else repeated(stages, element, lanes, (0, prod(x.static_shape)), wide)
    shape = Filters(element, n, rows, columns, groups, deep, wide, lanes)
    if LineFilters.takes(shape) and (of_lines := LineFilters(target, shape)).is_wanted(target):
        return of_lines.stages()
    of_points = PointFilters(target, shape)
    return of_points.stages() if of_points.is_wanted else filter_stages(target, shape)


def _stages(
    target: Target,
    source: TensorType,
    w: TensorType,
    result: TensorType,
    attributes: Mapping[str, Any],
    is_gradient: bool = False,
) -> Stages:
    stride, padding, dilation, groups = (attributes[name] for name in ("stride", "padding", "dilation", "groups"))
    window = w.static_shape[:2]
    n, *extents, channels = source.static_shape
    places = list(result.static_shape[1:3])
    if window == stride == (1, 1) and not any(padding) and n >= 4:
        extents, places = [1, extents[0] * extents[1]], [1, places[0] * places[1]]
    axis = backwards if is_gradient else forwards
    axes = [axis(extents[i], window[i], stride[i], padding[i], dilation[i], places[i]) for i in range(2)]
    wide = result.static_shape[3] // groups
    shape = Shape(n, axes[0], axes[1], groups, channels // groups, wide, (window[0], window[1]), is_gradient)
    element = DTYPES[source.dtype]
    if groups > 1 and (shape.wide if is_gradient else shape.deep) == 1:
        return _by_themselves(target, element, shape)
    plan = planned(target, element.bits, shape)
    if Streamed.is_wanted(shape, plan):
        return Streamed(target, element, shape, plan).stages()
    if Folded.takes(shape) and (folded := Folded(target, element, shape)).is_wanted:
        return folded.stages()
    return correlation_stages(target, element, shape, plan)


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


FORMS["conv2d"] = Loops(convolution, is_finished=True)
FORMS["conv2d_input_gradient"] = Loops(input_gradient)
FORMS["conv2d_filter_gradient"] = Loops(filter_gradient)
