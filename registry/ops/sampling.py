"""Random choices, truncated normal numbers, random integers, orthogonal matrices, and variants of dropout.

As in the family random, `seed` and `step` are rank-0 int64 tensors that default to the program's states of these names.
docs/format.md defines every number.
"""

from __future__ import annotations

from prograd_proto import TensorType
from prograd_proto.dtypes import DTypeName
from prograd_proto.result_types.shapes import require_float
from prograd_proto.tensor_types import Shape
from registry.errors import require
from registry.op import op
from registry.ops.fill import full
from registry.ops.random import dropout
from registry.spelled import spelled
from registry.spellings import Ratio
from registry.traits import example
from registry.value import STATE, Value


@op(random=True, differentiable=False)
def truncated_normal(
    seed: Value = STATE,
    step: Value = STATE,
    *,
    shape: Shape,
    mean: float = 0.0,
    deviation: float = 1.0,
    low: float = -2.0,
    high: float = 2.0,
    dtype: DTypeName = "float32",
) -> TensorType:
    """Return normal numbers from `low` to `high` deviations off the mean (Wichura, 1988).

    The numbers are computed by the inverse of the distribution. The bounds are within -6 ... 6; `deviation` is that of
    the distribution before truncation.
    """
    ...


@op(random=True, differentiable=False)
def bernoulli(
    seed: Value = STATE, step: Value = STATE, *, shape: Shape, probability: float = 0.5, dtype: DTypeName = "bool"
) -> TensorType:
    """Return ones, or True, with that probability, else zeros."""
    ...


@op(random=True, differentiable=False)
def randint(
    seed: Value = STATE, step: Value = STATE, *, shape: Shape, low: int = 0, high: int, dtype: DTypeName = "int64"
) -> TensorType:
    """Return uniform integers from `low` to `high` - 1, at most 2^32 different ones and all within the dtype."""
    ...


@op(random=True, differentiable=False)
def permutation(seed: Value = STATE, step: Value = STATE, *, count: int) -> TensorType:
    """Return the numbers 0 ... count - 1 in random order, int64."""
    ...


@example((2, 2), (), ())
@op(random=True, differentiable=False)
def categorical(logits: Value, seed: Value = STATE, step: Value = STATE) -> TensorType:
    """Return a random class for each row of logits, by their softmax over the last axis; int64."""
    ...


@example((), (), shape=(2, 2))
@op(random=True, differentiable=False)
def orthogonal(
    seed: Value = STATE, step: Value = STATE, *, shape: Shape, gain: float = 1.0, dtype: DTypeName = "float32"
) -> TensorType:
    """Return a matrix with orthonormal columns, or rows if there are fewer, times `gain`: Saxe et al., 2014.

    Axes before the last are the rows. Every such matrix is equally likely: vectors of normal numbers are made
    orthogonal one after the other (Gram and Schmidt, twice for each).
    """
    ...


@op(random=True)
def alpha_dropout(
    x: Value, seed: Value = STATE, step: Value = STATE, *, ratio: Ratio = 0.5, linear: bool = False
) -> TensorType:
    """Return x after dropout for SELU, which preserves mean 0 and variance 1: Klambauer et al., 2017.

    Elements are set to c = -1.7580993408473766 with probability `ratio`. Then the tensor is multiplied by a = 1 /
    sqrt((1 - ratio) * (1 + ratio * c^2)), and -a * c * ratio is added. With `linear`, which the gradient uses, c and
    the added term are 0, but a is the same. Outside training the result is x.
    """
    ...


@alpha_dropout.gradient
def alpha_dropout_gradient(
    seed: Value, step: Value, dy: Value, *, rate: float, random_stream: int
) -> tuple[Value, None, None]:
    return alpha_dropout.replay(random_stream)(dy, seed, step, ratio=rate, linear=True), None, None


@alpha_dropout.inference
def alpha_dropout_inference(x: Value) -> Value:
    return x


@spelled
def feature_dropout(x: Value, *, ratio: float = 0.5) -> Value:
    """Return x with whole channels (last axis) dropped for each row (first axis): Tompson et al., 2015."""
    require_float(x)
    require(x.rank >= 2, f"x has {x.rank} axes and needs two or more, the last for channels")
    shape = (x.shape[0], *[1] * (x.rank - 2), x.shape[-1])
    return x * dropout(full.on(x.block)(shape=shape, value=1.0, dtype=x.dtype), ratio=ratio)
