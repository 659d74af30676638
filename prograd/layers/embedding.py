"""Embedding lookup, and position embeddings of a sequence."""

from __future__ import annotations

from typing import Literal

from prograd import Program, Value, normal, ops
from prograd.layers.asked import Initial, channels, layer, program_of, refuse


@layer
def embedding(
    indices: Value,
    name: str,
    count: int,
    size: int,
    *,
    initial: Initial = None,
    padding_index: int | None = None,
    dtype: Literal["float32", "float64"] = "float32",
) -> Value:
    """Return the rows of a trained table at `indices` [...], as [..., size].

    Args:
        indices: integers, each from 0 to count - 1; their program declares the parameter `name.table` [count, size].
        name: name of the layer.
        count: number of rows.
        size: size of a row.
        initial: initial value of the table; normal with deviation 1 by default.
        padding_index: a row that is read like any other and not trained.
        dtype: dtype of the table.
    """
    program = program_of(f"embedding {name!r}", indices)
    table = program.parameter(f"{name}.table", (count, size), initial or normal(0.0, 1.0), dtype=dtype)
    return ops.embedding(table, indices, padding_index=padding_index)


@layer
def positions(x: Value, name: str, *, count: int = 0, initial: Initial = None) -> Value:
    """Return x [n, l, c] with a trained row of a table added at each position.

    Declares the parameter `name.table` [count, c], by default normal with deviation 0.02. `count` defaults to l; give
    more if other entries or bindings have longer sequences.
    """
    what = f"positions {name!r}"
    program, size, length = program_of(what, x), channels(what, x, rank=3), x.shape[-2]
    if not count and isinstance(length, str):
        refuse(x, f"{what}: x is {x.type}, whose length is a symbol; give count, the longest length there is")
    if isinstance(length, int) and 0 < count < length:
        refuse(x, f"{what}: count={count} places are fewer than the {length} of x, which is {x.type}")
    table = program.parameter(
        f"{name}.table", (count or int(length), size), initial or normal(0.0, 0.02), dtype=x.dtype
    )
    if table.shape[0] == length:
        return x + table
    return x + ops.gather(table, places(program, length))


@layer
def sinusoidal_positions(x: Value, *, base: float = 10000.0) -> Value:
    """Return x [n, l, c] plus sines and cosines of each position: Vaswani et al., 2017. No states."""
    what = "sinusoidal_positions"
    size, numbers = channels(what, x, rank=3), places(program_of(what, x), x.shape[-2])
    return x + ops.sinusoidal_positions(numbers, size=size, base=base, dtype=x.dtype)


def places(program: Program, length: int | str) -> Value:
    """Return the positions 0, 1, 2 ... of a sequence; its length may be a symbol."""
    if isinstance(length, int):
        return ops.range.on(program)(stop=length)
    return ops.cumsum(ops.full.on(program)(shape=(length,), value=1, dtype="int64"), exclusive=True)
