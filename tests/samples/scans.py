"""Samples of reductions beyond those of samples/__init__.py, of scans and of sorting."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from samples.operands import bools, distinct, ints, sample, typed

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
    *(sample(op, (2, 3, 4)) for op in ("logsumexp", "variance", "standard_deviation")),
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

FORMS = [dict(axis=axis, descending=descending) for axis in (1, -1) for descending in (False, True)]
EACH_DTYPE = ("float32", "int32", "int64", "uint8")

ORDER = [
    *(sample("sort", distinct((2, 5, 3)), **form) for form in FORMS),
    *(sample("argsort", distinct((2, 5, 3)), order=0, **form) for form in FORMS),
    *(
        sample("topk", distinct((2, 5, 3)), k=k, axis=axis, largest=largest)
        for k in (1, 2)
        for axis in (1, -1)
        for largest in (False, True)
    ),
    *(sample("topk", distinct((2, 3)), k=k) for k in (0, 3)),
    *(sample(op, typed(dtype, (3, 6)), order=0) for op in ("sort", "argsort") for dtype in EACH_DTYPE),
    *(
        sample("topk", typed(dtype, (3, 6)), k=2, largest=largest, order=0)
        for dtype in EACH_DTYPE
        for largest in (False, True)
    ),
    *(sample(op, (0, 3), order=0) for op in ("sort", "argsort")),
    *(sample(op, (2, 0), order=0) for op in ("sort", "argsort")),
    *(sample("count_unique", typed(dtype, (3, 6)), order=0) for dtype in EACH_DTYPE),
    sample("count_unique", (0,), order=0),
    sample("bincount", ints((2, 6), 5), depth=5, order=0),
    sample("bincount", replace(ints((6,), 3), dtype="int32"), depth=3, order=0),
]

SAMPLES = [*ORDER, *REDUCE, *STATISTICS, *SCAN]

LARGE = [
    *(
        sample(op, typed(dtype, WIDE), axis=axis, descending=descending)
        for op in ("sort", "argsort")
        for dtype in ("float64", "int64")
        for axis in (0, 1)
        for descending in (False, True)
    ),
    *(sample("argsort", typed(dtype, (60000,))) for dtype in ("float32", "float64", "int64")),
    *(
        sample("topk", typed(dtype, WIDE), k=150, axis=axis, largest=largest)
        for dtype in ("float32", "int64")
        for axis in (0, 1)
        for largest in (False, True)
    ),
    *(sample("count_unique", typed(dtype, WIDE)) for dtype in ("float64", "int32")),
    *(sample("bincount", replace(ints((40000,), 50), dtype=dtype), depth=50) for dtype in ("int32", "int64")),
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
