"""Connectionist temporal classification: a work item is a row of the batch, with vectors of states, step after step.

The recursion is that of the reference kernel: sums of logarithms, less the maximum of the row at each step. States
beyond a row's labels and steps beyond its length are left out. The states are padded with states that no path visits.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, nan
from typing import Any, Final

from runtime.codegen import math
from runtime.codegen.costs import CTC_VECTOR_CYCLES
from runtime.codegen.ir import DTYPES, FLOAT64, INT64, UINT64, Index, Type, Value
from runtime.codegen.ir.words import across, bits, convert, is_nan, maximum, where
from runtime.codegen.kernels.op_types import OpTypes
from runtime.codegen.kernels.steps import KernelContext, KernelStep, KernelSteps
from runtime.codegen.machine import Target
from runtime.codegen.rules.rule import RULES, CustomKernel

EDGE, JUMP, EMITTED, WAYS, CLASSES, FRONTS = range(6)
"""Scratch of the thread, with one element for each state:

EDGE has the values of the recursion. JUMP is 0 where a path may skip the blank before the state, else -inf. EMITTED has
the logarithm of the state's class at this step, WAYS the next values, and CLASSES the classes. FRONTS has EDGE of all
steps, for the gradient.
"""

LOWEST_FINITE: Final = {32: -3.4028234663852886e38, 64: -1.7976931348623157e308}
"""The lower bound on the maximum that is subtracted from a row; without it, a row of -inf would become NaN."""


def ctc(target: Target, op: OpTypes) -> KernelSteps:
    """Return the kernel steps of the loss of each row."""

    def row(lattice: _Lattice, number: Value) -> None:
        scale = lattice.forward(is_kept=False)
        lattice.f.store(lattice.loss(scale), lattice.context.outputs[0], number)

    return _steps(target, op, [0, 1, 2, 3], row, is_gradient=False)


def ctc_gradient(target: Target, op: OpTypes) -> KernelSteps:
    """Return the kernel steps of the gradient: -dy times the probability of each class at each step."""

    def row(lattice: _Lattice, number: Value) -> None:
        lattice.forward(is_kept=True)
        dy = lattice.context.operand(2)
        lattice.backward(lattice.f.load(dy, number))

    return _steps(target, op, [0, 1, 3, 4], row, is_gradient=True)


def _steps(target: Target, op: OpTypes, order: Sequence[int], row: Any, is_gradient: bool) -> KernelSteps:
    x, labels, blank = op.operand(0), op.operand(1), op.attributes["blank"]
    element, rows = DTYPES[x.dtype], x.static_shape[0]
    lanes = target.nominal.lanes(element.bits)  # narrower registers hold parts of these vectors
    sizes = (*x.static_shape[1:], labels.static_shape[1])
    wide = -(-(2 * sizes[2] + 1) // lanes) * lanes

    def write(context: KernelContext, start: Value, stop: Value) -> None:
        lattice = _Lattice(context, element, lanes, sizes, blank, order)
        for number in context.f.range(start, stop):
            lattice.begin(context.f.index(number))
            row(lattice, context.f.index(number))

    memory_budget = (wide + 3 * lanes) * element.bits // 8
    own = [memory_budget] * 4 + [wide * 8] + ([sizes[0] * wide * element.bits // 8] if is_gradient else [])
    cost = rows * sizes[0] * wide / lanes * CTC_VECTOR_CYCLES * (2 if is_gradient else 1)
    return KernelSteps((KernelStep(write, rows, cost),), thread_scratch=tuple(own), has_runtime_check=True)


class _Lattice:
    """The states of a row: its labels, with blanks between them."""

    def __init__(
        self,
        context: KernelContext,
        element: Type,
        lanes: int,
        sizes: tuple[int, ...],
        blank: int,
        order: Sequence[int],
    ) -> None:
        self.context, self.f, self.element, self.lanes, self.blank = context, context.f, element, lanes, blank
        self.all_steps, self.every_class, self.all_labels = sizes
        self.x, self.labels = map(context.operand, order[:2])
        self.input_lengths, self.label_lengths = (context.inputs[number] for number in order[2:])
        self.wide = -(-(2 * sizes[2] + 1) // lanes) * lanes
        self.edge, self.jump, self.emitted, self.ways = (
            context.thread_scratch(i, element) + lanes for i in range(CLASSES)
        )
        self.classes, self.vector = context.thread_scratch(CLASSES, INT64), element.of(lanes)

    def begin(self, row: Value) -> None:
        """Read lengths and labels, and start in the first blank."""
        f = self.f
        self.steps = self._length(self.input_lengths, row, self.all_steps)
        count = self._length(self.label_lengths, row, self.all_labels)
        self.states, self.last = count * 2 + 1, count * 2
        self.line = self.x + row * (self.all_steps * self.every_class)
        self.row = row
        for at in (self.edge, self.jump, self.emitted):
            self._fill(at, -inf, -self.lanes, self.wide + 2 * self.lanes)
        f.store(f.constant(self.element, 0), self.edge)
        for i in f.range(0, self.all_labels + 1):
            f.store(f.index(self.blank), self.classes, f.index(i) * 2)
        for i in f.range(0, count):
            self._label(row, f.index(i))

    def forward(self, is_kept: bool) -> Value:
        """Run the recursion over all steps; return the sum of the subtracted maxima, in float64."""
        f = self.f
        steps = f.loop(0, self.steps, 1, [f.constant(FLOAT64, 0)])
        for t, [scale] in steps:
            self._emit(f.index(t))
            ways = f.loop(0, self.states, self.lanes, [f.constant(self.vector, LOWEST_FINITE[self.element.bits])])
            for j, [most] in ways:
                stay, move, jump = (self._read(self.edge, j - distance) for distance in range(3))
                way = self._sum(stay, move, jump + self._read(self.jump, j)) + self._read(self.emitted, j)
                f.store(way, self.ways, j)
                ways.carry([maximum(most, way)])
            largest = self._less_largest(ways.results[0], f.index(t) if is_kept else None)
            steps.carry([scale + convert(largest, FLOAT64)])
        return steps.results[0]

    def loss(self, scale: Value) -> Value:
        """Return minus the logarithm of the total probability of the paths that end in one of the last two states."""
        ends = [self.f.load(self.edge, self.last - i) for i in range(2)]
        largest = maximum(maximum(ends[0], ends[1]), LOWEST_FINITE[self.element.bits])
        total = math.log(math.exp(ends[0] - largest) + math.exp(ends[1] - largest))
        return convert(-(scale + convert(largest, FLOAT64) + convert(total, FLOAT64)), self.element)

    def backward(self, dy: Value) -> None:
        """Run the recursion from the last step to the first, after `forward`, and write the gradient of each step."""
        f, out = self.f, self.context.outputs[0] + self.row * (self.all_steps * self.every_class)
        spreads = is_nan(dy * 0.0) | self._has_nan()
        self._fill(out, 0.0, 0, self.all_steps * self.every_class)
        self._fill(self.edge, -inf, -self.lanes, self.wide + 2 * self.lanes)
        for i in range(2):
            f.store(f.constant(self.element, 0), self.edge, self.last - i)
        f.store(f.constant(self.element, -inf), self.edge, -1)  # with no labels, there is one end, not two
        for i in f.range(0, self.steps):
            t = self.steps - 1 - i
            self._shares(t, dy, out + t * self.every_class)
            self._back(t)
        with f.when(spreads):
            for t in f.range(self.steps, self.all_steps):  # also beyond the row's length
                for j in f.range(0, self.states):
                    f.store(f.constant(self.element, nan), out + t * self.every_class, f.load(self.classes, j))

    def _has_nan(self) -> Value:
        """Return True, as a scalar, if a value of the recursion is NaN."""
        f = self.f
        most = f.loop(0, self.states, self.lanes, [f.constant(self.vector, -inf)])
        for j, [largest] in most:
            most.carry([maximum(largest, self._read(self.edge, j))])
        return is_nan(across(most.results[0], maximum))

    def _fill(self, at: Value, number: float, start: int, stop: int) -> None:
        f, whole = self.f, start + (stop - start) // self.lanes * self.lanes
        for i in f.range(start, whole, self.lanes):
            f.store(f.constant(self.vector, number), at, i)
        for i in f.range(whole, stop):
            f.store(f.constant(self.element, number), at, i)

    def _shares(self, t: Value, dy: Value, out: Value) -> None:
        """Subtract dy times each state's share of all paths, at one step, from the gradient of the state's class."""
        f, front = self.f, self.context.thread_scratch(FRONTS, self.element) + t * self.wide
        most = f.loop(0, self.states, self.lanes, [f.constant(self.vector, LOWEST_FINITE[self.element.bits])])
        for j, [largest] in most:
            both = self._read(front, j) + self._read(self.edge, j)
            f.store(both, self.ways, j)
            most.carry([maximum(largest, both)])
        largest = f.splat(across(most.results[0], maximum), self.lanes)
        sums = f.loop(0, self.states, self.lanes, [f.constant(self.vector, 0)])
        for j, [total] in sums:
            share = math.exp(self._read(self.ways, j) - largest)
            f.store(share, self.ways, j)
            sums.carry([total + share])
        whole = maximum(
            across(sums.results[0], lambda a, b: a + b), 1.0
        )  # below 1 only if there is no path, as the largest term is 1
        for j in f.range(0, self.states, self.lanes):
            f.store(self._read(self.ways, j) / whole * dy, self.ways, j)
        blanks = f.loop(0, self.last, 2, [0 - f.load(self.ways)])
        for j, [blank] in blanks:
            index = f.load(self.classes, f.index(j) + 1)
            f.store(f.load(out, index) - f.load(self.ways, f.index(j) + 1), out, index)
            blanks.carry([blank - f.load(self.ways, f.index(j) + 2)])
        behind = where(
            self.last < 2 * self.all_labels, dy * 0.0, 0.0
        )  # 0 * dy of states beyond the labels: NaN if dy is infinite
        f.store(blanks.results[0] - behind, out, self.blank)

    def _back(self, t: Value) -> None:
        f = self.f
        self._emit(t)
        for j in f.range(0, self.states, self.lanes):
            f.store(self._read(self.edge, j) + self._read(self.emitted, j), self.edge, j)
        ways = f.loop(0, self.states, self.lanes, [f.constant(self.vector, LOWEST_FINITE[self.element.bits])])
        for j, [most] in ways:
            stay, move, jump = (self._read(self.edge, j + distance) for distance in range(3))
            way = self._sum(stay, move, jump + self._read(self.jump, j + 2))
            f.store(way, self.ways, j)
            ways.carry([maximum(most, way)])
        self._less_largest(ways.results[0], None)

    def _less_largest(self, most: Value, kept: Value | None) -> Value:
        """Store the next values less their maximum in EDGE, and in row `kept` of FRONTS; return the maximum."""
        f = self.f
        largest = across(most, maximum)
        for j in f.range(0, self.states, self.lanes):
            value = self._read(self.ways, j) - largest
            f.store(value, self.edge, j)
            if kept is not None:
                f.store(value, self.context.thread_scratch(FRONTS, self.element), kept * self.wide + j)
        return largest

    def _sum(self, *ways: Value) -> Value:
        """Return log(sum(exp(way))) of three ways into a state."""
        peak = maximum(maximum(maximum(ways[0], ways[1]), ways[2]), LOWEST_FINITE[self.element.bits])
        total = math.exp_below(ways[0] - peak) + math.exp_below(ways[1] - peak) + math.exp_below(ways[2] - peak)
        return math.log(total) + peak

    def _emit(self, t: Value) -> None:
        """Read the logarithms of the states' classes at a step."""
        at = self.line + t * self.every_class
        for j in self.f.range(0, self.states):
            self.f.store(self.f.load(at, self.f.load(self.classes, j)), self.emitted, j)

    def _label(self, row: Value, i: Value) -> None:
        """Store a label as the class of a state; a path may jump to it if the label before differs."""
        f, index = self.f, i * 2 + 1
        label = convert(f.load(self.labels, row * self.all_labels + i), INT64)
        is_wrong = (bits(label, UINT64) >= self.every_class) | label.equal(self.blank)
        self._refuse_if(is_wrong)
        label = where(is_wrong, self.blank, label)
        f.store(label, self.classes, index)
        may = (i > 0) & label.not_equal(f.load(self.classes, maximum(index - 2, 1)))
        f.store(where(may, f.constant(self.element, 0), -inf), self.jump, index)

    def _length(self, lengths: Value | None, row: Value, most: int) -> Value:
        if lengths is None:
            return self.f.index(most)
        length = convert(self.f.load(lengths, row), INT64)
        is_wrong = bits(length, UINT64) > most
        self._refuse_if(is_wrong)
        return where(is_wrong, 0, length)

    def _refuse_if(self, is_wrong: Value) -> None:
        with self.f.when(is_wrong):
            self.context.fail_check()

    def _read(self, at: Value, j: Index) -> Value:
        return self.f.load(at, j, self.lanes)


OPERAND_DTYPES: Final = frozenset({"float32", "float64", "int32", "int64"})
RULES["ctc"] = CustomKernel(ctc, OPERAND_DTYPES)
RULES["ctc_gradient"] = CustomKernel(ctc_gradient, OPERAND_DTYPES)
