"""Maxima and means of sliding windows, and their gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from prograd_proto import TensorType
from runtime.codegen.ir import DTYPES
from runtime.codegen.kernels.conv.filter_plan import FilterAxis
from runtime.codegen.kernels.conv.pool_gradients import (
    largest_gradient,
    largest_gradient_apart,
    mean_gradient,
    mean_gradient_apart,
)
from runtime.codegen.kernels.conv.pooling import Pool
from runtime.codegen.kernels.op_types import OpTypes
from runtime.codegen.kernels.steps import KernelSteps
from runtime.codegen.machine import Target
from runtime.codegen.rules.rule import FLOAT_DTYPES, RULES, CustomKernel, PlanSteps


def _pool(target: Target, images: TensorType, indices: TensorType, attributes: Mapping[str, Any]) -> Pool:
    window, stride, padding = (attributes[name] for name in ("window", "stride", "padding"))
    rows, columns = (
        FilterAxis(images.static_shape[1 + i], indices.static_shape[1 + i], window[i], stride[i], padding[i], 1)
        for i in range(2)
    )
    element = DTYPES[images.dtype]
    counts = bool(attributes.get("count_include_pad", False))
    n, channels = images.static_shape[0], images.static_shape[3]
    return Pool(element, n, rows, columns, channels, target.lanes(element.bits), counts)


def _forwards(choose: Callable[[Pool], Any]) -> PlanSteps:
    def plan(target: Target, op: OpTypes) -> KernelSteps:
        pool = _pool(target, op.operand(0), op.outputs[0], op.attributes)
        return pool.steps(choose(pool), pool.rows.pixels)

    return plan


def _backwards(target: Target, op: OpTypes) -> KernelSteps:
    """Return the kernel steps of a gradient; its last operand is dy, after the images if the pool takes maxima."""
    pool, is_mean = _pool(target, op.outputs[0], op.operand(-1), op.attributes), len(op.inputs) == 1
    if pool.is_apart:
        return pool.steps(partial(mean_gradient_apart if is_mean else largest_gradient_apart, pool), pool.rows.pixels)
    if is_mean:
        return pool.steps(partial(mean_gradient, pool), pool.rows.source)
    return pool.steps(partial(largest_gradient, pool), -(-pool.channels // pool.lanes))


RULES["max_pool2d"] = CustomKernel(_forwards(lambda pool: pool.largest), FLOAT_DTYPES | {"uint8"})
RULES["max_pool2d_select"] = CustomKernel(_forwards(lambda pool: pool.selected))
RULES["max_pool2d_input_gradient"] = CustomKernel(_backwards)
RULES["avg_pool2d"] = CustomKernel(_forwards(lambda pool: pool.mean))
RULES["avg_pool2d_input_gradient"] = CustomKernel(_backwards)
