"""Calls that arrange elements: shapes, slices, gathering and scattering."""

from __future__ import annotations

import math

from fuzz.drawing import FLOATS, HALVES, INTS, Draw, Ref
from fuzz.makers.elements import ALL
from fuzz.makers.table import each, maker


def some(d: Draw, low: int = 0, high: int = 4) -> Ref:
    """A tensor of any dtype, of floats most often."""
    return d.any(d.choice([d.dtypes, d.dtypes, d.dtypes, (*ALL, *(HALVES if d.halves else ()))]), low=low, high=high)


def computed(d: Draw, low: int = 0, high: int = 4) -> Ref:
    """Draw the same without half floats."""
    return d.any(d.choice([d.dtypes, d.dtypes, d.dtypes, ALL]), low=low, high=high)


def like(d: Draw, x: Ref, axis: int | None = None) -> Ref:
    """A tensor like x, of another extent on one axis; at times x itself."""
    if d.chance(0.3):
        return x
    shape = list(x.shape)
    if axis is not None:
        shape[axis] = d.size()
    return d.tensor(shape, x.dtype)


@maker("reshape")
def reshape(d: Draw) -> None:
    x = some(d)
    rest, shape = x.size, []
    for divisor in (2, 3):
        if rest and rest % divisor == 0 and d.chance(0.6):
            shape.append(divisor)
            rest //= divisor
    shape.insert(d.int(0, len(shape)), -1 if d.chance(0.3) and x.size else rest)
    if d.chance(0.3):
        shape.insert(d.int(0, len(shape)), 1)
    d.call("reshape", x, shape=tuple(shape))


@maker("transpose")
def transpose(d: Draw) -> None:
    x = some(d)
    d.call("transpose", x, axis=tuple(d.rng.permutation(x.rank).tolist()) if d.chance(0.8) else ())


def bounds(d: Draw, extent: int) -> tuple[int, int, int]:
    """Start, stop and stride within an extent."""
    stride = d.choice([1, 1, 1, 2, -1, -2, 3])
    a, b = sorted((d.int(0, extent), d.int(0, extent)))
    if stride > 0:
        return a, b, stride
    return (b - 1, a - 1, stride) if b else (-1, -1, stride)


@maker("slice")
def slice(d: Draw) -> None:
    x = some(d, 1)
    axes = sorted({axis % x.rank for axis in d.axes(x, some=False)})
    starts, stops, strides = zip(*(bounds(d, x.shape[axis]) for axis in axes), strict=True)
    d.call("slice", x, axis=tuple(axes), starts=starts, stops=stops, strides=strides)


@maker("unslice")
def unslice(d: Draw) -> None:
    shape = d.shape(1, 3)
    axes = sorted({d.int(0, len(shape) - 1) for _ in range(2)})
    cuts = [bounds(d, shape[axis]) for axis in axes]
    small = list(shape)
    for axis, (start, stop, stride) in zip(axes, cuts, strict=True):
        small[axis] = len(range(start, stop, stride))
    starts, stops, strides = zip(*cuts, strict=True)
    d.call("unslice", d.tensor(small), shape=shape, axis=tuple(axes), starts=starts, stops=stops, strides=strides)


@maker("pad")
def pad(d: Draw) -> None:
    x = some(d)
    before, after = (tuple(d.int(0, 2) if d.chance(0.5) else 0 for _ in x.shape) for _ in range(2))
    value = float(d.int(0, 1)) if x.dtype not in FLOATS else d.choice([0.0, 0.0, 1.5])
    d.call("pad", x, before=before, after=after, value=value)


@maker("pad_reflect", "pad_edge", "pad_wrap")
def pad_more(d: Draw) -> None:
    x = computed(d, 1)
    name = d.choice(["pad_reflect", "pad_edge", "pad_wrap"])
    most = [max(0, extent - (name == "pad_reflect")) for extent in x.shape]
    before, after = (tuple(d.int(0, min(2, n)) if d.chance(0.6) else 0 for n in most) for _ in range(2))
    d.call(name, x, before=before, after=after)


@maker("split")
def split(d: Draw) -> None:
    x = some(d, 1)
    axis = d.axis(x)
    cuts = sorted(d.int(0, x.shape[axis]) for _ in range(d.int(0, 2)))
    sizes = tuple(b - a for a, b in zip([0, *cuts], [*cuts, x.shape[axis]], strict=True))
    d.call("split", x, sizes=sizes, axis=axis)


