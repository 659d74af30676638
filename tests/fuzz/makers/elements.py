"""Calls of functions element by element."""

from __future__ import annotations

from typing import Any

from fuzz.drawing import FLOATS, HALVES, INTS, Draw, Ref
from fuzz.makers.table import Maker, each, maker

NUMBERS = (*FLOATS, *INTS)
ALL = (*NUMBERS, "bool")


def unary(name: str, kind: str = "normal", dtypes: tuple[str, ...] | None = None) -> Maker:
    return lambda d: d.call(name, d.any(dtypes, kind))


def other(d: Draw, x: Ref, kind: str = "normal", numbers: tuple[Any, ...] = (0.5, 2.0, -1.0, 1.0, 3)) -> Any:
    """A second operand: the same tensor, one beside it, or a number."""
    if d.chance(0.12) and kind == "normal":
        return x
    if d.chance(0.15):
        number = d.choice(numbers)
        return abs(int(number)) if x.dtype in INTS else number
    return d.beside(x, kind)


def binary(name: str, kinds: tuple[str, str] = ("normal", "normal"), dtypes: tuple[str, ...] | None = None) -> Maker:
    def make(d: Draw) -> None:
        x = d.any(d.choice([d.dtypes, dtypes]) if dtypes else None, kinds[0])
        y = other(d, x, kinds[1])
        if kinds[0] == kinds[1] == "normal" and d.chance(0.3):
            x, y = y, x
        d.call(name, x, y)

    return make


SMOOTH = "neg square exp sin cos tanh sigmoid erf erfc atan sinh cosh asinh exp2 expm1 silu mish log_sigmoid gelu selu"
each(SMOOTH, unary)
each(
    "softsign hard_swish relu6 relu hard_sigmoid leaky_relu elu celu softplus hard_tanh tan identity stop_gradient",
    unary,
)
each("sqrt log rsqrt reciprocal log2 lgamma digamma", lambda name: unary(name, "positive"))
each("log1p asin acos atanh", lambda name: unary(name, "inside"))
each("acosh", lambda name: unary(name, "above"))
each("floor ceil round trunc isnan isinf isfinite", unary)
each("neg abs square sign", lambda name: unary(name, dtypes=NUMBERS))
each("abs sign lgamma digamma", unary)
each("identity stop_gradient", lambda name: unary(name, dtypes=(*ALL, *HALVES)))
each("add sub mul maximum minimum", binary)
each("add sub mul maximum minimum floor_div remainder fmod", lambda name: binary(name, dtypes=NUMBERS))
each("div", lambda name: binary(name, ("normal", "positive")))
each("atan2", lambda name: binary(name, ("normal", "positive")))
each("atan2 floor_div remainder fmod", binary)
each("pow", lambda name: binary(name, ("positive", "normal")))
each("equal not_equal less less_equal greater greater_equal", lambda name: binary(name, dtypes=ALL))
each("logical_and logical_or logical_xor", lambda name: lambda d: d.call(name, x := d.any(("bool",)), d.beside(x)))
each("logical_not", lambda name: unary(name, dtypes=("bool",)))
each("bitwise_not", lambda name: unary(name, dtypes=INTS))
each(
    "bitwise_and bitwise_or bitwise_xor left_shift right_shift",
    lambda name: lambda d: d.call(name, x := d.any(INTS), other(d, x)),
)


@maker("polygamma")
def polygamma(d: Draw) -> None:
    d.call("polygamma", d.any(kind="positive"), n=d.int(1, 3))


@maker("pow")
def power(d: Draw) -> None:
    d.call("pow", d.any(), float(d.choice([0, 1, 2, 3])))


@maker("leaky_relu", "elu", "celu")
def bent(d: Draw) -> None:
    d.call(d.choice(["leaky_relu", "elu", "celu"]), d.any(), alpha=d.number(0.1, 1.7))


@maker("gelu")
def gelu(d: Draw) -> None:
    d.call("gelu", d.any(), approximate=d.choice(["none", "tanh"]))


@maker("softplus")
def softplus(d: Draw) -> None:
    d.call("softplus", d.any(), beta=d.number(0.5, 2.5))


@maker("hard_sigmoid")
def hard_sigmoid(d: Draw) -> None:
    d.call("hard_sigmoid", d.any(), alpha=d.number(0.1, 0.4), beta=d.number(0.3, 0.6))


