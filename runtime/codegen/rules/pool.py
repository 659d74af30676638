"""Maxima and means under sliding windows, and their gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from prograd_proto import TensorType
from runtime.codegen.ir import DTYPES
from runtime.codegen.kernels.conv.filters import Side
from runtime.codegen.kernels.conv.pool_gradients import (
    largest_gradient,
    largest_gradient_apart,
    mean_gradient,
    mean_gradient_apart,
)
from runtime.codegen.kernels.conv.pooling import Pool
from runtime.codegen.kernels.stages import Stages
from runtime.codegen.machine import Target
from runtime.codegen.rules.form import FORMS, Loops, Plan

Types = Sequence[TensorType | None]


def _pool(target: Target, images: TensorType, places: TensorType, attributes: Mapping[str, Any]) -> Pool:
    window, stride, padding = (attributes[name] for name in ("window", "stride", "padding"))
    rows, columns = (
        Side(images.static_shape[1 + i], places.static_shape[1 + i], window[i], stride[i], padding[i], 1)
        for i in range(2)
    )
    element = DTYPES[images.dtype]
    counts = bool(attributes.get("count_include_pad", False))
    n, channels = images.static_shape[0], images.static_shape[3]
    return Pool(element, n, rows, columns, channels, target.lanes(element.bits), counts)


def _forwards(choose: Callable[[Pool], Any]) -> Plan:
    def plan(target: Target, inputs: Types, outputs: Sequence[TensorType], attributes: Mapping[str, Any]) -> Stages:
        assert inputs[0] is not None, "pools have no absent operands"
        pool = _pool(target, inputs[0], outputs[0], attributes)
        return pool.stages(choose(pool), pool.rows.places)

    return plan


def _backwards(target: Target, inputs: Types, outputs: Sequence[TensorType], attributes: Mapping[str, Any]) -> Stages:
    """The last operand is the gradient of the result; before it come the images of maxima."""
    assert inputs[-1] is not None, "pools have no absent operands"
    pool, is_mean = _pool(target, outputs[0], inputs[-1], attributes), len(inputs) == 1
    if pool.is_apart:
        return pool.stages(partial(mean_gradient_apart if is_mean else largest_gradient_apart, pool), pool.rows.places)
    if is_mean:
        return pool.stages(partial(mean_gradient, pool), pool.rows.source)
    return pool.stages(partial(largest_gradient, pool), -(-pool.channels // pool.lanes))


FORMS["max_pool2d"] = Loops(_forwards(lambda pool: pool.largest))
FORMS["max_pool2d_select"] = Loops(_forwards(lambda pool: pool.selected))
FORMS["max_pool2d_input_gradient"] = Loops(_backwards)
FORMS["avg_pool2d"] = Loops(_forwards(lambda pool: pool.mean))
FORMS["avg_pool2d_input_gradient"] = Loops(_backwards)
