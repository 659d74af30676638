"""Tensors whose axes lie in another order than the imported model's: permutations and views without ops.

A front end reads models with channels first, prograd has channels last, and exporters write chains of views and
permutations. An `Arranged` tensor knows for each axis of the model the axes of the program's tensor that hold it. So a
permutation, a view that merges or splits axes, a new axis of extent 1 and an expansion append no ops:

1. Pointwise ops align their operands to the arrangement of the largest.
2. An op that needs axes in an order asks for that order; only then a transpose is appended.
3. An axis that merges a symbol with a number, such as batch * 49, stays split until it is split again.

An axis without axes in the program, or with extents of 1, is broadcast if its extent is larger.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from compiler.errors import CompileError
from compiler.frontends.extents import ONE, Extent, product, refined
from registry import Value, ops

LARGE = 1024
"""Assumed size of a symbol where operands are compared by size."""


@dataclass(frozen=True, eq=False)
class Arranged:
    """A tensor of a model within a program.

    Attributes:
        value: the tensor of the program.
        axes: for each axis of the model the axes of `value` that hold it, the slowest first.
        shape: the extents of the model's axes.
    """

    value: Value
    axes: tuple[tuple[int, ...], ...]
    shape: tuple[Extent, ...]

    @property
    def rank(self) -> int:
        """The number of axes in the model."""
        return len(self.shape)

    @property
    def dtype(self) -> str:
        """The name of the element type."""
        return self.value.dtype

    def held(self, axis: int) -> Extent:
        """Return the extent of an axis without broadcasting: 1, or that of the model."""
        return product(self.extent(place) for place in self.axes[axis])

    def extent(self, place: int) -> Extent:
        """Return an extent of `value`."""
        return Extent.of(self.value.shape[place])


def arranged(value: Value) -> Arranged:
    """Return a tensor of the program with its own order of axes."""
    return Arranged(value, tuple((i,) for i in range(value.rank)), tuple(map(Extent.of, value.shape)))


def transposed(value: Value, order: Sequence[int]) -> Arranged:
    """Return a tensor of the program, with its axis `order[i]` as axis i."""
    return permuted(arranged(value), order)


def permuted(x: Arranged, order: Sequence[int]) -> Arranged:
    """Return x with axis i being its axis `order[i]`."""
    return replace(x, axes=tuple(x.axes[i] for i in order), shape=tuple(x.shape[i] for i in order))


def unsqueezed(x: Arranged, axis: int) -> Arranged:
    """Return x with a new axis of extent 1 before `axis`."""
    return replace(x, axes=(*x.axes[:axis], (), *x.axes[axis:]), shape=(*x.shape[:axis], ONE, *x.shape[axis:]))


def squeezed(x: Arranged, axes: Sequence[int]) -> Arranged:
    """Return x without these axes, which have extent 1."""
    kept = [i for i in range(x.rank) if i not in axes]
    return permuted(x, kept)


def expanded(x: Arranged, shape: Sequence[Extent]) -> Arranged:
    """Return x broadcast to `shape`; no op is appended."""
    more = len(shape) - x.rank
    return replace(x, axes=((),) * more + x.axes, shape=tuple(shape))


def viewed(x: Arranged, shape: Sequence[Extent]) -> Arranged:
    """Return x in another shape, in row-major order of the model's axes."""
    if tuple(shape) == x.shape:
        return x
    old = _groups(x.shape, shape)
    if old is None:
        return _remade(x, shape)
    x = _without_partial_broadcast(x, old)
    factors: list[list[Extent]] = []
    for here, there in old:
        joined = [x.extent(place) for i in here for place in x.axes[i] if x.extent(place) != ONE]
        whole = [x.shape[i] for i in here]
        if all(x.held(i) == ONE for i in here) and product(whole) != ONE:
            joined = []  # the whole group is broadcast
        fine = refined(joined, [shape[i] for i in there if shape[i] != ONE]) if joined else []
        if fine is None:
            return _remade(x, shape)
        factors.append(fine)
    return _resplit(x, shape, old, factors)


