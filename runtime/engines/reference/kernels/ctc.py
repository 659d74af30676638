"""Connectionist temporal classification: a loop over time steps, each computed for all rows and states at once.

The states of a row are blanks with its labels between them: blank, label, blank, ..., label, blank. A path stays in its
state, moves to the next, or jumps over a blank between two different labels. It ends in one of the last two. All sums
are of logarithms, less the largest of the row at each step, because numbers far from 0 would have few digits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from prograd_proto import TensorType
from runtime.engines.reference.kernels.index import check_range, count_up
from runtime.engines.reference.kernels.windows import small_buffers
from runtime.errors import ExecutionError, OutOfRange
from runtime.kernel import Array, kernel


def ctc_scratch(logarithms: TensorType, labels: TensorType) -> list[TensorType]:
    return lattice_types(logarithms, labels)


@kernel(scratch=ctc_scratch)
@small_buffers()
def ctc(
    logarithms: Array,
    labels: Array,
    input_lengths: Array | None,
    label_lengths: Array | None,
    *,
    blank: int,
    out: Array,
    scratch: list[Array],
) -> None:
    lattice = new_lattice(logarithms, labels, input_lengths, label_lengths, blank, scratch)
    for _ in forward(logarithms, lattice):
        pass
    total(lattice, out)


def ctc_gradient_scratch(logarithms: TensorType, labels: TensorType) -> list[TensorType]:
    rows, steps, _ = logarithms.static_shape
    fronts = TensorType(logarithms.dtype, (steps, rows, 2 * labels.static_shape[1] + 1))
    return [*lattice_types(logarithms, labels), fronts]


@kernel(scratch=ctc_gradient_scratch)
@small_buffers()
def ctc_gradient(
    logarithms: Array,
    labels: Array,
    dy: Array,
    input_lengths: Array | None,
    label_lengths: Array | None,
    *,
    blank: int,
    out: Array,
    scratch: list[Array],
) -> None:
    """Compute the gradient from the probability of each state: of the paths to it times of those from it on."""
    *scratch, fronts = scratch
    lattice = new_lattice(logarithms, labels, input_lengths, label_lengths, blank, scratch)
    for t, front in forward(logarithms, lattice):
        np.copyto(fronts[t], front)
    share, whole = lattice.work, lattice.largest
    out.fill(0)
    for t, back in backward(logarithms, lattice):
        np.add(fronts[t], back, share)
        less_largest(share, lattice)
        np.exp(share, share)
        np.add.reduce(share, axis=1, keepdims=True, out=whole)
        np.maximum(whole, 1, out=whole)  # it is less only where there is no path at all
        np.divide(share, whole, share)
        np.multiply(dy[:, None], lattice.active, whole)
        np.multiply(share, whole, share)
        np.subtract.at(out.reshape(-1), lattice.places.reshape(-1), share.reshape(-1))


class Lattice(NamedTuple):
    """The states of all rows, [n, states] unless stated otherwise, and scratch."""

    places: Array  # int64: the class of each state at the current step, as an index into all logarithms
    jump: Array  # [n, states + 2]: 0 where a path may jump to the state, else -inf, as in the two additional ones
    final: Array  # 0 where a path may end, else -inf
    edge: Array  # [n, states + 2]: the recursion's current values, with two additional states that no path reaches
    emitted: Array
    peak: Array
    ways: Array
    work: Array
    hits: Array  # bool
    beyond: Array  # bool: the row has no such state
    active: Array  # bool [n, 1]: the row has the current step
    largest: Array  # [n, 1]
    scale: Array  # float64 [n, 1]: sum of the subtracted values
    steps: Array  # int64 [n]
    last: Array  # int64 [n]
    numbers: Array  # int64 [states]


def lattice_types(x: TensorType, labels: TensorType) -> list[TensorType]:
    """Return the scratch types for `new_lattice`."""
    n, states = x.static_shape[0], 2 * labels.static_shape[1] + 1
    wide, whole = TensorType(x.dtype, (n, states + 2)), TensorType(x.dtype, (n, states))
    places, flags, lengths = (
        TensorType(*of) for of in (("int64", (n, states)), ("bool", (n, states)), ("int64", (n,)))
    )
    room = [whole] * 4
    columns = [TensorType(dtype, (n, 1)) for dtype in ("bool", x.dtype, "float64")]
    vectors = [*columns, lengths, lengths, TensorType("int64", (states,))]
    return [places, wide, whole, wide, *room, flags, flags, *vectors]


def new_lattice(
    x: Array,
    labels: Array,
    input_lengths: Array | None,
    label_lengths: Array | None,
    blank: int,
    scratch: list[Array],
) -> Lattice:
    """Return the states before the first step; raise ExecutionError for an invalid label or length."""
    made = Lattice(*scratch)
    places, numbers, last, hits, beyond = made.places, made.numbers, made.last, made.hits, made.beyond
    _, steps, classes = x.shape
    fill_lengths(made.steps, input_lengths, steps, "steps")
    fill_lengths(last, label_lengths, labels.shape[1], "labels")
    np.multiply(last, 2, last)
    count_up(numbers, 1)
    np.greater(numbers, last[:, None], beyond)
    np.copyto(places, blank)
    np.copyto(places[:, 1::2], labels)
    np.copyto(places, blank, where=beyond)
    check_classes(places, blank, classes, beyond, hits)
    made.jump.fill(-np.inf)
    np.not_equal(places[:, 2:], places[:, :-2], hits[:, 2:])
    np.copyto(made.jump[:, 2:-2], 0, where=hits[:, 2:])
    made.final.fill(-np.inf)
    for _ in range(2):
        np.equal(numbers, last[:, None], hits)
        np.copyto(made.final, 0, where=hits)
        np.subtract(last, 1, last)
    count_up(last, steps * classes)
    np.add(places, last[:, None], places)
    return made


def fill_lengths(out: Array, lengths: Array | None, limit: int, what: str) -> None:
    """Copy the lengths, all of them `limit` if there are none; raise OutOfRange for one that is out of range."""
    if lengths is None or not lengths.size:
        out.fill(limit)
        return
    low, high = int(lengths.min()), int(lengths.max())
    if low < 0 or high > limit:
        wrong = low if low < 0 else high
        raise OutOfRange(f"length {wrong} is out of range: there are {limit} {what}", wrong)
    np.copyto(out, lengths)


def check_classes(classes: Array, blank: int, count: int, beyond: Array, hits: Array) -> None:
    """Raise OutOfRange unless every label is a class other than the blank."""
    check_range(classes, count, "label", "classes")
    np.equal(classes, blank, hits)
    np.greater(hits, beyond, hits)
    if hits[:, 1::2].any():
        raise ExecutionError(f"label {blank} is the blank, which stands between labels and is none")


def forward(x: Array, lattice: Lattice) -> Iterator[tuple[int, Array]]:
    """Yield for each step the probabilities of all paths to each state up to it; a finished row stays as it is."""
    edge, active, ways = lattice.edge, lattice.active, lattice.ways
    edge.fill(-np.inf)
    edge[:, 2] = 0  # before the first step a path is in the first blank
    front = edge[:, 2:]
    lattice.scale.fill(0)
    for t in range(x.shape[1]):
        np.take(x.reshape(-1), lattice.places, None, lattice.emitted, "clip")
        np.add(lattice.places, x.shape[2], lattice.places)
        np.add(edge[:, :-2], lattice.jump[:, :-2], ways)
        sum_ways(front, edge[:, 1:-1], lattice)
        np.add(ways, lattice.emitted, ways)
        less_largest(ways, lattice)
        np.less(t, lattice.steps[:, None], active)
        np.copyto(front, ways, where=active)
        np.add(lattice.scale, lattice.largest, lattice.scale, where=active)
        yield t, front


def total(lattice: Lattice, out: Array) -> None:
    """Compute minus the logarithm of the probability of all paths to an end, after `forward`."""
    work, largest, scale = lattice.work, lattice.largest, lattice.scale
    np.add(lattice.edge[:, 2:], lattice.final, work)
    less_largest(work, lattice)
    np.add(scale, largest, scale)
    np.exp(work, work)
    np.add.reduce(work, axis=1, keepdims=True, out=largest)
    np.log(largest, largest)
    np.add(scale, largest, scale)
    np.negative(scale, scale)
    np.copyto(out, scale[:, 0], casting="same_kind")


def backward(x: Array, lattice: Lattice) -> Iterator[tuple[int, Array]]:
    """Yield for each step, the last one first, the probabilities of all paths from each state to an end.

    It needs the states that `forward` leaves.
    """
    edge, active, ways = lattice.edge, lattice.active, lattice.ways
    edge.fill(-np.inf)
    back = edge[:, :-2]
    np.copyto(back, lattice.final)
    for t in reversed(range(x.shape[1])):
        np.subtract(lattice.places, x.shape[2], lattice.places)
        np.less(t, lattice.steps[:, None], active)
        yield t, back
        np.take(x.reshape(-1), lattice.places, None, lattice.emitted, "clip")
        np.add(back, lattice.emitted, back, where=active)
        np.add(edge[:, 2:], lattice.jump[:, 2:], ways)
        sum_ways(back, edge[:, 1:-1], lattice)
        less_largest(ways, lattice)
        np.copyto(back, ways, where=active)


def sum_ways(stay: Array, move: Array, lattice: Lattice) -> None:
    """Add two alternatives to the third in `ways`: the logarithm of the sum of the exponentials."""
    ways, peak, work = lattice.ways, lattice.peak, lattice.work
    np.maximum(stay, move, out=peak)
    np.maximum(peak, ways, out=peak)
    np.maximum(peak, np.finfo(peak.dtype).min, out=peak)  # -inf less -inf would be NaN
    np.subtract(ways, peak, ways)
    np.exp(ways, ways)
    for way in (stay, move):
        np.subtract(way, peak, work)
        np.exp(work, work)
        np.add(ways, work, ways)
    np.log(ways, ways)
    np.add(ways, peak, ways)


def less_largest(values: Array, lattice: Lattice) -> None:
    """Subtract the largest value of each row, and leave it in `largest`."""
    largest = lattice.largest
    np.maximum.reduce(values, axis=1, keepdims=True, out=largest)
    np.maximum(largest, np.finfo(values.dtype).min, out=largest)
    np.subtract(values, largest, values)
