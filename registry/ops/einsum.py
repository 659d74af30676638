"""Sums of products in Einstein notation, composed of matmul, transpose, reshape and sum; none has a kernel."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from prograd_proto import dtypes
from prograd_proto.result_types.shapes import joined_extent, require_dtype, require_equal_dtypes
from prograd_proto.tensor_types import Shape
from registry.errors import require
from registry.ops.copy import cast
from registry.ops.diagonals import diagonal
from registry.ops.linalg import matmul, outer_sum
from registry.ops.pointwise import mul
from registry.ops.reduce import sum
from registry.ops.shape import reshape, transpose
from registry.spelled import spelled
from registry.value import Value

SYMBOL_SIZE = 64
"""Size that an extent without a known size counts as when contraction orders are compared."""

SEARCHED = 5
"""Upper bound on the tensors for an exhaustive search of contraction orders; beyond it the search is greedy."""


@spelled
def einsum(equation: str, *xs: Value) -> Value:
    """Return the sum of products of an equation as in NumPy's einsum: "ij,jk->ik" is the product of matrices.

    A term names the axes of each tensor by letters. Equal letters are one index; within a term they take a diagonal.
    Indices that the output does not name are summed over. Without "->" the output has, in alphabetical order, the
    letters that occur once. "..." stands for any further axes, which broadcast; an extent of 1 fits any other.
    """
    terms, output = _parsed(equation, xs)
    require_equal_dtypes(*(x.type for x in xs))
    require_dtype(xs[0], dtypes.INTEGERS | dtypes.FLOATS)
    factors = [_without_repetition(x, term) for x, term in zip(xs, terms, strict=True)]
    factors = _without_ones(factors)
    order = _places(output, factors)
    for i, factor in enumerate(factors):
        kept = {*output}.union(*(other.labels for j, other in enumerate(factors) if j != i))
        factors[i] = _summed(factor, [label for label in factor.labels if label not in kept])
    for i, j in _cheapest([frozenset(factor.labels) for factor in factors], frozenset(output), _sizes(factors))[1]:
        b, a = factors.pop(j), factors.pop(i)
        kept = {*output}.union(*(factor.labels for factor in factors))
        factors.append(_contracted(a, b, kept, order))
    return _arranged(factors[0], output)


@spelled
def outer(a: Value, b: Value) -> Value:
    """Return the products of the elements of two vectors: y[i, j] = a[i] * b[j]."""
    for name, x in (("a", a), ("b", b)):
        require(x.rank == 1, f"{name} has {x.rank} axes, not 1; use einsum for more")
    return mul(reshape(a, shape=(*a.shape, 1)), reshape(b, shape=(1, *b.shape)))


Labels = tuple[str, ...]
"""Axis labels: a letter for each axis; axes of `...` are "...1" for the last, "...2" for the one before."""


class Factor(NamedTuple):
    """A tensor and the labels of its axes."""

    value: Value
    labels: Labels

    @property
    def extents(self) -> dict[str, int | str]:
        """The extents by label."""
        return dict(zip(self.labels, self.value.shape, strict=True))


def _parsed(equation: str, xs: Sequence[Value]) -> tuple[list[Labels], Labels]:
    """Return the labels of each tensor's axes and those of the output."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    for text in (*terms, right):
        for letter in text.replace("...", "", 1):
            known = letter.isascii() and letter.isalpha()
            require(known, f"{letter!r} in {equation!r} is no letter, comma, ... or ->")
    require(len(terms) == len(xs), f"{equation!r} has {len(terms)} terms for {len(xs)} tensors")
    labels = [_labels(term, i, x) for i, (term, x) in enumerate(zip(terms, xs, strict=True))]
    more = max(len([label for label in term if label.startswith("...")]) for term in labels)
    dots = tuple(f"...{i}" for i in range(more, 0, -1))
    if not arrow:
        return labels, (*dots, *sorted(letter for letter in {*left} - {*",."} if left.count(letter) == 1))
    for letter in dict.fromkeys(right.replace(".", "")):
        require(right.count(letter) == 1, f"the output of {equation!r} has the letter {letter!r} twice")
        require(letter in left, f"the output of {equation!r} has the letter {letter!r}, which no term has")
    require(not more or "..." in right, f"the terms of {equation!r} have axes for ..., which its output lacks")
    before, _, after = right.partition("...")
    return labels, (*before, *dots, *after) if "..." in right else tuple(right)


