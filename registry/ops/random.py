"""Random numbers: functions of the seed, the op's own stream, the step and the position of the element.

`seed` and `step` are rank-0 int64 tensors; they default to the program's states of these names. docs/format.md defines
every number.
"""

from __future__ import annotations

from prograd_proto import TensorType
from prograd_proto.dtypes import DTypeName
from prograd_proto.tensor_types import Shape
from registry.op import op
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
    ...


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
    ...


@op(random=True)
def dropout(x: Value, seed: Value = STATE, step: Value = STATE, *, ratio: Ratio = 0.5) -> TensorType:
    """Return x with elements set to 0 with probability `ratio`, and the others divided by 1 - ratio.

    Outside training the result is x. Srivastava et al., 2014.
    """
    ...


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
    ...