def _resplit(
    x: Arranged,
    shape: Sequence[Extent],
    groups: Sequence[tuple[list[int], list[int]]],
    factors: Sequence[list[Extent]],
) -> Arranged:
    """Return x with axes of its value split into factors, and the new axes made of those."""
    pieces: dict[int, list[Extent]] = {}
    for (here, _), fine in zip(groups, factors, strict=True):
        queue = list(fine)
        for place in (place for i in here for place in x.axes[i] if x.extent(place) != ONE and fine):
            pieces[place] = _taken(queue, x.extent(place))
    value, numbers = _split(x.value, pieces)
    axes: list[tuple[int, ...]] = [()] * len(shape)
    for (here, there), fine in zip(groups, factors, strict=True):
        places = [number for i in here for place in x.axes[i] if place in pieces for number in numbers[place]]
        queue = list(zip(fine, places, strict=True))
        for i in there:
            count = len(_taken([extent for extent, _ in queue], shape[i])) if fine and shape[i] != ONE else 0
            axes[i] = tuple(place for _, place in queue[:count])
            del queue[:count]
    return Arranged(value, tuple(axes), tuple(shape))


def _taken(queue: list[Extent], whole: Extent) -> list[Extent]:
    """Remove from the queue the first factors whose product is `whole`, and return them."""
    made: list[Extent] = []
    while product(made) != whole:
        made.append(queue.pop(0))
    return made


def _split(value: Value, pieces: dict[int, list[Extent]]) -> tuple[Value, dict[int, list[int]]]:
    """Return the value with axes split into pieces, and for each of its axes the numbers of the new ones."""
    shape: list[int | str] = []
    numbers: dict[int, list[int]] = {}
    for place, extent in enumerate(value.shape):
        own = [piece.plain() for piece in pieces.get(place, ())] or [extent]
        numbers[place] = list(range(len(shape), len(shape) + len(own)))
        shape.extend(own)
    return _reshaped(value, shape), numbers


def _groups(old: Sequence[Extent], new: Sequence[Extent]) -> list[tuple[list[int], list[int]]] | None:
    """Return the smallest groups of adjacent axes with equal products in both shapes; None if the counts differ."""
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(old) or j < len(new):
        here, there = [i] if i < len(old) else [], [j] if j < len(new) else []
        i, j = i + len(here), j + len(there)
        while (a := product(old[k] for k in here)) != (b := product(new[k] for k in there)):
            if j < len(new) and (i >= len(old) or _is_smaller(b, a)):
                there.append(j)
                j += 1
            elif i < len(old):
                here.append(i)
                i += 1
            else:
                return None
        groups.append((here, there))
    return groups


def _is_smaller(a: Extent, b: Extent) -> bool:
    """Return True if b is a multiple of a, or the larger of the two for symbols of a large size."""
    quotient = b.over(a)
    return quotient is not None or (a.over(b) is None and _size(a) < _size(b))


def _size(extent: Extent) -> int:
    return extent.number * LARGE ** len(extent.symbols)


def _without_partial_broadcast(x: Arranged, groups: Sequence[tuple[list[int], list[int]]]) -> Arranged:
    """Broadcast the axes of a group in x if only some of them are broadcast."""
    for here, _ in groups:
        if any(x.held(i) != ONE for i in here):
            x = with_broadcast(x, here)
    return x


def with_broadcast(x: Arranged, axes: Sequence[int]) -> Arranged:
    """Return x with these axes held in full."""
    lazy = [i for i in axes if x.held(i) == ONE and x.shape[i] != ONE]
    if not lazy:
        return x
    places = [list(own) for own in x.axes]
    shape: list[int | str] = list(x.value.shape)
    value = x.value
    for i in lazy:
        if not places[i]:
            places[i] = [len(shape)]
            shape.append(1)
    value = _reshaped(value, shape)
    for i in lazy:
        shape[places[i][0]] = x.shape[i].plain()
    return Arranged(ops.broadcast_to(value, shape=tuple(shape)), tuple(map(tuple, places)), x.shape)


def _remade(x: Arranged, shape: Sequence[Extent]) -> Arranged:
    """Return x reshaped by an op, from the model's order."""
    value = plain(x)
    return arranged(_reshaped(value, [extent.plain() for extent in shape]))


def plain(x: Arranged) -> Value:
    """Return x with the axes and extents of the model."""
    return ordered(x, range(x.rank))


def ordered(x: Arranged, order: Sequence[int], *, broadcast: bool = True) -> Value:
    """Return a tensor of the program whose axis i is axis `order[i]` of the model.

    Axes that are broadcast have extent 1 unless `broadcast`.
    """
    value = _laid(x, [x.axes[i] for i in order])
    shape = tuple(x.shape[i].plain() for i in order) if broadcast else value.shape
    return value if shape == value.shape else ops.broadcast_to(value, shape=shape)


