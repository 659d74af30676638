"""Random numbers: functions of the seed, the op's own stream, the step and the position of the element.

`seed` and `step` are rank-0 int64 tensors; they default to the program's states of these names. docs/format.md defines
every number.
"""

from __future__ import annotations

from prograd_proto import TensorType, dtypes
from prograd_proto.dtypes import DTypeName
from prograd_proto.tensor_types import Shape
from registry.errors import require
from registry.op import op
from registry.shapes import require_float
from registry.spellings import Ratio
from registry.value import STATE, Value


@op(random=True, differentiable=False)
def uniform(
    seed: Value = STATE,
    step: Value = STATE,
    *,
    shape: Shape,
    low: float = 0.0,
    high: float = 1.0,
    dtype: DTypeName = "float32",
) -> TensorType:
    """Return uniform random numbers from `low` to `high`; only rounding can give `high` itself."""
    _require_counters(seed, step)
    require(dtype in dtypes.FLOATS, f"{dtype} has no uniform numbers, only float32 and float64 have")
    require(low <= high, f"low={low} is larger than high={high}")
    return TensorType(dtype, shape)


@op(random=True, differentiable=False)
def normal(
    seed: Value = STATE,
    step: Value = STATE,
    *,
    shape: Shape,
    mean: float = 0.0,
    deviation: float = 1.0,
    dtype: DTypeName = "float32",
) -> TensorType:
    """Return normal random numbers with that mean and standard deviation (Box and Muller, 1958)."""
    _require_counters(seed, step)
    require(dtype in dtypes.FLOATS, f"{dtype} has no normal numbers, only float32 and float64 have")
    require(deviation >= 0, f"deviation={deviation} is negative")
    return TensorType(dtype, shape)


@op(random=True)
def dropout(x: Value, seed: Value = STATE, step: Value = STATE, *, ratio: Ratio = 0.5) -> TensorType:
    """Return x with elements set to 0 with probability `ratio`, and the others divided by 1 - ratio.

    Outside training the result is x. Srivastava et al., 2014.
    """
    require_float(x)
    _require_counters(seed, step)
    require(0 <= ratio < 1, f"ratio={ratio} is not in [0, 1)")
    return x.type


@dropout.gradient
def dropout_gradient(
    seed: Value, step: Value, dy: Value, *, rate: float, random_stream: int
) -> tuple[Value, None, None]:
    return dropout.replay(random_stream)(dy, seed, step, ratio=rate), None, None


@dropout.inference
def dropout_inference(x: Value) -> Value:
    return x


@op(differentiable=False)
def iteration_step(step: Value, iteration: Value) -> TensorType:
    """Return the number of a step for random ops in an iteration of a loop: random bits of the step and the iteration.

    `scan`, `map` and `while_loop` append this op for the random ops of their bodies. Both operands and the result are
    int64 of rank 0, and the result is not negative.
    """
    for name, value in (("step", step), ("iteration", iteration)):
        require(value.type == TensorType("int64", ()), f"{name} is {value.type}, not int64[]")
    return step.type


def _require_counters(seed: Value, step: Value) -> None:
    for name, value in (("seed", seed), ("step", step)):
        require(value.type == TensorType("int64", ()), f"{name} is {value.type}, not int64[]")
