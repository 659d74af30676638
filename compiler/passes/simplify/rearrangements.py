"""Rules of `simplify` for ops that move elements and compute nothing, so no bit of an element changes.

Reductions of single elements are included. A sum of floats is not among them: NumPy starts it at 0.0, and 0.0 + -0.0 is
0.0. Transposed operands of `matmul` stay copies: BLAS may add in another order for another layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from compiler.passes.rewrite import EDITED
from compiler.passes.simplify.rewrites import Scope, rewrites, write_anew
from prograd_proto import attributes_of
from prograd_proto import program_pb2 as pb
from prograd_proto.dtypes import FLOATS
from registry.op import find_op


def copies(scope: Scope, op: pb.OpDesc) -> Sequence[str] | None:
    """Replace an op that copies its operand by the operand, if the result has its type.

    Such are identity(x), a cast to the dtype of x, and a reshape, broadcast or padding to the shape of x.
    stop_gradient(x) is one too: gradients are ops already when passes run.
    """
    return op.inputs if scope.result(op) == scope.type(op.inputs[0]) else None


@rewrites("reshape")
def reshaped_twice(scope: Scope, op: pb.OpDesc) -> Sequence[str] | None:
    """Replace reshape(reshape(x)) by one reshape of x: both keep the row-major order."""
    return _through(scope, op)


@rewrites("broadcast_to")
def repeated_twice(scope: Scope, op: pb.OpDesc) -> Sequence[str] | None:
    """Replace broadcast_to(broadcast_to(x)) by one broadcast of x: both align shapes at their ends."""
    return _through(scope, op)


@rewrites("transpose")
def transposed_in_place(scope: Scope, op: pb.OpDesc) -> Sequence[str] | None:
    """Replace a transpose that keeps the order of the axes longer than 1 by a reshape: no element moves."""
    axes, shape = _ints(op, "axes"), scope.type(op.inputs[0]).static_shape
    if any(a > b for a, b in pairwise(axis for axis in axes if shape[axis] != 1)):
        return None
    return write_anew(op, "reshape", op.inputs[0], shape=scope.result(op).shape)


@rewrites("transpose")
def transposed_twice(scope: Scope, op: pb.OpDesc) -> Sequence[str] | None:
    """Replace transpose(transpose(x, a), b) by transpose(x, c) with c[i] = a[b[i]]."""
    inner = scope.inner(op, "transpose")
    if inner is None:
        return None
    first = _ints(inner, "axes")
    return write_anew(op, "transpose", inner.inputs[0], axes=tuple(first[axis] for axis in _ints(op, "axes")))


@rewrites("slice", "unslice")
def sliced_whole(scope: Scope, op: pb.OpDesc) -> Sequence[str] | None:
    """Replace a slice, or an unslice, of all elements in their order by x."""
    if scope.result(op) != scope.type(op.inputs[0]):
        return None
    shape = scope.result(op).static_shape
    turned = [s for s, axis in zip(_ints(op, "strides"), _ints(op, "axes"), strict=True) if shape[axis] > 1]
    return op.inputs if min(turned, default=1) > 0 else None


@rewrites("slice")
def sliced_twice(scope: Scope, op: pb.OpDesc) -> Sequence[str] | None:
    """Replace a slice of a slice by one slice of x: a range of a range is a range, and two reversals cancel."""
    inner = scope.inner(op, "slice")
    if inner is None:
        return None
    shape = scope.type(inner.inputs[0]).static_shape
    first, second = _ranges(inner), _ranges(op)
    taken = {
        axis: first.get(axis, range(shape[axis]))[_as_slice(second[axis])] if axis in second else first[axis]
        for axis in sorted({*first, *second})
    }
    return write_anew(
        op,
        "slice",
        inner.inputs[0],
        axes=tuple(taken),
        starts=tuple(places[0] if places else 0 for places in taken.values()),
        stops=tuple(places[-1] + (1 if places.step > 0 else -1) if places else 0 for places in taken.values()),
        strides=tuple(places.step if places else 1 for places in taken.values()),
    )


@rewrites("pad")
def padded_twice(scope: Scope, op: pb.OpDesc) -> Sequence[str] | None:
    """Replace pad(pad(x)) with one value by one padding of x with the sums of the widths."""
    inner = scope.inner(op, "pad")
    if inner is None or inner.attributes[2].SerializeToString() != op.attributes[2].SerializeToString():
        return None
    before, after = (
        tuple(i + j for i, j in zip(_ints(inner, side), _ints(op, side), strict=True)) for side in ("before", "after")
    )
    return write_anew(op, "pad", inner.inputs[0], before=before, after=after, value=attributes_of(op)["value"])


@rewrites("concat")
def joined_alone(scope: Scope, op: pb.OpDesc) -> Sequence[str] | None:
    """Replace a concat of one tensor, or of one and others without elements, by that tensor."""
    result = scope.result(op)
    whole = [name for name in op.inputs if scope.type(name) == result]
    return whole[:1] if whole and (len(op.inputs) == 1 or 0 not in result.shape) else None


@rewrites("split")
def split_alone(scope: Scope, op: pb.OpDesc) -> Sequence[str] | None:
    """Replace a split into one piece by x."""
    return op.inputs if len(op.outputs) == 1 else None


@rewrites("split")
def split_where_joined(scope: Scope, op: pb.OpDesc) -> Sequence[str] | None:
    """Replace a split of a concat along its axis into the concatenated extents by the concat's operands."""
    inner = scope.inner(op, "concat")
    if inner is None or _axis(scope, inner) != _axis(scope, op):
        return None
    same = [scope.type(name) for name in inner.inputs] == [scope.type(name) for name in op.outputs]
    return inner.inputs if same else None