def trailing(x: Arranged, count: int) -> tuple[Value, Callable[[Value], Arranged]]:
    """Return x with its last axes at the end and the others in any order, and a function that arranges a result.

    The result of an op has the same axes before the last `count`, and any number of axes behind them.
    """
    first = x.rank - count
    x = with_broadcast(x, range(first, x.rank))
    last = [x.axes[i] for i in range(first, x.rank)]
    inside = {place for own in last for place in own}
    before = [place for place in range(x.value.rank) if place not in inside]
    value = _laid(x, [*((place,) for place in before), *last])

    def rebuilt(y: Value) -> Arranged:
        numbers = {place: i for i, place in enumerate(before)}
        axes = [tuple(numbers[place] for place in x.axes[i]) for i in range(first)]
        new = range(len(before), y.rank)
        shape = [*x.shape[:first], *(Extent.of(y.shape[i]) for i in new)]
        return Arranged(y, (*axes, *((i,) for i in new)), tuple(shape))

    return value, rebuilt


def like(x: Arranged, y: Value) -> Arranged:
    """Return the result of an op that keeps every axis of x.value where it is."""
    return replace(x, value=y)


def pointwise(function: Callable[..., Value], *operands: Arranged | float) -> Arranged:
    """Return the result of a pointwise function of broadcast tensors and numbers, arranged like the largest."""
    tensors = [x for x in operands if isinstance(x, Arranged)]
    if len(tensors) == 1:
        [x] = tensors
        return like(x, function(*(o.value if isinstance(o, Arranged) else o for o in operands)))
    values, rebuilt = aligned(tensors)
    queue = iter(values)
    return rebuilt(function(*(next(queue) if isinstance(o, Arranged) else o for o in operands)))


def aligned(tensors: Sequence[Arranged], last: int = 0) -> tuple[list[Value], Callable[[Value], Arranged]]:
    """Return tensors as values that broadcast, arranged like the largest, and a function that arranges a result.

    The last axes of each, `last` of them, are at the end in the order of the model and do not broadcast.
    """
    rank = max(x.rank for x in tensors)
    padded = [_with_rank(x, rank) for x in tensors]
    padded = [with_broadcast(x, range(rank - last, rank)) for x in padded]
    shape = [_broadcast([x.shape[i] for x in padded]) for i in range(rank - last)]
    factors = [_common_factors([x for x in padded if x.held(i) != ONE], i) for i in range(rank - last)]
    padded = [_with_factors(x, factors) for x in padded]
    lead = max(padded, key=lambda x: product(map(x.extent, range(x.value.rank))).number * LARGE ** _symbols(x))
    slots = _slots(lead, factors, last)
    values = [_placed(x, slots, rank - last, last, full=x is lead or last > 0) for x in padded]

    def rebuilt(y: Value) -> Arranged:
        axes = [tuple(slots.index((i, k)) for k in range(len(factors[i]))) for i in range(rank - last)]
        new = range(len(slots), y.rank)
        return Arranged(y, (*axes, *((i,) for i in new)), (*shape, *(Extent.of(y.shape[i]) for i in new)))

    return values, rebuilt


Slot = tuple[int, int]
"""An axis of aligned values: the number of an axis of the model and the number of its factor; -1 for extent 1."""


def _slots(lead: Arranged, factors: Sequence[Sequence[Extent]], last: int) -> list[Slot]:
    """Return the axes that all operands get: first the axes of the lead in its order, then all others by number."""
    of_place: dict[int, Slot] = {}
    for i in range(lead.rank - last):
        wide = [place for place in lead.axes[i] if lead.extent(place) != ONE]
        of_place.update((place, (i, k)) for k, place in enumerate(wide))
    inside = {place for own in lead.axes[lead.rank - last :] for place in own} if last else set[int]()
    slots = [of_place.get(place, (-1, place)) for place in range(lead.value.rank) if place not in inside]
    for i, fine in enumerate(factors):
        if fine and (i, 0) not in slots:
            free = [(-1, place) for place in lead.axes[i] if (-1, place) in slots]
            if len(fine) == 1 and free:
                slots[slots.index(free[0])] = (i, 0)
                continue
            after = max((number + 1 for number, slot in enumerate(slots) if -1 < slot[0] < i), default=0)
            slots[after:after] = [(i, k) for k in range(len(fine))]
    return slots