def _labels(term: str, position: int, x: Value) -> Labels:
    before, dots, after = term.partition("...")
    more = x.rank - len(before) - len(after)
    fits = more >= 0 if dots else more == 0
    require(fits, f"the term {term!r} has {len(before) + len(after)} letters, xs[{position}] has {x.rank} axes")
    return (*before, *(f"...{i}" for i in range(more, 0, -1)), *after)


def _without_repetition(x: Value, labels: Labels) -> Factor:
    """Return the tensor with a diagonal in place of two axes of the same label."""
    while len(set(labels)) < len(labels):
        twice = next(label for label in labels if labels.count(label) > 1)
        first = labels.index(twice)
        second = labels.index(twice, first + 1)
        rows, columns = x.shape[first], x.shape[second]
        require(rows == columns, f"{twice!r} is {rows} and {columns} in one term")
        x = diagonal(x, axis=(first, second))
        labels = (*(label for axis, label in enumerate(labels) if axis not in (first, second)), twice)
    return Factor(x, labels)


def _without_ones(factors: list[Factor]) -> list[Factor]:
    """Return the tensors without their broadcast axes of extent 1; the extents of a label are then equal."""
    extents: dict[str, int | str] = {}
    for position, factor in enumerate(factors):
        for label, extent in factor.extents.items():
            known = extents.get(label, 1)
            shown = "..." if label.startswith(".") else label
            same = extent in (1, known) or known == 1
            require(same, f"{shown!r} is {extent} in xs[{position}] and {known} before")
            extents[label] = extent if known == 1 else known
    kept = [tuple(label for label, d in factor.extents.items() if d == extents[label]) for factor in factors]
    return [
        Factor(_reshaped(factor.value, tuple(extents[label] for label in labels)), labels)
        for factor, labels in zip(factors, kept, strict=True)
    ]


def _places(output: Labels, factors: list[Factor]) -> dict[str, int]:
    """Return the position of every label among all labels, those of the output first."""
    labels = dict.fromkeys([*output, *(label for factor in factors for label in factor.labels)])
    return {label: place for place, label in enumerate(labels)}


def _sizes(factors: list[Factor]) -> dict[str, int]:
    extents = [item for factor in factors for item in factor.extents.items()]
    return {label: extent if isinstance(extent, int) else SYMBOL_SIZE for label, extent in extents}


def _cheapest(
    terms: list[frozenset[str]], output: frozenset[str], sizes: Mapping[str, int]
) -> tuple[int, list[tuple[int, int]]]:
    """Return the number of multiplications of the cheapest contraction order, and that order.

    The order is a list of pairs of positions. A pair is removed from the list of tensors, the later position first, and
    its product is appended.
    """
    if len(terms) == 1:
        return 0, []

    def cost(pair: tuple[int, int]) -> int:
        return math.prod(sizes[label] for label in terms[pair[0]] | terms[pair[1]])

    def total(pair: tuple[int, int]) -> tuple[int, list[tuple[int, int]]]:
        rest = [term for i, term in enumerate(terms) if i not in pair]
        product = (terms[pair[0]] | terms[pair[1]]) & output.union(*rest)
        more, pairs = _cheapest([*rest, product], output, sizes)
        return cost(pair) + more, [pair, *pairs]

    pairs = list(combinations(range(len(terms)), 2))
    return min(map(total, pairs if len(terms) <= SEARCHED else [min(pairs, key=cost)]), key=lambda found: found[0])


def _contracted(a: Factor, b: Factor, kept: set[str], order: Mapping[str, int]) -> Factor:
    """Return the product of two tensors, summed over the labels that nothing else has; by matmul if possible."""
    rows = sorted({*a.labels} - {*b.labels}, key=order.__getitem__)
    columns = sorted({*b.labels} - {*a.labels}, key=order.__getitem__)
    if rows and columns and order[columns[0]] < order[rows[0]]:
        a, b, rows, columns = b, a, columns, rows
    shared = [label for label in a.labels if label in b.labels]
    batch = sorted((label for label in shared if label in kept), key=order.__getitem__)
    inner = [label for label in shared if label not in kept]
    extents = a.extents | b.extents
    if not inner or a.value.dtype in dtypes.INTEGERS:
        return _multiplied(a, b, inner, order)
    match [_can_join(extents, group) for group in (rows, inner, columns)], bool(batch):
        case ([True, True, True], _) | ([False, True, True], False):
            return _matrix_product(a, b, batch, inner, rows, columns)
        case [True, True, False], False:
            return _matrix_product(b, a, batch, inner, columns, rows)
        case [True, False, True], False:
            return _outer_summed(a, b, inner, rows, columns)
        case _:  # the product of several symbols has no name
            return _multiplied(a, b, inner, order)