@maker("concat")
def concat(d: Draw) -> None:
    x = some(d, 1)
    axis = d.axis(x)
    d.call("concat", x, *(like(d, x, axis) for _ in range(d.int(0, 2))), axis=axis)


@maker("stack")
def stack(d: Draw) -> None:
    x = some(d, 0, 3)
    d.call("stack", x, *(like(d, x) for _ in range(d.int(0, 2))), axis=d.int(-x.rank - 1, x.rank))


@maker("unstack")
def unstack(d: Draw) -> None:
    x = some(d, 1)
    axis = d.axis(x)
    if x.shape[axis]:
        d.call("unstack", x, axis=axis)


@maker("broadcast_to")
def broadcast_to(d: Draw) -> None:
    x = some(d, 0, 3)
    shape = [d.size() if extent == 1 and d.chance(0.7) else extent for extent in x.shape]
    d.call("broadcast_to", x, shape=(*d.shape(0, 1), *shape))


@maker("squeeze")
def squeeze(d: Draw) -> None:
    shape = [1 if d.chance(0.5) else d.size() for _ in range(d.int(1, 4))]
    ones = tuple(axis for axis, extent in enumerate(shape) if extent == 1)
    d.call("squeeze", d.tensor(shape), axis=ones if d.chance(0.5) else ())


@maker("unsqueeze")
def unsqueeze(d: Draw) -> None:
    x = some(d, 0, 3)
    d.call("unsqueeze", x, axis=(d.int(-x.rank - 1, x.rank),))


@maker("flatten")
def flatten(d: Draw) -> None:
    x = some(d, 1)
    first = d.int(0, x.rank - 1)
    d.call("flatten", x, first=first, last=d.int(first, x.rank - 1))


@maker("flip")
def flip(d: Draw) -> None:
    x = some(d)
    d.call("flip", x, axis=d.axes(x))


@maker("roll")
def roll(d: Draw) -> None:
    x = some(d, 1)
    axes = d.axes(x, some=False)
    d.call("roll", x, shifts=tuple(d.int(-4, 4) for _ in axes), axis=axes)


@maker("tile")
def tile(d: Draw) -> None:
    x = some(d, 0, 3)
    d.call("tile", x, counts=tuple(d.int(1, 3) for _ in range(x.rank + (d.int(0, 1) if x.rank else 0))))


@maker("repeat")
def repeat(d: Draw) -> None:
    x = some(d, 1, 3)
    d.call("repeat", x, count=d.int(1, 3), axis=d.axis(x))


@maker("meshgrid")
def meshgrid(d: Draw) -> None:
    xs = [d.tensor((d.size(),)) for _ in range(d.int(1, 2))]
    xs = [x for x in xs if x.dtype == xs[0].dtype]
    d.call("meshgrid", *xs, *xs[:1], indexing=d.choice(["xy", "ij"]))


@maker("space_to_depth", "pixel_unshuffle")
def to_depth(d: Draw) -> None:
    factor = d.int(1, 2)
    x = d.tensor((d.size(1, 2), factor * d.int(1, 2), factor * d.int(1, 2), d.int(1, 2)))
    name = d.choice(["space_to_depth", "pixel_unshuffle"])
    d.call(name, x, **{"block" if name == "space_to_depth" else "factor": factor})


@maker("depth_to_space", "pixel_shuffle")
def to_space(d: Draw) -> None:
    factor = d.int(1, 2)
    x = d.tensor((d.size(1, 2), d.int(1, 2), d.int(1, 2), factor * factor * d.int(1, 2)))
    name = d.choice(["depth_to_space", "pixel_shuffle"])
    d.call(name, x, **{"block" if name == "depth_to_space" else "factor": factor})


@maker("diagonal")
def diagonal(d: Draw) -> None:
    x = computed(d, 2)
    axes = tuple(d.rng.permutation(x.rank)[:2].tolist())
    d.call("diagonal", x, offset=d.int(-3, 3), axis=axes)


each("tril triu", lambda name: lambda d: d.call(name, computed(d, 2), offset=d.int(-3, 3)))