@maker("hard_tanh")
def hard_tanh(d: Draw) -> None:
    d.call("hard_tanh", d.any(), min=d.number(-1.5, 0), max=d.number(0.1, 2))


@maker("threshold")
def threshold(d: Draw) -> None:
    d.call("threshold", d.any(), threshold=d.number(-1, 1), value=d.number(-2, 2))


@maker("prelu")
def prelu(d: Draw) -> None:
    x = d.any()
    d.call("prelu", x, d.beside(x, into=True))


@maker("glu")
def glu(d: Draw) -> None:
    shape = list(d.shape(1, 3))
    axis = d.int(-len(shape), len(shape) - 1)
    shape[axis] = 2 * d.size(1, 2)
    d.call("glu", d.tensor(shape), axis=axis)


@maker("clip")
def clip(d: Draw) -> None:
    x = d.any(d.choice([d.dtypes, NUMBERS]))
    low, high = (other(d, x, numbers=n) if d.chance(0.7) else None for n in ((-1.0, 0.0, -0.5), (1.0, 0.5, 2.0)))
    d.call("clip", x, low, high)


@maker("lerp")
def lerp(d: Draw) -> None:
    a = d.any()
    b = other(d, a)
    d.call("lerp", a, b, a if d.chance(0.1) else other(d, a))


@maker("when_training")
def when_training(d: Draw) -> None:
    x = d.any(d.choice([d.dtypes, (*ALL, *HALVES)]))
    d.call("when_training", x, d.tensor(x.shape, x.dtype))


@maker("where")
def where(d: Draw) -> None:
    a = d.any(d.choice([d.dtypes, d.dtypes, (*ALL, *HALVES)]))
    b = d.beside(a) if a.dtype in (*HALVES, "bool") else other(d, a)
    condition = d.tensor(tuple(1 if d.chance(0.2) else n for n in a.shape[d.int(0, a.rank) :]), "bool")
    d.call("where", condition, *(d.choice([(a, b), (b, a)]) if isinstance(b, Ref) else (a, b)))


@maker("cast")
def cast(d: Draw) -> None:
    x = d.any(d.choice([d.dtypes, ALL, (*ALL, *HALVES)] if d.halves else [d.dtypes, (*d.dtypes, *INTS, "bool")]))
    reals = (*d.dtypes, "bool") if x.dtype in (*FLOATS, *HALVES) else (*d.dtypes, *INTS, "bool")
    d.call("cast", x, dtype=d.choice([*reals, *(HALVES if d.halves else ())]))


@maker("cast")
def cast_back(d: Draw) -> None:
    """Cast from halves, which no other operator computes with, and from integers."""
    d.call("cast", d.any((*HALVES, *INTS, "bool") if d.halves else (*INTS, "bool")), dtype=d.floats())


@maker("bitcast")
def bitcast(d: Draw) -> None:
    d.call("bitcast", d.any(("float32", "int32", "float64", "int64", "bool")))


@maker("dequantize")
def dequantize(d: Draw) -> None:
    *leading, blocks, size = (max(extent, 1) for extent in (*d.shape(0, 2), d.size(), d.choice((1, 16, 32))))
    codes = d.tensor((*leading, blocks * size), "uint8")
    d.call("dequantize", codes, d.fresh((*leading, blocks), "float16"), bits=d.choice((8, 4)))


@maker("quantize_linear", "dequantize_linear", "requantize")
def quantize_linear(d: Draw) -> None:
    x = d.any(("float32",))
    codes = d.one("quantize_linear", x, d.fresh((), "float32", "positive"), d.fresh((), "uint8"))
    d.call("dequantize_linear", codes, d.fresh(codes.shape[-1:], "float32", "positive"), d.fresh((), "uint8"))
    sums = d.any(("int32",))
    d.call("requantize", sums, *(d.fresh((), "float32", "positive") for _ in range(3)), d.fresh((), "uint8"))


@maker("over_shards")
def over_shards(d: Draw) -> None:
    d.call("over_shards", d.any(), shards=d.int(1, 8), mean=True)


@maker("join_shards")
def join_shards(d: Draw) -> None:
    x = d.any(NUMBERS)
    d.call("join_shards", x, d.tensor(x.shape, x.dtype), first=0, middle=1, stop=d.int(2, 8))
