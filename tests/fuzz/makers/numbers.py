"""Calls that draw random numbers."""

from __future__ import annotations

from fuzz.drawing import Draw
from fuzz.makers.table import each, maker


@maker("uniform", "normal", "truncated_normal", "orthogonal")
def floats(d: Draw) -> None:
    name = d.choice(["uniform", "normal", "truncated_normal", "orthogonal"])
    shape = d.shape(0, 3)
    match name:
        case "uniform":
            how = dict(low=d.number(-2, 0), high=d.number(0.5, 2))
        case "normal":
            how = dict(mean=d.number(-1, 1), deviation=d.number(0.1, 1))
        case "truncated_normal":
            how = dict(mean=d.number(-1, 1), deviation=d.number(0.1, 1), low=-1.5, high=1.0)
        case _:
            how, shape = dict(gain=d.number(0.5, 2)), (d.int(1, 3), d.int(1, 3))
    d.call(name, shape=shape, dtype=d.floats(), **how)


@maker("bernoulli")
def bernoulli(d: Draw) -> None:
    d.call("bernoulli", shape=d.shape(), probability=d.number(0, 1), dtype=d.choice(["bool", d.floats(), "int64"]))


@maker("randint")
def randint(d: Draw) -> None:
    d.call("randint", shape=d.shape(), low=d.int(-3, 0), high=d.int(1, 9), dtype=d.choice(["int32", "int64"]))


@maker("iteration_step")
def iteration_step(d: Draw) -> None:
    d.call("iteration_step", d.below((), 9, ["int64"]), d.below((), 9, ["int64"]))


@maker("permutation")
def permutation(d: Draw) -> None:
    d.call("permutation", count=d.int(0, 5))


@maker("categorical")
def categorical(d: Draw) -> None:
    x = d.any(low=1)
    if x.shape[-1]:
        d.call("categorical", x)


each("dropout", lambda name: lambda d: d.call(name, d.any(), ratio=d.choice([0.0, 0.25, 0.5])))
each(
    "alpha_dropout",
    lambda name: lambda d: d.call(name, d.any(), ratio=d.choice([0.0, 0.25, 0.5]), linear=d.chance(0.3)),
)
each("feature_dropout", lambda name: lambda d: d.call(name, d.any(low=2), ratio=d.choice([0.25, 0.5])))
