"""Moves of elements: transposes, parts, padding, windows, and rows at indices."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from compiler import Value, ops
from fuzz.large.case import Case, Draw, Operand
from fuzz.large.rows import shaped


def move(draw: Draw) -> Case:
    """Return one move or two of a tensor with a long axis."""
    shape = shaped(draw)
    rank = len(shape)
    axis, order = draw.pick(range(rank)), tuple(int(axis) for axis in draw.rng.permutation(rank))
    inverse = tuple(order.index(axis) for axis in range(rank))
    extent, shift, stride = shape[axis], draw.pick((1, 3, 16, 17, 64)), draw.pick((1, 2, 3, 7))
    begin, before = min(shift, extent - 1), tuple(shift if each == axis else 0 for each in range(rank))
    window, twice = (1, min(3, shape[0])), tuple(2 if each == axis else 1 for each in range(rank))

    def twice_transposed(x: Value) -> Value:
        return ops.transpose(ops.transpose(x, axis=order), axis=inverse)

    moves: dict[str, Callable[[Value], Value]] = {
        "transpose": lambda x: ops.transpose(x, axis=order),
        "flip": lambda x: ops.flip(x, axis=(axis,)),
        "roll": lambda x: ops.roll(x, shifts=(shift,), axis=(axis,)),
        "slice": lambda x: ops.slice(x, axis=(axis,), starts=(begin,), stops=(extent,), strides=(stride,)),
        "pad": lambda x: ops.pad(x, before=before, after=before[::-1]),
        "repeat": lambda x: ops.repeat(x, count=2, axis=axis),
        "concat": lambda x: ops.concat(x, twice_transposed(x), x, axis=axis),
        "tile": lambda x: ops.tile(x, counts=twice),
        "unfold": lambda x: ops.unfold(
            ops.reshape(x, shape=(1, 1, shape[0], prod(shape[1:]))), window=window, padding=(0, 1, 0, 1)
        ),
    }
    name = draw.pick(("transpose", *moves))
    label = f"{name}, axis={axis}, order={order}, shift={shift}, stride={stride}"
    return Case(label, {"x": Operand(shape)}, lambda x: [moves[name](x["x"])], is_exact=True)


def indexed(draw: Draw) -> Case:
    """Return rows at indices, sums at indices, or codes as rows."""
    table, count, size = draw.small(), draw.small(), draw.small(65)
    axis = draw.pick(("table", "count", "size", "both"))
    table = draw.large() if axis in ("table", "both") else table
    count = draw.large() if axis in ("count", "both") else count
    size = draw.large() if axis == "size" else draw.pick((1, 1, 2, 3, 8, 17)) if axis == "both" else size
    size = max(min(size, 3_000_000 // max(table, count)), 1)
    name = draw.pick(("gather", "gather", "scatter_add", "one_hot", "bincount", "take_along_axis", "is_last_index"))
    indices = Operand((count,), f"below {table}")
    if name == "gather":
        operands = {"x": Operand((table, size)), "i": indices}
        return Case(name, operands, lambda x: [ops.gather(x["x"], x["i"])], is_exact=True)
    if name == "scatter_add":
        operands = {"x": Operand((table, size)), "i": indices, "u": Operand((count, size))}
        return Case(name, operands, lambda x: [ops.scatter_add(x["x"], x["i"], x["u"])], is_exact=True)
    if name == "take_along_axis":
        operands = {"x": Operand((size, table)), "i": Operand((size, count), f"below {table}")}
        return Case(name, operands, lambda x: [ops.take_along_axis(x["x"], x["i"])], is_exact=True)
    if name == "one_hot":
        depth = min(table, max(3_000_000 // count, 1))
        operands = {"i": Operand((count,), f"below {depth}")}
        return Case(name, operands, lambda x: [ops.one_hot(x["i"], depth=depth)], has_gradients=False, is_exact=True)
    if name == "bincount":
        return Case(
            name, {"i": indices}, lambda x: [ops.bincount(x["i"], depth=table)], has_gradients=False, is_exact=True
        )
    operands = {"i": Operand((count, 1), f"below {table}")}
    return Case(
        name, operands, lambda x: [ops.is_last_index(x["i"], shape=(table,))], has_gradients=False, is_exact=True
    )


MAKERS = (move, move, indexed, indexed)
