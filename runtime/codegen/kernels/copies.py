"""Contiguous elements, copied or filled as vectors."""

from __future__ import annotations

from typing import Final

from runtime.codegen.ir import Function, Type, Value

VECTORS_PER_ITERATION: Final = 8
"""Number of vectors that one iteration copies."""


def copied(f: Function, source: Value, to: Value, count: int, vector: Type) -> None:
    """Copy `count` elements."""
    whole = count // vector.lanes * vector.lanes
    many = whole // (vector.lanes * VECTORS_PER_ITERATION) * vector.lanes * VECTORS_PER_ITERATION
    for start, stop, abreast in ((0, many, VECTORS_PER_ITERATION), (many, whole, (whole - many) // vector.lanes)):
        for i in f.range(start, stop, max(abreast, 1) * vector.lanes):
            copies = [f.load(source, i + v * vector.lanes, vector.lanes) for v in range(abreast)]
            for v, x in enumerate(copies):
                f.store(x, to, i + v * vector.lanes)
    if tail := count - whole:
        f.store(f.load(source, whole, vector.lanes, tail), to, whole, tail)


def zeros(f: Function, to: Value, count: int, vector: Type) -> None:
    """Write `count` zeros."""
    filled(f, to, count, f.constant(vector, 0))


def filled(f: Function, to: Value, count: int, vector: Value) -> None:
    """Write `count` elements, which are equal in all lanes of a vector."""
    lanes = vector.type.lanes
    whole = count // lanes * lanes
    for i in f.range(0, whole, lanes):
        f.store(vector, to, i)
    if tail := count - whole:
        f.store(vector, to, whole, tail)