@rewrites("concat")
def joined_where_split(scope: Scope, op: pb.OpDesc) -> Sequence[str] | None:
    """Replace a concat of all pieces of a split, in their order and along its axis, by the split's operand."""
    inner = scope.inner(op, "split")
    if inner is None or list(inner.outputs) != list(op.inputs) or _axis(scope, inner) != _axis(scope, op):
        return None
    return inner.inputs


def reduced_of_one(scope: Scope, op: pb.OpDesc) -> Sequence[str] | None:
    """Replace a reduction of single elements, except sums of floats, by a reshape: 1 * x and 0 + x are x."""
    x, result = scope.type(op.inputs[0]), scope.result(op)
    gone = _ints(op, "axes") or range(x.rank)
    if x.dtype != result.dtype or any(x.shape[axis] != 1 for axis in gone):
        return None
    if find_op(op.type).traits.keeps_single == "for integers" and x.dtype in FLOATS:
        return None
    return write_anew(op, "reshape", op.inputs[0], shape=result.shape)


def _through(scope: Scope, op: pb.OpDesc) -> Sequence[str] | None:
    """Skip the op before this one, which has the same type: read its operand."""
    inner = scope.inner(op, op.type)
    if inner is None:
        return None
    op.inputs[0] = inner.inputs[0]
    return EDITED


def _ints(op: pb.OpDesc, name: str) -> tuple[int, ...]:
    return next(tuple(a.ints_value.values) for a in op.attributes if a.name == name)


def _axis(scope: Scope, op: pb.OpDesc) -> int:
    """Return the axis of a concat or a split, from the front."""
    [axis] = [a.int_value for a in op.attributes if a.name == "axis"]
    return axis % scope.type(op.inputs[0]).rank


def _ranges(op: pb.OpDesc) -> dict[int, range]:
    """Return the positions of a slice along each of its axes."""
    starts, stops, strides = (_ints(op, name) for name in ("starts", "stops", "strides"))
    return {axis: range(*ends) for axis, *ends in zip(_ints(op, "axes"), starts, stops, strides, strict=True)}


def _as_slice(places: range) -> slice:
    """Return the slice with these positions of a sequence; no position is counted from the end."""
    if not places:
        return slice(0, 0)
    stop = places[-1] + (1 if places.step > 0 else -1)
    return slice(places[0], stop if stop >= 0 else None, places.step)
