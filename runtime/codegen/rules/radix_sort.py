"""Sorting of long rows, digit by digit: keys without a sign, sorted by their bytes, the lowest byte first.

Each pass keeps the order of keys with an equal byte, so the first of equal elements comes first. A byte that all keys
of a row have in common is skipped. NaN is larger than any number, and both zeros are equal. (Radix sort, H. Seward,
1954.)

If few of the elements are asked for, a bound is found first, and only keys that are not above it are sorted.
"""

from __future__ import annotations

from typing import Final

from prograd_proto import TensorType
from runtime.codegen.costs import SORTED_ELEMENT_CYCLES
from runtime.codegen.ir import DTYPES, INT32, INT64, UINT8, Index, Type, Value
from runtime.codegen.ir.types import UINT32, UINT64
from runtime.codegen.ir.words import any_lane, bits, convert, is_nan, minimum, where
from runtime.codegen.kernels.indices import index_dtype
from runtime.codegen.kernels.split import power_of_two_up_to
from runtime.codegen.kernels.steps import KernelContext, KernelStep, KernelSteps
from runtime.codegen.rules.index import row_blocks

DIGIT_VALUES: Final = 256
"""Number of values of a byte."""

KEYS, PLACES, COUNTS = range(3)
"""Scratch of the thread: keys twice, their indices twice, and the number of keys for each value of each byte."""

MAX_SELECTED_SHARE: Final = 1 / 8
"""Upper bound on the share of a row that is asked for, where leaving out keys before sorting is worthwhile."""

UNSIGNED: Final = {8: UINT8, 32: UINT32, 64: UINT64}
SIGNED: Final = {32: INT32, 64: INT64}
"""Signed integer types by the bits of an element."""


