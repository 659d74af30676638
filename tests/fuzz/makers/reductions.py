"""Calls of reductions, scans, sorting and norms."""

from __future__ import annotations

from math import inf

from fuzz.drawing import INTS, Draw
from fuzz.makers.elements import ALL, NUMBERS
from fuzz.makers.table import Maker, each, maker


def reduction(name: str, dtypes: tuple[str, ...] | None = None, *, filled: bool = False) -> Maker:
    def make(d: Draw) -> None:
        x = d.any(dtypes if dtypes and d.chance(0.4 if dtypes != ("bool",) else 1) else None, filled=filled)
        d.call(name, x, axis=d.axes(x), keepdims=d.chance(0.5))

    return make


each("sum prod", lambda name: reduction(name, ALL))
each("mean logsumexp", lambda name: reduction(name, filled=name == "mean"))
each("max min", lambda name: reduction(name, ALL, filled=True))
each("any all", lambda name: reduction(name, ("bool",)))


@maker("variance", "standard_deviation")
def spread(d: Draw) -> None:
    x = d.any(low=1, filled=True)
    d.call(
        d.choice(["variance", "standard_deviation"]),
        x,
        axis=d.axes(x),
        keepdims=d.chance(0.5),
        correction=float(d.choice([0, 0, 1, 0.5])),
    )


@maker("norm")
def norm(d: Draw) -> None:
    x = d.any(filled=True)
    ord = d.choice([2.0, 2.0, 1.0, 3.0, 1.5, inf, -inf, -1.0, 0.0, 0.5])
    d.call("norm", x, ord=ord, axis=d.axes(x), keepdims=d.chance(0.5))


@maker("argmax", "argmin")
def place(d: Draw) -> None:
    x = d.any(d.choice([d.dtypes, NUMBERS]), low=1, filled=True)
    d.call(d.choice(["argmax", "argmin"]), x, axis=d.axis(x))


@maker("cumsum", "cumprod")
def scan(d: Draw) -> None:
    x = d.any(ALL if d.chance(0.2) else None, low=1)
    name = d.choice(["cumsum", "cumprod"])
    d.call(name, x, axis=d.axis(x), exclusive=d.chance(0.4), reverse=d.chance(0.4))


@maker("linear_scan")
def linear_scan(d: Draw) -> None:
    a = d.any(low=1)
    b = a if d.chance(0.15) else d.tensor(a.shape, a.dtype)
    d.call("linear_scan", a, b, axis=d.axis(a), reverse=d.chance(0.5))


@maker("sort", "argsort")
def sort(d: Draw) -> None:
    x = d.any(NUMBERS if d.chance(0.25) else None, low=1)
    d.call(d.choice(["sort", "sort", "argsort"]), x, axis=d.axis(x), descending=d.chance(0.5))


@maker("topk")
def topk(d: Draw) -> None:
    x = d.any(NUMBERS if d.chance(0.2) else None, low=1)
    axis = d.axis(x)
    d.call("topk", x, k=d.int(0, x.shape[axis]), axis=axis, largest=d.chance(0.5))


@maker("count_unique")
def count_unique(d: Draw) -> None:
    d.call("count_unique", d.any(NUMBERS))


@maker("nonzero", "unique")
def nonzero(d: Draw) -> None:
    x = d.any(NUMBERS, low=1)
    count = d.int(1, 6)
    if d.chance(0.5):
        d.call("nonzero", x, count=count)
    else:
        d.call("unique", x, count=count, axis=d.axis(x) if d.chance(0.5) else None, sorted=d.chance(0.5))


@maker("bincount")
def bincount(d: Draw) -> None:
    depth = d.int(1, 5)
    d.call("bincount", d.below(d.shape(0, 2), depth), depth=depth)


@maker("one_hot")
def one_hot(d: Draw) -> None:
    depth = d.int(1, 5)
    d.call("one_hot", d.below(d.shape(0, 2), depth), depth=depth, dtype=d.choice([d.floats(), "bool", *INTS]))