def _matrix_product(
    a: Factor, b: Factor, batch: list[str], inner: list[str], rows: list[str], columns: list[str]
) -> Factor:
    """Return the matmul of [rows, inner] and [inner, columns]; without a batch, all but one of the rows lead."""
    extents = a.extents | b.extents
    lead, row = (batch, rows) if batch else (rows[:-1], rows[-1:])
    of_a, transpose_a = _as_matrices(a, lead, row, inner)
    of_b, transpose_b = _as_matrices(b, batch, columns, inner)
    y = matmul(of_a, of_b, transpose_a=transpose_a, transpose_b=not transpose_b)
    labels = (*batch, *rows, *columns)
    return Factor(_reshaped(y, tuple(extents[label] for label in labels)), labels)


def _as_matrices(x: Factor, lead: list[str], outer: list[str], inner: list[str]) -> tuple[Value, bool]:
    """Return matrices [outer, inner] and False, or [inner, outer] and True if x has its axes in that order."""
    swapped = x.labels == (*lead, *inner, *outer)
    groups = (inner, outer) if swapped else (outer, inner)
    value = _arranged(x, (*lead, *groups[0], *groups[1]))
    shape = (*(x.extents[label] for label in lead), *(_joined(x.extents, group) for group in groups))
    return _reshaped(value, shape), swapped


def _outer_summed(a: Factor, b: Factor, inner: list[str], rows: list[str], columns: list[str]) -> Factor:
    """Return the product by outer_sum, whose leading axes need no sizes."""
    extents = a.extents | b.extents
    lead = tuple(extents[label] for label in inner)
    sides = [
        _reshaped(_arranged(x, (*inner, *group)), (*lead, _joined(extents, group)))
        for x, group in ((a, rows), (b, columns))
    ]
    labels = (*rows, *columns)
    return Factor(_reshaped(outer_sum(*sides), tuple(extents[label] for label in labels)), labels)


def _multiplied(a: Factor, b: Factor, inner: list[str], order: Mapping[str, int]) -> Factor:
    """Return the product by a broadcast multiplication and a sum."""
    labels = tuple(sorted({*a.labels, *b.labels}, key=order.__getitem__))
    sides = [
        _reshaped(
            _arranged(x, tuple(label for label in labels if label in x.labels)),
            tuple(x.extents.get(label, 1) for label in labels),
        )
        for x in (a, b)
    ]
    return _summed(Factor(mul(*sides), labels), inner)


def _summed(factor: Factor, labels: Iterable[str]) -> Factor:
    """Return the tensor summed over these axes, in its own dtype."""
    gone = [*labels]
    if not gone:
        return factor
    total = sum(factor.value, axis=tuple(factor.labels.index(label) for label in gone))
    if total.dtype != factor.value.dtype:
        total = cast(total, dtype=factor.value.dtype)
    return Factor(total, tuple(label for label in factor.labels if label not in gone))


def _arranged(factor: Factor, labels: Labels) -> Value:
    """Return the tensor with its axes in that order."""
    if factor.labels == labels:
        return factor.value
    return transpose(factor.value, axis=tuple(factor.labels.index(label) for label in labels))


def _reshaped(x: Value, shape: Shape) -> Value:
    return x if x.shape == shape else reshape(x, shape=shape)


def _can_join(extents: Mapping[str, int | str], labels: Iterable[str]) -> bool:
    """Return True if the merged extent of these axes is known: all sizes, or one symbol and ones."""
    wide = [extents[label] for label in labels if extents[label] != 1]
    return len(wide) < 2 or all(isinstance(extent, int) for extent in wide)


def _joined(extents: Mapping[str, int | str], labels: Iterable[str]) -> int | str:
    return joined_extent(tuple(extents[label] for label in labels))
