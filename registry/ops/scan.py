"""Running sums and products along one axis, and the linear recurrence behind the gradient of products."""

from __future__ import annotations

from prograd_proto import TensorType
from prograd_proto.result_types.shapes import normal_axis, size_known
from registry.op import op
from registry.ops.shape import pad, slice
from registry.traits import exact_for_integers
from registry.value import Value


@exact_for_integers
@op
def cumsum(x: Value, *, axis: int = -1, exclusive: bool = False, reverse: bool = False) -> TensorType:
    """Return the running sum along `axis` up to each position; integers and bool sum to int64.

    `exclusive` leaves out the element at the position itself; `reverse` sums from the end.
    """
    ...


@cumsum.gradient
def cumsum_gradient(dy: Value, *, axis: int, exclusive: bool, reverse: bool) -> Value:
    return cumsum(dy, axis=axis, exclusive=exclusive, reverse=not reverse)


@exact_for_integers
@op
def cumprod(x: Value, *, axis: int = -1, exclusive: bool = False, reverse: bool = False) -> TensorType:
    """Return the running product along `axis` up to each position; integers and bool multiply to int64.

    `exclusive` leaves out the element at the position itself; `reverse` multiplies from the end. The gradient is exact
    for zeros too: it consists of products, not quotients.
    """
    ...


@cumprod.gradient
def cumprod_gradient(x: Value, dy: Value, *, axis: int, exclusive: bool, reverse: bool) -> Value:
    """Return the gradient of cumprod: the product before each position times a scan of dy behind it."""
    before = cumprod(x, axis=axis, exclusive=True, reverse=reverse)
    if exclusive:
        dy = _shifted(dy, axis, not reverse)
    return before * linear_scan(_shifted(x, axis, not reverse), dy, axis=axis, reverse=not reverse)


@op
def linear_scan(a: Value, b: Value, *, axis: int = -1, reverse: bool = False) -> TensorType:
    """Return the linear recurrence y[i] = a[i] * y[i - 1] + b[i] along `axis`, with y[-1] = 0; floats only.

    `reverse` starts at the end: y[i] = a[i] * y[i + 1] + b[i]. Discounted sums and linear state spaces have this form.
    The number of passes is the number of binary digits of the extent (Hillis and Steele, 1986).
    """
    ...


@linear_scan.gradient
def linear_scan_gradient(a: Value, y: Value, dy: Value, *, axis: int, reverse: bool) -> tuple[Value, Value]:
    db = linear_scan(_shifted(a, axis, not reverse), dy, axis=axis, reverse=not reverse)
    return db * _shifted(y, axis, reverse), db


def _shifted(x: Value, axis: int, to_front: bool) -> Value:
    """Return the elements shifted by one towards the front or the end of the axis, filled with zero."""
    axis = normal_axis(axis, x.rank)
    extent = size_known(x.shape[axis], "the extent of a scanned axis")
    if extent == 0:
        return x
    start, stop = (1, extent) if to_front else (0, extent - 1)
    rest = slice(x, axis=(axis,), starts=(start,), stops=(stop,), strides=(1,))
    widths = tuple(int(i == axis) for i in range(x.rank))
    none = (0,) * x.rank
    return pad(rest, before=none if to_front else widths, after=widths if to_front else none)
