"""Random numbers and choices: functions of the seed, the stream of an op, the step and the position."""

from __future__ import annotations

import math

from prograd_proto import dtypes
from prograd_proto.dtypes import DTypeName
from prograd_proto.errors import require
from prograd_proto.result_types.rule import rule
from prograd_proto.result_types.shapes import require_float, size_known
from prograd_proto.tensor_types import Shape, TensorType

COUNTER = TensorType("int64", ())
FAR = 6.0


@rule
def uniform(
    seed: TensorType, step: TensorType, *, shape: Shape, low: float, high: float, dtype: DTypeName
) -> TensorType:
    require_counters(seed, step)
    require(dtype in dtypes.FLOATS, f"{dtype} has no uniform numbers, only float32 and float64 have")
    require(low <= high, f"low={low} is larger than high={high}")
    return TensorType(dtype, shape)


@rule
def normal(
    seed: TensorType, step: TensorType, *, shape: Shape, mean: float, deviation: float, dtype: DTypeName
) -> TensorType:
    require_counters(seed, step)
    require(dtype in dtypes.FLOATS, f"{dtype} has no normal numbers, only float32 and float64 have")
    require(deviation >= 0, f"deviation={deviation} is negative")
    return TensorType(dtype, shape)


@rule
def dropout(x: TensorType, seed: TensorType, step: TensorType, *, rate: float) -> TensorType:
    require_float(x)
    require_counters(seed, step)
    require(0 <= rate < 1, f"ratio={rate} is not in [0, 1)")
    return x


@rule
def iteration_step(step: TensorType, iteration: TensorType) -> TensorType:
    for name, value in (("step", step), ("iteration", iteration)):
        require(value == COUNTER, f"{name} is {value}, not {COUNTER}")
    return step


@rule
def truncated_normal(
    seed: TensorType,
    step: TensorType,
    *,
    shape: Shape,
    mean: float,
    deviation: float,
    low: float,
    high: float,
    dtype: DTypeName,
) -> TensorType:
    require_counters(seed, step)
    require(dtype in dtypes.FLOATS, f"{dtype} has no normal numbers, only float32 and float64 have")
    require(deviation >= 0, f"deviation={deviation} is negative")
    require(-FAR <= low < high <= FAR, f"low={low} and high={high} do not rise within -6 ... 6")
    return TensorType(dtype, shape)


@rule
def bernoulli(seed: TensorType, step: TensorType, *, shape: Shape, probability: float, dtype: DTypeName) -> TensorType:
    require_counters(seed, step)
    require(0 <= probability <= 1, f"probability={probability} is not in [0, 1]")
    return TensorType(dtype, shape)


@rule
def randint(seed: TensorType, step: TensorType, *, shape: Shape, low: int, high: int, dtype: DTypeName) -> TensorType:
    require_counters(seed, step)
    require(dtype in ("int32", "int64"), f"needs int32 or int64, not {dtype}")
    require(0 < high - low <= 2**32, f"from low={low} to high={high} there are not 1 ... 2^32 numbers")
    bits = 31 if dtype == "int32" else 63
    require(-(2**bits) <= low and high <= 2**bits, f"low={low} or high={high} does not fit {dtype}")
    return TensorType(dtype, shape)


@rule
def permutation(seed: TensorType, step: TensorType, *, count: int) -> TensorType:
    require_counters(seed, step)
    require(0 <= count < 2**32, f"count={count} is not in 0 ... 2^32 - 1")
    return TensorType("int64", (count,))


@rule
def categorical(logits: TensorType, seed: TensorType, step: TensorType) -> TensorType:
    require_float(logits)
    require_counters(seed, step)
    require(logits.rank >= 1, "the logits have no axis of classes")
    require(size_known(logits.shape[-1], "the number of classes") > 0, "there are no classes")
    return TensorType("int64", logits.shape[:-1])


@rule
def orthogonal(seed: TensorType, step: TensorType, *, shape: Shape, gain: float, dtype: DTypeName) -> TensorType:
    require_counters(seed, step)
    require(dtype in dtypes.FLOATS, f"needs float32 or float64, not {dtype}")
    require(len(shape) >= 2, f"shape has {len(shape)} extents and needs two or more")
    require(math.prod(size_known(extent, "an extent") for extent in shape) > 0, "the matrix has no elements")
    return TensorType(dtype, shape)


@rule
def alpha_dropout(x: TensorType, seed: TensorType, step: TensorType, *, rate: float, linear: bool) -> TensorType:
    require_float(x)
    require_counters(seed, step)
    require(0 <= rate < 1, f"ratio={rate} is not in [0, 1)")
    return x


def require_counters(seed: TensorType, step: TensorType) -> None:
    """Raise OpError unless seed and step are rank-0 int64 tensors."""
    for name, value in (("seed", seed), ("step", step)):
        require(value == COUNTER, f"{name} is {value}, not {COUNTER}")
