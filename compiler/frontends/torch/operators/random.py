"""Random numbers: all are drawn from counted streams, and none outside training where PyTorch draws none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from compiler.errors import CompileError
from compiler.frontends.arranged import Arranged, arranged, pointwise, viewed, with_broadcast
from compiler.frontends.elements import cast_to
from compiler.frontends.extents import factored
from compiler.frontends.torch.operators.call import Call, Mapping
from registry import Value, ops


def _dropout(call: Call, x: Arranged, rate: float, train: bool = True) -> Arranged:
    """Return x with elements left out, each by a draw of its own, also where x is broadcast."""
    if not train or not rate:
        return x
    if call.in_evaluation:
        return (
            pointwise(lambda v, draw: ops.mul(v, draw) * (1 / (1 - rate)), x, drawn(call, 1 - rate))
            if rate < 1
            else (pointwise(lambda v: v * 0.0, x))
        )
    return pointwise(lambda v: ops.dropout(v, ratio=rate), with_broadcast(x, range(x.rank)))


def drawn(call: Call, chance: float) -> Arranged:
    """Return ones with that probability, else zeros; outside the training of a graph of training, the probability."""
    if call.in_evaluation:
        return pointwise(lambda v: ops.cast(v < chance, dtype=call.dtype), _uniform(call))
    ones = ops.full.on(call.block)(shape=_shape(call), value=1.0, dtype=call.dtype)
    return _whole(call, ops.dropout(ones, ratio=1.0 - chance) * chance if chance < 1 else ones)


def _uniform(call: Call, *operands: Any, **more: Any) -> Arranged:
    return _whole(call, ops.uniform.on(call.block)(*_counters(call), shape=_shape(call), dtype=call.dtype))


def _uniform_between(call: Call, x: Any, first: float = 0.0, last: float = 1.0, **more: Any) -> Arranged:
    return pointwise(lambda v: v * (last - first) + first, _uniform(call))


def _exponential(call: Call, x: Any, rate: float = 1.0, **more: Any) -> Arranged:
    """Return -log(1 - u) / rate of uniform numbers in [0, 1)."""
    return pointwise(lambda v: ops.log1p(-v) * (-1.0 / rate), _uniform(call))


def _normal(call: Call, *operands: Any, **more: Any) -> Arranged:
    return _whole(call, ops.normal.on(call.block)(*_counters(call), shape=_shape(call), dtype=call.dtype))


def _normal_around(call: Call, x: Any, mean: float = 0.0, deviation: float = 1.0, **more: Any) -> Arranged:
    return pointwise(lambda v: v * deviation + mean, _normal(call))


def _normal_of(call: Call, mean: Any, deviation: Any, **more: Any) -> Arranged:
    """Return normal numbers around means, with deviations, either or both of tensors, which get no gradient."""
    given = [x for x in (mean, deviation) if isinstance(x, Arranged)]
    fixed = iter([replace(x, value=ops.stop_gradient(x.value)) for x in given])
    mean, deviation = (next(fixed) if isinstance(x, Arranged) else x for x in (mean, deviation))
    return pointwise(ops.add, pointwise(ops.mul, _normal(call), deviation), mean)


def _integers(call: Call, low: int, high: int) -> Arranged:
    made = ops.randint.on(call.block)(*_counters(call), shape=_shape(call), low=low, high=high, dtype="int64")
    return cast_to(_whole(call, made), call.dtype)


def _permutation(call: Call, count: Any, **more: Any) -> Arranged:
    if not isinstance(count, int):
        raise CompileError(
            "a random order of a number of rows that is not fixed is not imported; import without a symbol"
        )
    made = ops.permutation.on(call.block)(*_counters(call), count=count)
    return cast_to(arranged(made), call.dtype)


def _rrelu(
    call: Call, x: Arranged, noise: Any, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, *rest: Any
) -> tuple[Arranged, None]:
    """Return x with random slopes below 0; outside of training, with their mean."""
    if not training:
        return pointwise(lambda v: ops.leaky_relu(v, alpha=(lower + upper) / 2), x), None
    slope = pointwise(lambda v: v * (upper - lower) + lower, _uniform(call))
    return pointwise(lambda v, s: ops.where(v < 0, v * s, v), x, slope), None


def _counters(call: Call) -> tuple[Value, Value]:
    return call.block.state("seed"), call.block.state("step")


def _shape(call: Call) -> tuple[int | str, ...]:
    """Return the shape with two axes for each of 2 * batch elements, say."""
    return tuple(extent.plain() for own in factored(call.shape) for extent in own)


def _whole(call: Call, y: Value) -> Arranged:
    return viewed(arranged(y), call.shape)


OPERATORS: Final[dict[str, Mapping]] = {
    "aten.dropout.default": _dropout,
    "aten.native_dropout.default": lambda call, x, rate, train=True: (_dropout(call, x, rate, train), None),
    "aten.bernoulli.p": lambda call, x, chance=0.5, **more: drawn(call, chance),
    "aten.rrelu_with_noise_functional.default": _rrelu,
    "aten.rrelu_with_noise.default": _rrelu,
    "aten.rand.default": _uniform,
    "aten.rand_like.default": _uniform,
    "aten.randn.default": _normal,
    "aten.randn_like.default": _normal,
    "aten.randint.default": lambda call, high, size, **more: _integers(call, 0, high),
    "aten.randint.low": lambda call, low, high, size, **more: _integers(call, low, high),
    "aten.randint_like.default": lambda call, x, high, **more: _integers(call, 0, high),
    "aten.randint_like.low_dtype": lambda call, x, low, high, **more: _integers(call, low, high),
    "aten.randperm.default": _permutation,
    "aten.uniform.default": _uniform_between,
    "aten.exponential.default": _exponential,
    "aten.normal.float_float": lambda call, mean, deviation, size, **more: _normal_around(call, None, mean, deviation),
    "aten.normal_functional.default": _normal_around,
    "aten.normal.Tensor_Tensor": _normal_of,
    "aten.normal.Tensor_float": lambda call, mean, deviation=1.0, **more: _normal_of(call, mean, deviation),
    "aten.normal.float_Tensor": _normal_of,
}