def _placed(x: Arranged, slots: Sequence[Slot], first: int, last: int, *, full: bool) -> Value:
    """Return x with its axes at the slots, extents of 1 elsewhere.

    Leading axes of extent 1 are left out unless `full`, or unless x has them already: a reshape would end a fused
    group.
    """
    places: dict[Slot, int] = {}
    for i in range(first):
        wide = [place for place in x.axes[i] if x.extent(place) != ONE]
        places.update(((i, k), place) for k, place in enumerate(wide))
    groups = [(places[slot],) if slot in places else () for slot in slots]
    ends = [x.axes[i] for i in range(first, first + last)]
    if not full and not _is_laid(x, [*groups, *ends]):
        while groups and not groups[0]:
            groups = groups[1:]
    return _laid(x, [*groups, *ends])


def _with_rank(x: Arranged, rank: int) -> Arranged:
    return expanded(x, (*(ONE,) * (rank - x.rank), *x.shape))


def _symbols(x: Arranged) -> int:
    return sum(isinstance(extent, str) for extent in x.value.shape)


def _broadcast(extents: Sequence[Extent]) -> Extent:
    wide = list(dict.fromkeys(extent for extent in extents if extent != ONE))
    if len(wide) > 1:
        raise CompileError(f"extents {wide[0]} and {wide[1]} do not broadcast")
    return wide[0] if wide else ONE


def _common_factors(tensors: Sequence[Arranged], axis: int) -> list[Extent]:
    """Return factors of an axis into which every tensor can be split; the axis itself if there are none."""
    made: list[Extent] | None = None
    for x in tensors:
        own = [x.extent(place) for place in x.axes[axis] if x.extent(place) != ONE]
        made = own if made is None else refined(made, own)
        if made is None:
            return [x.shape[axis]]
    return made or []


def _with_factors(x: Arranged, factors: Sequence[Sequence[Extent]]) -> Arranged:
    """Return x with each axis held by exactly these factors, or broadcast."""
    for i, fine in enumerate(factors):
        own = [x.extent(place) for place in x.axes[i] if x.extent(place) != ONE]
        if own and own != list(fine):
            x = _merged(x, i) if len(fine) == 1 else x
            shape = [*x.shape[:i], *fine, *x.shape[i + 1 :]]
            x = viewed(x, shape)
            count = len(fine)
            joined = tuple(place for own in x.axes[i : i + count] for place in own)
            x = Arranged(
                x.value,
                (*x.axes[:i], joined, *x.axes[i + count :]),
                (*x.shape[:i], product(fine), *x.shape[i + count :]),
            )
    return x


def _merged(x: Arranged, axis: int) -> Arranged:
    """Return x with one axis of its value for this axis of the model."""
    if len(x.axes[axis]) <= 1:
        return x
    own = x.axes[axis]
    groups: list[tuple[int, ...]] = []
    for place in range(x.value.rank):
        if place == own[0]:
            groups.append(own)
        elif place not in own:
            groups.append((place,))
    value = _laid(x, groups)
    number = {place: n for n, group in enumerate(groups) for place in group}
    axes = [(number[own[0]],) if i == axis else tuple(number[p] for p in places) for i, places in enumerate(x.axes)]
    return Arranged(value, tuple(axes), x.shape)


def single(x: Arranged, axes: Sequence[int]) -> tuple[Arranged, list[int]]:
    """Return x with each of these axes held by one axis of its value, and those."""
    x = with_broadcast(x, axes)
    for axis in axes:
        x = _merged(x, axis)
        if not x.axes[axis]:
            value = _reshaped(x.value, [*x.value.shape, 1])
            x = Arranged(value, tuple((value.rank - 1,) if i == axis else own for i, own in enumerate(x.axes)), x.shape)
    return x, [x.axes[axis][0] for axis in axes]


def _is_laid(x: Arranged, groups: Sequence[tuple[int, ...]]) -> bool:
    """Return True if the value has an axis for each group already, in this order."""
    wide = [place for group in groups for place in group if x.extent(place) != ONE]
    shape = tuple(product(map(x.extent, group)).plain() for group in groups)
    return wide == sorted(wide) and shape == x.value.shape


def _laid(x: Arranged, groups: Sequence[tuple[int, ...]]) -> Value:
    """Return the value with one axis for each of these groups of its axes, in this order; other axes have extent 1."""
    wide = [place for group in groups for place in group if x.extent(place) != ONE]
    shape = [product(map(x.extent, group)).plain() for group in groups]
    if wide == sorted(wide):
        return _reshaped(x.value, shape)
    order = [place for group in groups for place in group]
    rest = [place for place in range(x.value.rank) if place not in order]
    return _reshaped(ops.transpose(x.value, axis=(*rest, *order)), shape)


def _reshaped(value: Value, shape: Sequence[int | str]) -> Value:
    return value if tuple(shape) == value.shape else ops.reshape(value, shape=tuple(shape))
