"""Rows that a mask of data picks, such as x[x > 0]: all rows, and which of them count, because their number is data.

A program has no tensor of that shape. So pointwise operators and others that keep rows apart compute all rows, of which
the left out ones are 1, or 0 for integers, and sums, means, losses and writes by the same mask count the picked ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from compiler.errors import CompileError
from compiler.frontends.arranged import Arranged, arranged, expanded, plain, pointwise, unsqueezed, viewed
from compiler.frontends.extents import ONE, Extent, product
from compiler.frontends.torch.operators.call import Call, cast_to
from compiler.frontends.torch.operators.criteria import OPERATORS as LOSSES
from registry import Value, ops

LABELLED: Final = {"aten.cross_entropy_loss.default": 4, "aten.nll_loss.default": 4, "aten.nll_loss_nd.default": 4}
"""Position of the operand `ignore_index`, by operator; rows of that class add nothing to the loss."""

APART: Final = {
    "aten.alias.default", "aten.clone.default", "aten.contiguous.default", "aten.detach.default",
    "aten.detach_.default", "aten.dropout.default", "aten.linear.default", "aten.lift_fresh_copy.default",
    "aten._to_copy.default", "aten.to.dtype", "aten.layer_norm.default", "aten.embedding.default",
}  # fmt: skip
"""Operators, besides pointwise ones, that compute each row of their first operand independently."""

ALONG: Final = {
    "aten.softmax.int", "aten.log_softmax.int", "aten._softmax.default", "aten._log_softmax.default",
    "aten.select.int", "aten.slice.Tensor", "aten.unsqueeze.default", "aten.squeeze.dim", "aten.cumsum.default",
}  # fmt: skip
"""Operators that keep rows apart if their second operand, an axis, is not 0."""

REASON: Final = (
    "reads rows that a mask of data picks, whose number no shape states; keep all rows and use torch.where(mask, x, 0)"
)
"""Reason of operators that need the number of picked rows, or mix them."""


@dataclass(frozen=True, eq=False)
class Picked:
    """Rows that a mask picks.

    Attributes:
        tensor: all rows, [rows, ...]; the axes of the mask are one.
        mask: the mask as it was given.
    """

    tensor: Arranged
    mask: Arranged

    @property
    def shape(self) -> tuple[Extent, ...]:
        """The extents with all rows."""
        return self.tensor.shape

    def filled(self, value: float) -> Value:
        """Return all rows with a value in place of those that are left out."""
        return plain(_where(_flat(self.mask), self.tensor, value))

    def total(self, *, mean: bool) -> Arranged:
        """Return the sum of the picked rows, or their mean."""
        total = ops.sum(self.filled(0.0))
        if not mean:
            return arranged(total)
        count = ops.sum(ops.cast(plain(_flat(self.mask)), dtype=total.dtype))  # pyright: ignore[reportArgumentType]: a dtype
        each = ops.size.on(total.block)(shape=tuple(extent.plain() for extent in self.shape[1:]), dtype=total.dtype)  # pyright: ignore[reportArgumentType]
        return arranged(total / (count * each))


def picked(x: Arranged, mask: Arranged) -> Picked:
    """Return the rows of x that a mask of its first axes picks."""
    rest = x.shape[mask.rank :]
    rows = viewed(x, (product(mask.shape), *rest))
    neutral = 1.0 if x.dtype.startswith("float") else 0.0
    return Picked(_where(_flat(mask), rows, neutral), mask)


def selected(x: Arranged, mask: Any) -> list[Any]:
    """Return x and its indices for the elements that a mask selects of x, which both are broadcast."""
    rank = max(x.rank, mask.rank)
    shapes = [(*(ONE,) * (rank - len(own)), *own) for own in (x.shape, mask.shape)]
    shape = [b if a == ONE else a for a, b in zip(*shapes, strict=True)]
    if isinstance(mask, Arranged):
        return [expanded(x, shape), [expanded(mask, shape)]]
    if tuple(shape) != mask.shape:
        raise CompileError("selects by a constant mask of fewer elements; expand it first")
    return [expanded(x, shape), [mask]]


def written(x: Arranged, mask: Arranged, values: Any, accumulate: bool = False) -> Arranged:
    """Return x with the elements that a mask of its first axes picks replaced, or added to."""
    if isinstance(values, Picked):
        if values.mask is not mask:
            raise CompileError(f"writes rows of one mask by another; {REASON.rpartition('; ')[2]}")
        values = viewed(values.tensor, (*mask.shape, *values.shape[1:]))
    elif values.rank > x.rank - mask.rank:
        raise CompileError(REASON)
    wide = mask
    for _ in range(x.rank - mask.rank):
        wide = unsqueezed(wide, wide.rank)
    values = expanded(cast_to(values, x.dtype), x.shape)
    values = pointwise(ops.add, x, values) if accumulate else values
    return pointwise(ops.where, wide, values, x)


def computed(
    call: Call,
    name: str,
    mapping: Callable[..., Any],
    operands: Sequence[Any],
    mapped: Callable[[], Any],
    *,
    each: bool,
) -> Any:
    """Return the result of an operator that reads picked rows.

    Args:
        call: the call.
        name: the name of the operator.
        mapping: its mapping.
        operands: its operands by position.
        mapped: computes it with all rows.
        each: the operator is pointwise.
    """
    rows = [x for x in operands if isinstance(x, Picked)]
    mask = rows[0].mask if rows else None
    if mask is None or any(x.mask is not mask for x in rows):
        raise CompileError(REASON)
    if name in ("aten.sum.default", "aten.mean.default"):
        return rows[0].total(mean="mean" in name)
    if name in LABELLED:
        return _labelled(call, mapping, operands, LABELLED[name])
    if name in LOSSES and len(rows) == 2 and name != "aten.kl_div.default":
        return _loss(call, mapping, operands)
    keeps = each and not any(_meets_rows(x, len(call.shape)) for x in operands)
    keeps = keeps or (name in APART and isinstance(operands[0], Picked) and len(rows) == 1)
    keeps = keeps or (name in ALONG and operands[1] not in (0, -rows[0].tensor.rank))
    if not keeps:
        raise CompileError(REASON)
    return Picked(mapped(), mask)


def _meets_rows(x: Any, rank: int) -> bool:
    """Return True for an operand of a pointwise operator that has an element for each row."""
    return isinstance(x, Arranged) and x.rank == rank and x.shape[0] != ONE


def _labelled(call: Call, mapping: Callable[..., Any], operands: Sequence[Any], position: int) -> Arranged:
    """Return the loss of classes with labels that count nothing in place of those that are left out."""
    x, target, *rest = operands
    ignored = rest[position - 2] if len(rest) > position - 2 else -100
    reduction = rest[1] if len(rest) > 1 else 1
    is_known = isinstance(x, Picked) and isinstance(target, Picked) and not target.tensor.dtype.startswith("float")
    if not is_known or not reduction:
        raise CompileError(REASON)
    labels = _where(_flat(target.mask), target.tensor, ignored)
    return mapping(call, x.tensor, labels, *rest)


def _loss(call: Call, mapping: Callable[..., Any], operands: Sequence[Any]) -> Arranged:
    """Return the sum or the mean of a loss of each element."""
    x, target, *rest = operands
    at = 1 if "binary_cross_entropy" in getattr(mapping, "__name__", "") else 0
    if any(rest[:at]) or not (isinstance(x, Picked) and isinstance(target, Picked)):
        raise CompileError(REASON)
    reduction = rest[at] if len(rest) > at else 1
    before, after = rest[:at], rest[at + 1 :]
    elements = mapping(call, x.tensor, target.tensor, *before, 0, *after)
    return Picked(elements, x.mask).total(mean=reduction == 1) if reduction else elements


def _flat(mask: Arranged) -> Arranged:
    return viewed(mask, (product(mask.shape),))


def _where(mask: Arranged, x: Arranged, value: float) -> Arranged:
    for _ in range(x.rank - mask.rank):
        mask = unsqueezed(mask, mask.rank)
    return pointwise(lambda m, v: ops.where(m, v, value), mask, x)