def all_of_order(
    x: TensorType, axis: int, count: int, largest: bool, outputs: tuple[int | None, int | None]
) -> KernelSteps:
    """Return the steps that order the first `count` elements of every row along an axis.

    `outputs` are the numbers of the results for elements and for indices.
    """
    rows, element = row_blocks(x, axis), DTYPES[x.dtype]
    digits, few = element.bits // 8, count <= x.static_shape[axis] * MAX_SELECTED_SHARE

    def write(context: KernelContext, start: Value, stop: Value) -> None:
        f = context.f
        order = _Order(context, element, rows.size, largest)
        source = context.operand(0)
        for item in f.range(start, stop):
            block, column = f.index(item) // rows.after, f.index(item) % rows.after
            row = source + (block * rows.size * rows.after + column)
            if few:
                order.begin_with_first(row, rows.after, count)
            else:
                order.begin(row, rows.after)
            for digit in range(digits):
                order.sort(digit)
            for i in f.range(0, count):
                to, index = (block * count + i) * rows.after + column, order.place(i)
                values = f.load(row, index * rows.after), index
                for value, output in zip(values, outputs, strict=True):
                    if output is not None:
                        f.store(value, context.outputs[output], to)

    items, passes = rows.before * rows.after, 2 if few else digits
    place_bytes = DTYPES[index_dtype(rows.size)].bits // 8
    own = (2 * rows.size * element.bits // 8, 2 * rows.size * place_bytes, digits * DIGIT_VALUES * place_bytes)
    return KernelSteps(
        (KernelStep(write, items, items * rows.size * passes * SORTED_ELEMENT_CYCLES),),
        thread_scratch=tuple(max(s, 64) for s in own),
    )


class _Order:
    """The keys of a row, and the index of each."""

    def __init__(self, context: KernelContext, element: Type, size: int, largest: bool) -> None:
        self.f, self.element, self.size, self.largest = context.f, element, size, largest
        self.keys = context.thread_scratch(KEYS, UNSIGNED[element.bits])
        self.index = DTYPES[index_dtype(size)]
        self.places, self.counts = (
            context.thread_scratch(PLACES, self.index),
            context.thread_scratch(COUNTS, self.index),
        )
        self.half = self.f.local()  # the half of KEYS and PLACES, 0 or 1, with the order so far
        self.number = self.f.local()  # of the keys that are sorted

    def begin(self, row: Value, step: int) -> None:
        """Compute the keys, and count the values of all their bytes."""
        f = self.f
        self._clear()
        for i in f.range(0, self.size):
            self._add(f.index(i), self._key(f.load(row, i * step)), f.index(i))
        f.store(f.index(self.size), self.number)

    def begin_with_first(self, row: Value, step: int, count: int) -> None:
        """Compute the keys, and keep those that may be among the first `count`.

        The row is cut into more than `count` parts, and each part has a least key. The least key number `count` is a
        bound: no key above it is among the first. So all other keys are passed over, a vector at a time.
        """
        f = self.f
        self._clear()
        parts = self._least_keys(row, step, power_of_two_up_to(self.size // (2 * count)))
        for i in f.range(0, parts):
            self._add(f.index(i), f.load(self.keys, f.index(i) + self.size), f.index(i))
        f.store(f.index(parts), self.number)
        for digit in range(self.element.bits // 8):
            self.sort(digit)
        bound = f.load(self.keys, f.load(self.half) * self.size + (count - 1))
        self._clear()
        self._keep_up_to(bound, row, step)

    def _least_keys(self, row: Value, step: int, vectors: int) -> int:
        """Store the least key of each part of the row in the second half of the keys, and return how many there are.

        A part is one lane of successive vectors, or an element behind the last vector.
        """
        f, [lanes, whole] = self.f, self._vectors(step)

        def least(start: Index, stop: Index, to: Index) -> None:
            loop = f.loop(f.index(start) + 1, stop, 1, [self._keys_at(row, step, start)])
            for i, [key] in loop:
                loop.carry([minimum(key, self._keys_at(row, step, i))])
            f.store(loop.results[0], self.keys, f.index(to) * max(lanes, 1) + self.size)

        groups, rest = divmod(whole, vectors)
        for group in f.range(0, groups):
            first = f.index(group) * vectors
            least(first, first + vectors, group)
        if rest:
            least(groups * vectors, whole, groups)
        parts, end = (groups + bool(rest)) * max(lanes, 1), whole * max(lanes, 1)
        for i in f.range(end, self.size):
            f.store(self._key(f.load(row, f.index(i) * step)), self.keys, f.index(i) + (self.size + parts - end))
        return parts + self.size - end

    def _keep_up_to(self, bound: Value, row: Value, step: int) -> None:
        """Add the keys that are not above a bound, in the order of the row."""
        f, [lanes, whole] = self.f, self._vectors(step)

        def keep(i: Index) -> None:
            key = self._key(f.load(row, f.index(i) * step))
            with f.when(key <= bound):
                number = f.load(self.number)
                self._add(number, key, f.index(i))
                f.store(number + 1, self.number)

        if lanes:
            for vector in f.range(0, whole):
                with f.when(any_lane(self._keys_at(row, step, vector) <= bound)):
                    for i in f.range(f.index(vector) * lanes, f.index(vector) * lanes + lanes):
                        keep(i)
        for i in f.range(whole * lanes, self.size):
            keep(i)

    def _vectors(self, step: int) -> tuple[int, int]:
        """Return the lanes of vectors of a row, 0 if its elements are apart, and the number of vectors or elements."""
        lanes = self.f.target.lanes(self.element.bits) if step == 1 else 0
        return lanes, self.size // max(lanes, 1)

    def _keys_at(self, row: Value, step: int, vector: Index) -> Value:
        """Return the keys of a vector of the row, or of an element."""
        lanes, _ = self._vectors(step)
        return self._key(self.f.load(row, self.f.index(vector) * (lanes or step), lanes))

    def _clear(self) -> None:
        f = self.f
        f.store(f.index(0), self.half)
        f.store(f.index(0), self.number)
        for i in f.range(0, self.element.bits // 8 * DIGIT_VALUES):
            f.store(f.constant(self.index, 0), self.counts, i)

    def _add(self, to: Index, key: Value, place: Value) -> None:
        self.f.store(key, self.keys, to)
        self.f.store(convert(place, self.index), self.places, to)
        for digit in range(self.element.bits // 8):
            self._count(key, digit)

    def _count(self, key: Value, digit: int) -> None:
        at = self._byte(key, digit)
        self.f.store(self.f.load(self.counts, at) + 1, self.counts, at)

    def sort(self, digit: int) -> None:
        """Order the keys by a byte, unless it is the same in all of them."""
        f = self.f
        one, number = self._byte(f.load(self.keys), digit), f.load(self.number)
        with f.when(convert(f.load(self.counts, one), INT64).not_equal(number)):
            loop = f.loop(0, DIGIT_VALUES, 1, [f.constant(self.index, 0)])
            for value, [before] in loop:
                at = f.index(value) + digit * DIGIT_VALUES
                count = f.load(self.counts, at)
                f.store(before, self.counts, at)
                loop.carry([before + count])
            half = f.load(self.half)
            source, goal = half * self.size, (1 - half) * self.size
            for i in f.range(0, number):
                key = f.load(self.keys, source + i)
                at = self._byte(key, digit)
                index = f.load(self.counts, at)
                f.store(index + 1, self.counts, at)
                to = goal + convert(index, INT64)
                f.store(key, self.keys, to)
                f.store(f.load(self.places, source + i), self.places, to)
            f.store(1 - half, self.half)

    def place(self, number: Index) -> Value:
        """Return the index of the element at this position of the order."""
        return convert(self.f.load(self.places, self.f.load(self.half) * self.size + number), INT64)

    def _byte(self, key: Value, digit: int) -> Value:
        """Return the position of the counter of a byte of a key."""
        return convert((key >> (8 * digit)) & (DIGIT_VALUES - 1), INT64) + digit * DIGIT_VALUES

    def _key(self, x: Value) -> Value:
        """Return an unsigned integer that sorts as the element does."""
        unsigned, top = UNSIGNED[x.type.bits], x.type.bits - 1
        if x.type.kind == "unsigned":
            key = x
        elif x.type.is_float:
            number = bits(where(x.equal(0), 0.0, x), SIGNED[x.type.bits])
            key = bits(number ^ (number >> top), unsigned) ^ (bits(number, unsigned) & (1 << top)) ^ (1 << top)
            key = where(is_nan(x), (1 << x.type.bits) - 1, key)
        else:
            key = bits(x, unsigned) ^ (1 << top)
        return ~key if self.largest else key