@maker("eye")
def eye(d: Draw) -> None:
    d.call("eye", shape=d.shape(2, 3), offset=d.int(-2, 2), dtype=d.choice([d.floats(), "bool", *INTS]))


@maker("gather")
def gather(d: Draw) -> None:
    x = some(d, 1, 3)
    axis = d.axis(x)
    if x.shape[axis]:
        d.call("gather", x, d.below(d.shape(0, 2), x.shape[axis]), axis=axis)


@maker("embedding")
def embedding(d: Draw) -> None:
    table = d.tensor((d.int(1, 4), d.size()))
    padding = d.choice([None, 0, table.shape[0] - 1])
    d.call("embedding", table, d.below(d.shape(0, 2), table.shape[0]), padding_index=padding)


@maker("scatter_add", "scatter")
def scatter(d: Draw) -> None:
    x = computed(d, 1, 3)
    axis = d.axis(x)
    if not x.shape[axis]:
        return
    indices = d.below(d.shape(0, 2), x.shape[axis])
    at = axis % x.rank
    updates = updating(d, x, (*x.shape[:at], *indices.shape, *x.shape[at + 1 :]))
    if d.chance(0.4) and x.dtype != "bool":
        d.call("scatter_add", x, indices, updates, axis=axis)
    else:
        d.call("scatter", x, indices, updates, axis=axis, reduction=reduced(d, x))


def updating(d: Draw, x: Ref, shape: tuple[int, ...]) -> Ref:
    return x if x.shape == shape and d.chance(0.3) else d.tensor(shape, x.dtype)


def reduced(d: Draw, x: Ref) -> str:
    return "set" if x.dtype == "bool" else d.choice(["set", "add", "max", "min", "mul"])


@maker("gather_nd", "scatter_nd")
def by_rows(d: Draw) -> None:
    x = computed(d, 1, 3)
    batch = d.int(0, x.rank - 1)
    depth = d.int(1, x.rank - batch)
    least = min(x.shape[batch : batch + depth])
    if not least:
        return
    indices = d.below((*x.shape[:batch], *d.shape(0, 2), depth), least)
    parts = (*indices.shape[:-1], *x.shape[batch + depth :])
    if d.chance(0.4):
        d.call("gather_nd", x, indices, batch_axes=batch)
    elif math.prod(parts) <= 200:
        d.call("scatter_nd", x, indices, updating(d, x, parts), batch_axes=batch, reduction=reduced(d, x))


@maker("is_last_index")
def is_last_index(d: Draw) -> None:
    shape = tuple(extent or 1 for extent in d.shape(1, 3))
    depth = d.int(1, len(shape))
    d.call("is_last_index", d.below((d.size(), depth), min(shape[:depth])), shape=shape)


@maker("take_along_axis", "put_along_axis")
def along_axis(d: Draw) -> None:
    x = computed(d, 1, 3)
    axis = d.axis(x)
    if not x.shape[axis]:
        return
    shape = [1 if d.chance(0.2) else extent for extent in x.shape]
    shape[axis] = d.size()
    indices = d.below(shape, x.shape[axis])
    if d.chance(0.4):
        d.call("take_along_axis", x, indices, axis=axis)
        return
    wide = list(x.shape)
    wide[axis] = shape[axis]
    updates = d.tensor([1 if d.chance(0.2) else extent for extent in wide], x.dtype)
    d.call("put_along_axis", x, indices, updates, axis=axis, reduction=reduced(d, x))


@maker("full")
def full(d: Draw) -> None:
    dtype = d.choice([d.floats(), "bool", *INTS])
    value = d.choice([0.0, 1.0, -0.5, 2.0]) if dtype in FLOATS else float(d.int(0, 1))
    d.call("full", shape=d.shape(), value=value, dtype=dtype)


@maker("size")
def size(d: Draw) -> None:
    d.call("size", shape=d.shape(), dtype=d.choice([d.floats(), *INTS]))


@maker("range")
def number_range(d: Draw) -> None:
    start, step = d.choice([0.0, 1.0, 2.0]), d.choice([1.0, 2.0])
    d.call("range", stop=start + step * d.int(0, 5), start=start, step=step, dtype=d.choice([d.floats(), *INTS]))


@maker("linspace")
def linspace(d: Draw) -> None:
    d.call("linspace", start=d.number(-1, 0), stop=d.number(0, 2), count=d.int(0, 5), dtype=d.floats())
