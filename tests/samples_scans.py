"""Samples of reductions beyond those of samples.py, of scans and of sorting."""

from __future__ import annotations

from math import inf

from operands import bools, distinct, sample, typed

WIDE = (200, 300)

NORMS = (2.0, 1.0, inf, -inf, 3.0, 1.5, -1.0)

REDUCE = [
    *(sample(op, distinct((2, 3, 4))) for op in ("prod", "min")),
    *(sample(op, distinct((2, 3, 4)), axes=(1,)) for op in ("prod", "min")),
    *(sample(op, distinct((2, 3, 4)), axes=(-1, 0), keepdims=True) for op in ("prod", "min")),
    *(sample(op, distinct(())) for op in ("prod", "min")),
    sample("prod", (0, 3), axes=(0,)),
    *(sample("prod", typed(dtype, (3, 4)), axes=(1,), order=0) for dtype in ("int32", "int64", "uint8", "bool")),
    *(sample("min", typed(dtype, (3, 4)), axes=(1,), order=0) for dtype in ("int32", "uint8", "bool")),
    sample("argmin", (3, 4), order=0),
    sample("argmin", (3, 4, 2), axis=1, order=0),
    *(sample(op, bools((3, 4)), axes=axes, order=0) for op in ("any", "all") for axes in ((), (0,), (-1,))),
    sample("any", bools((3, 4, 2)), axes=(0, 2), keepdims=True, order=0),
]

STATISTICS = [
    *(sample(op, (2, 3, 4), order=3) for op in ("logsumexp", "variance", "standard_deviation")),
    *(sample(op, (2, 3, 4), axes=(1,)) for op in ("logsumexp", "variance", "standard_deviation")),
    *(sample(op, (2, 3, 4), axes=(-1, 0), keepdims=True) for op in ("logsumexp", "variance", "standard_deviation")),
    *(sample(op, (2, 3, 4), axes=(1, 2), correction=1) for op in ("variance", "standard_deviation")),
    sample("logsumexp", ()),
    *(sample("norm", distinct((2, 5)), ord=p, axes=axes) for p in NORMS for axes in ((), (1,))),
    sample("norm", distinct((2, 3, 4)), ord=3.0, axes=(-1, 0), keepdims=True),
    sample("norm", distinct((2, 3)), ord=0.0, order=0),
]

SCAN = [
    *(
        sample(op, (2, 4, 3), axis=axis, exclusive=exclusive, reverse=reverse)
        for op in ("cumsum", "cumprod")
        for axis in (1, -1)
        for exclusive in (False, True)
        for reverse in (False, True)
    ),
    sample("cumsum", (5,), axis=0),
    sample("cumsum", (0, 2), axis=0, exclusive=True),
    *(sample(op, (2, 1)) for op in ("cumsum", "cumprod")),
    *(
        sample(op, typed(dtype, (3, 4)), exclusive=exclusive, order=0)
        for op in ("cumsum", "cumprod")
        for dtype in ("int32", "uint8", "bool")
        for exclusive in (False, True)
    ),
    *(sample("linear_scan", (2, 7, 3), (2, 7, 3), axis=1, reverse=reverse) for reverse in (False, True)),
    *(sample("linear_scan", (2, n), (2, n)) for n in (1, 2, 5, 8)),
]

SAMPLES = [*REDUCE, *STATISTICS, *SCAN]

LARGE = [
    *(
        sample(op, WIDE, axes=axes)
        for op in ("prod", "min", "logsumexp", "variance", "standard_deviation", "norm")
        for axes in ((), (0,), (1,))
    ),
    *(sample("norm", WIDE, ord=p) for p in NORMS),
    *(sample("prod", typed(dtype, (400, 300)), axes=axes) for dtype in ("uint8", "int32") for axes in ((0,), (1,))),
    *(sample("argmin", WIDE, axis=axis) for axis in (0, 1)),
    *(sample(op, bools((400, 300)), axes=axes) for op in ("any", "all") for axes in ((), (0,), (1,))),
    *(
        sample(op, WIDE, axis=axis, exclusive=exclusive, reverse=reverse)
        for op in ("cumsum", "cumprod")
        for axis in (0, 1)
        for exclusive in (False, True)
        for reverse in (False, True)
    ),
    *(sample(op, typed(dtype, WIDE)) for op in ("cumsum", "cumprod") for dtype in ("int32", "uint8")),
    *(sample("linear_scan", WIDE, WIDE, axis=axis, reverse=reverse) for axis in (0, 1) for reverse in (False, True)),
]
