"""Groups that end with the mean and the variance of each channel: one pass over the elements computes both.

Work items and parts are those of other reductions down rows. A part keeps three numbers for each channel: its first
row, from which it counts distances, the mean of these distances, and the sum of squared deviations from its own mean. A
second kernel step joins the parts in order. It counts distances from the first row of the first part, so the
differences between parts are exact where the mean is large. See `kernels.moments` for the order of additions.
"""

from __future__ import annotations

from collections.abc import Sequence

from runtime.codegen.emit.reductions import Reductions, reductions_of, shape_of, steps_of_reductions
from runtime.codegen.groups.group_kernel import GroupKernel
from runtime.codegen.ir import Index, Value
from runtime.codegen.kernels.moments import moments_of_rows, shift_of
from runtime.codegen.kernels.nest import offset_of, piece, pieces_of
from runtime.codegen.machine import Target
from runtime.codegen.rules import KernelSteps, Moment, Reduction

SHIFTS, MEANS, SQUARES = range(3)
"""Numbers of the scratch with the first rows, the means of distances, and the squared deviations of parts."""


def has_moments(kernel: GroupKernel) -> bool:
    """Return True if the reductions of a group are moments."""
    return any(isinstance(node.rule, Moment) for node in kernel.group.nodes)


def moment_steps(target: Target, kernel: GroupKernel) -> KernelSteps:
    """Return one kernel step, or two if parts have to be joined."""
    shape = shape_of(target, kernel)
    assert shape.columns is not None, "channels are kept"
    assert len(shape.reduced) == 1, "all other axes are neighbours"
    item = reductions_of(kernel, shape)[0].accumulator.bits // 8
    return steps_of_reductions(kernel, shape, _Moments, [item] * 3)


class _Moments(Reductions):
    """The code of a group's moments."""

    def reduced_parts(self, vector: Index) -> None:
        """Join the parts of a vector of results."""
        accumulator, vectors = self.reductions[0].accumulator, pieces_of(self.shape.results, self.shape.lanes)
        for i, count in piece(self.f, vector, vectors):
            at = [self.context.shared_scratch(number, accumulator) + i for number in (SHIFTS, MEANS, SQUARES)]
            self._finish_moments(*self._joined(at, count), i, count)

    def _joined(self, at: Sequence[Value], count: int) -> tuple[Value, Value]:
        """Return the mean and the squared deviations of all parts of a vector of results."""
        f, lanes, parts, results = self.f, self.shape.lanes, self.shape.parts, self.shape.results
        last = parts.pieces - 1

        def read(number: int, part: Index) -> Value:
            return f.load(at[number], part * results, lanes, count)

        shift = read(SHIFTS, 0)

        def mean_of(part: Index) -> Value:
            return (read(SHIFTS, part) - shift) + read(MEANS, part)

        loop = f.loop(1, last, 1, [read(MEANS, 0)])
        for part, [total] in loop:
            loop.carry([total + mean_of(part)])
        [total] = loop.results
        mean = (total * float(parts.size) + mean_of(last) * float(parts.last)) / float(self.count)
        loop = f.loop(0, last, 1, [f.constant(mean.type, 0)] * 2)
        for part, [within, between] in loop:
            far = mean_of(part) - mean
            loop.carry([within + read(SQUARES, part), f.fma(far, far, between)])
        within, between = loop.results
        far = mean_of(last) - mean
        squares = within + read(SQUARES, last) + (between * float(parts.size) + far * far * float(parts.last))
        return shift + mean, squares

    def _stretch(
        self, kept: Sequence[Index], part: Index, first: Index, size: int, column: Index, columns: int
    ) -> None:
        """Compute `columns` contiguous channels of a part."""
        shape, context = self.shape, self.context
        indices = dict(zip(shape.kept, [*kept, column], strict=True))
        [block], accumulator = shape.reduced, self.reductions[0].accumulator
        vectors = list(range(0, columns, shape.lanes))

        def read(row: Index, v: int) -> Value:
            return self._elements(self._at(indices, block, first + row), [vectors[v]], columns)[0]

        shifts = [shift_of(read(0, v)) for v in range(len(vectors))]
        found = moments_of_rows(self.f, size, read, shifts)
        steps = shape.loops.strides[self.reductions[0].node.outputs[0]]
        result = offset_of([indices.get(axis, 0) for axis in range(len(steps))], steps)
        for i, shift, moments in zip(vectors, shifts, found, strict=True):
            count = min(shape.lanes, columns - i)
            mean = moments.sum / float(size)
            if shape.parts.pieces == 1:
                self._finish_moments(shift + mean, moments.squares, result + i, count)
                continue
            for number, x in enumerate((shift, mean, moments.squares)):
                to = context.shared_scratch(number, accumulator) + part * shape.results
                self.f.store(x, to + (result + i), 0, count)

    def _finish_moments(self, mean: Value, squares: Value, at: Index, count: int) -> None:
        rules: list[Reduction] = [of.rule for of in self.reductions]
        variance = squares / float(self.count)
        totals = [variance if isinstance(rule, Moment) and rule.is_variance else mean for rule in rules]
        self._finish(totals, at, count)
