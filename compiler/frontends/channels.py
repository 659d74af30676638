"""Images and filters, whose channels are axis 1 in models and the last axis here."""

from __future__ import annotations

from compiler.frontends.arranged import Arranged, ordered, transposed
from registry import Value


def last(x: Arranged) -> Value:
    """Return images [n, c, ...] of the model with channels last."""
    return ordered(x, (0, *range(2, x.rank), 1))


def first(y: Value) -> Arranged:
    """Return a tensor with channels last as one whose channels are axis 1 of the model."""
    return transposed(y, (0, y.rank - 1, *range(1, y.rank - 1)))


def filters(w: Arranged) -> Value:
    """Return filters [o, c, ...] of the model as [..., c, o]."""
    return ordered(w, (*range(2, w.rank), 1, 0))
