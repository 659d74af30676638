"""Calls of products, decompositions and einsum."""

from __future__ import annotations

from fuzz.drawing import INTS, Draw, Ref
from fuzz.makers.table import each, maker


@maker("matmul")
def matmul(d: Draw) -> None:
    m, k, n = d.size(), d.size(), d.size()
    lead = d.shape(0, 2)
    left, right = (lead[d.int(0, len(lead)) :] for _ in range(2))
    right = tuple(1 if d.chance(0.2) else extent for extent in right)
    a, b = d.chance(0.4), d.chance(0.4)
    x = d.tensor((*left, *((k, m) if a else (m, k))))
    shape = (*right, *((n, k) if b else (k, n)))
    y = x if shape == x.shape and d.chance(0.3) else d.tensor(shape, x.dtype)
    d.call("matmul", x, y, transpose_a=a, transpose_b=b)


@maker("outer_sum")
def outer_sum(d: Draw) -> None:
    a = d.any(low=2)
    b = a if d.chance(0.2) else d.tensor((*a.shape[:-1], d.size()), a.dtype)
    d.call("outer_sum", a, b)


@maker("outer")
def outer(d: Draw) -> None:
    a = d.tensor((d.size(),))
    d.call("outer", a, a if d.chance(0.2) else d.tensor((d.size(),), a.dtype))


EQUATIONS = (
    *("ij,jk->ik", "ij,ij->", "ii->i", "ii", "ij->ji", "i,j->ij", "bij,bjk->bik", "bij,kj->bik", "ijk->k"),
    *("i,i,i->i", "ij,jk,kl->il", "ijj->i", "bhqd,bhkd->bhqk", "...i,...i->...", "i...->...", "ij,i->j"),
    *("abc,cd,bd->a", "ab,bc,ca->", "ij,ik->jk"),
)


@maker("einsum")
def einsum(d: Draw) -> None:
    equation = d.choice(EQUATIONS)
    sizes = {letter: d.size(1, 3) for letter in "abcdefghijklqbk"}
    dots = d.shape(0, 1)
    dtype = d.floats() if d.chance(0.9) else d.choice(INTS)
    terms = equation.split("->")[0].split(",")
    shapes = [
        (
            *(sizes[c] for c in term.partition("...")[0]),
            *(dots if "..." in term else ()),
            *(sizes[c] for c in term.partition("...")[2]),
        )
        for term in terms
    ]
    xs = [d.tensor(shape, dtype) for shape in shapes]
    d.call("einsum", equation, *xs)


def square(d: Draw, kind: str) -> tuple[int, ...]:
    n = d.size(1, 3)
    return (*d.shape(0, 1), n, n)


each(
    "inverse determinant log_determinant", lambda name: lambda d: d.call(name, d.tensor(square(d, ""), kind="regular"))
)
each("eigh", lambda name: lambda d: d.call(name, d.tensor(square(d, ""), kind="regular")))


@maker("qr", "svd", "pseudo_inverse")
def rectangular(d: Draw) -> None:
    x = d.tensor((*d.shape(0, 1), d.size(1, 3), d.size(1, 3)), kind="distinct")
    name = d.choice(("qr", "svd", "pseudo_inverse"))
    if name == "qr":
        d.call(name, x, complete=x.shape[-2] <= x.shape[-1] and d.chance(0.5))
    else:
        d.call(name, x)


each("cholesky", lambda name: lambda d: d.call(name, d.tensor(square(d, ""), kind="definite")))


@maker("solve", "triangular_solve")
def solve(d: Draw) -> None:
    shape = square(d, "")
    a = d.tensor(shape, kind="regular")
    lead = shape[:-2] if d.chance(0.7) else ()
    b = a if d.chance(0.1) else d.tensor((*lead, shape[-1], d.size()), a.dtype)
    if d.chance(0.5):
        d.call("solve", a, b)
    else:
        flags = {name: d.chance(0.5) for name in ("lower", "transpose", "unit_diagonal")}
        d.call("triangular_solve", a, b, **flags)


@maker("sparse_matmul", "sparse_outer_sum")
def sparse(d: Draw) -> None:
    rows, count, width, size = d.size(), d.size(), d.size(), d.int(1, 6)
    values = d.tensor((rows, count))
    positions = d.below((rows, count), size)
    if d.chance(0.5):
        d.call("sparse_matmul", positions, values, d.tensor((size, width), values.dtype))
    else:
        d.call("sparse_outer_sum", positions, values, d.tensor((rows, width), values.dtype), size=size)


@maker("integer_matmul")
def integer_matmul(d: Draw) -> None:
    *leading, m, k, n = (*d.shape(0, 1), d.size(), d.size(), d.size())
    w = (*leading, k, n) if d.chance(0.3) else (k, n)
    zeros = (n,) if d.chance(0.3) else ()
    requantised(d, d.one("integer_matmul", *(d.fresh(s, "uint8") for s in ((*leading, m, k), w, (), zeros))))


def requantised(d: Draw, sums: Ref) -> None:
    """Requantise sums, mostly."""
    if d.chance(0.8):
        scales = [d.fresh(shape, "float32", "positive") for shape in ((), sums.shape[-1:], ())]
        d.call("requantize", sums, *scales, d.fresh((), "uint8"))
