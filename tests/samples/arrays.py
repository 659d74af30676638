"""Samples of diagonals, ranges, elements by number, windows of images and decompositions."""

from __future__ import annotations

from samples.operands import Operand, bools, definite, distinct, ints, regular, sample, typed

WIDE = (200, 300)

DIAGONALS = [
    *(sample(op, (3, 4), offset=offset) for op in ("tril", "triu") for offset in (-1, 0, 2)),
    *(sample(op, (2, 4, 3), offset=-9) for op in ("tril", "triu")),
    *(sample(op, (5, 0, 3)) for op in ("tril", "triu")),
    *(sample(op, bools((3, 3)), offset=1, order=0) for op in ("tril", "triu")),
    *(sample("eye", shape=(3, 4), offset=offset, order=0) for offset in (-3, -1, 0, 2, 4)),
    sample("eye", shape=(2, 4, 3), dtype="bool", offset=1, order=0),
    sample("eye", shape=(0, 2), dtype="int32", order=0),
]

RANGES = [
    sample("range", stop=5, order=0),
    sample("range", start=2.5, stop=-1, step=-0.5, dtype="float32", order=0),
    sample("range", start=3, stop=3, dtype="uint8", order=0),
    sample("linspace", start=-1, stop=2, count=7, order=0),
    *(sample("linspace", start=0.1, stop=0.7, count=count, dtype="float64", order=0) for count in (0, 1, 2)),
]

REDUCTIONS = ["set", "add", "max", "min", "mul"]

SCATTER = [
    sample("gather_nd", (4, 3), ints((5, 1), 4)),
    sample("gather_nd", (4, 3), Operand((2, 5, 2), "int32", "below", 3)),
    sample("gather_nd", (5, 4, 3, 2), ints((5, 2, 2), 3), batch_axes=1),
    sample("gather_nd", (2, 3, 4), ints((2, 3, 6, 1), 4), batch_axes=2),
    sample("gather_nd", (4,), ints((1,), 4)),
    sample("gather_nd", (0, 3), ints((0, 2), 3)),
    sample("gather_nd", bools((4, 3)), ints((5, 1), 4), order=0),
    *(
        sample("scatter_nd", x, indices, distinct(updates), batch_axes=batch, reduction=reduction)
        for reduction in REDUCTIONS
        for x, indices, updates, batch in (
            ((4, 3), ints((5, 1), 4), (5, 3), 0),
            ((4, 3), Operand((6, 2), "int32", "below", 3), (6,), 0),
            ((5, 4, 2), ints((5, 3, 1), 4), (5, 3, 2), 1),
            ((2, 3, 4), ints((2, 3, 6, 1), 4), (2, 3, 6), 2),
            ((4, 3), ints((0, 1), 4), (0, 3), 0),
        )
    ),
    sample("scatter_nd", typed("uint8", (4,)), ints((5, 1), 4), typed("uint8", (5,)), reduction="max", order=0),
    sample("scatter_nd", bools((4,)), ints((5, 1), 4), bools((5,)), order=0),
    sample("is_last_index", ints((7, 2), 3), shape=(3, 4, 5), order=0),
    sample("is_last_index", Operand((5, 6, 1), "int32", "below", 3), shape=(5, 3), batch_axes=1, order=0),
    sample("is_last_index", ints((0, 1), 3), shape=(3,), order=0),
]

FOLDS = [
    # the image, what is under the window at its places, the window
    ((3, 4, 5, 2), (3, 3, 4, 8), dict(window=(2, 2))),
    ((1, 5, 4, 3), (1, 3, 2, 18), dict(window=(3, 2), stride=(2, 3), padding=(1, 1, 1, 0))),
    ((3, 5, 6, 1), (3, 1, 2, 4), dict(window=(2, 2), stride=(1, 3), dilation=(4, 2))),
    ((0, 4, 4, 2), (0, 3, 3, 8), dict(window=(2, 2))),
]

UNFOLD = [
    *(sample("unfold", x, **window) for x, _, window in FOLDS),
    *(sample("fold", y, shape=x, **window) for x, y, window in FOLDS),
    sample("unfold", bools((2, 3, 3, 1)), window=(2, 2), padding=(1, 1), order=0),
]

TRIANGLES = [
    dict(lower=lower, transpose=transpose, unit_diagonal=unit)
    for lower in (True, False)
    for transpose in (True, False)
    for unit in (True, False)
]

SQUARES = [(1, 1), (3, 3), (2, 4, 4), (0, 3, 3), (2, 0, 0)]

DECOMPOSITION = [
    *(sample("cholesky", definite(shape)) for shape in SQUARES),
    *(sample(op, regular(shape)) for op in ("inverse", "determinant", "log_determinant") for shape in SQUARES),
    sample("cholesky", regular((4, 4))),  # not symmetric
    *(sample("triangular_solve", regular((4, 4)), (4, 2), **attributes) for attributes in TRIANGLES),
    *(sample("triangular_solve", regular((5, 1, 3, 3)), (2, 3, 4), **attributes) for attributes in TRIANGLES[::3]),
    *(
        sample(op, regular(a), b)
        for op in ("triangular_solve", "solve")
        for a, b in (
            ((3, 3), (3, 1)),
            ((3, 3), (2, 5, 3, 2)),
            ((5, 3, 3), (5, 3, 2)),
            ((5, 1, 2, 2), (3, 2, 4)),
            ((0, 2, 2), (2, 1)),
            ((2, 2), (2, 0)),
        )
    ),
    *(sample(op, regular((3, 3), "float32"), order=0) for op in ("inverse", "determinant", "log_determinant")),
    sample("cholesky", definite((2, 3, 3), "float32"), order=0),
]

ORTHOGONAL = [
    *(sample("eigh", regular(shape)) for shape in SQUARES),
    *(
        sample(op, shape)
        for op in ("qr", "svd", "pseudo_inverse")
        for shape in ((1, 1), (3, 3), (2, 4, 2), (2, 2, 4), (0, 3, 2), (3, 0))
    ),
    *(sample("qr", shape, complete=True) for shape in ((3, 3), (2, 4))),
    sample("qr", (4, 2), complete=True, order=0),
    sample("pseudo_inverse", (4, 3), absolute=0.01),
    *(sample(op, typed("float32", (2, 4, 3)), order=0) for op in ("qr", "svd", "pseudo_inverse")),
    sample("eigh", typed("float32", (2, 3, 3)), order=0),
]

SAMPLES = [*DIAGONALS, *RANGES, *SCATTER, *UNFOLD, *DECOMPOSITION, *ORTHOGONAL]

LARGE = [
    *(sample(op, WIDE) for op in ("tril", "triu")),
    sample("eye", shape=WIDE),
    sample("range", stop=20000),
    sample("linspace", start=0, stop=1, count=20000),
    *(sample("gather_nd", (200, 3), Operand((20000, 1), dtype, "below", 200)) for dtype in ("int32", "int64")),
    sample("gather_nd", (200, 300), ints((20000, 2), 200)),
    sample("gather_nd", WIDE, ints((200, 300, 1), 300), batch_axes=1),
    *(
        sample("scatter_nd", (200, 3), Operand((20000, 1), dtype, "below", 200), (20000, 3), reduction=reduction)
        for dtype in ("int32", "int64")
        for reduction in REDUCTIONS
    ),
    *(sample("scatter_nd", WIDE, ints((20000, 2), 200), (20000,), reduction=r) for r in REDUCTIONS),
    sample("is_last_index", ints((20000, 2), 200), shape=(200, 300, 4)),
    sample("unfold", (8, 28, 28, 16), window=(3, 3), padding=(1, 1)),
    sample("fold", (8, 28, 28, 144), shape=(8, 28, 28, 16), window=(3, 3), padding=(1, 1)),
    *(
        sample(op, regular(shape))
        for op in ("inverse", "determinant", "log_determinant")
        for shape in ((150, 150), (20000, 3, 3), (40, 50, 50))
    ),
    *(sample("cholesky", definite(shape)) for shape in ((150, 150), (20000, 3, 3), (40, 50, 50))),
    *(
        sample("triangular_solve", regular((150, 150)), (150, 200), lower=lower, transpose=transpose)
        for lower in (True, False)
        for transpose in (True, False)
    ),
    *(
        sample(op, regular(a), b)
        for op in ("triangular_solve", "solve")
        for a, b in (((150, 150), (150, 200)), ((20000, 3, 3), (20000, 3, 2)), ((40, 40), (20, 40, 50)))
    ),
    *(sample(op, shape) for op in ("qr", "svd", "pseudo_inverse") for shape in ((300, 40), (48, 240), (10000, 3, 3))),
    *(sample("eigh", shape) for shape in ((96, 96), (10000, 3, 3))),
]
