"""The gradients of a recurrent layer, from the last step to the first.

A kernel step is a time step: its work items are parts of the states, with their gates. A part adds the contributions of
all parts of the following time step to the gradient of its states. It goes through the cells and multiplies the
gradients of the gates by the transposed weights: that is its contribution to the gradient of all earlier states.
Threads exchange these sums, which are few, instead of the gradients of gates, and each finds its weights in its caches.

The number of parts sets the order of additions, so it depends on no number of threads. If there are more threads than
parts, a time step is two kernel steps: the cells, whose work items are vectors of states, and the products, whose work
items are ranges of panels of the states in parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from operator import add
from typing import Final, NamedTuple

from runtime.codegen.costs import CELL_CYCLES, MIN_CHUNK_CYCLES, PACKED_ELEMENT_CYCLES, REMOTE_PARTIAL_SUM_CYCLES
from runtime.codegen.ir import Index, Value
from runtime.codegen.ir.words import convert, maximum, where
from runtime.codegen.kernels.matmul import Matrix, PairedMatrix
from runtime.codegen.kernels.matmul.packing import packed_right
from runtime.codegen.kernels.recurrent import biases, cells
from runtime.codegen.kernels.recurrent.forward import read
from runtime.codegen.kernels.recurrent.layer import (
    OPERANDS,
    Layer,
    StatePosition,
    hides,
    kept,
    pad,
    rounded,
    store_result,
)
from runtime.codegen.kernels.recurrent.recomputed_gates import RecomputedGates, gate_at
from runtime.codegen.kernels.recurrent.state_product import (
    MAX_CHAIN_DEPTH,
    DepthBlocks,
    Weights,
    chain_operands,
    packed,
    product,
    states_in_blocks,
)
from runtime.codegen.kernels.steps import KernelContext, KernelStep, KernelSteps
from runtime.codegen.kernels.tiles import by_size
from runtime.codegen.math import tanh

TRANSPOSED, SUMS, STATE, CELL, OPERANDS_OF_PARTS = 2, 3, 4, 5, 6
"""Shared scratch after that of the gates: transposed weights; the sums of all parts, before a step and after; the
gradients of the first state and cell on their way, unless they are results; and the operands of the parts' products,
if threads share a part.
"""

GRADIENTS, PAIRS = 0, 1
"""Scratch of a thread: the gradients of the gates of a part, and the same as pairs of bfloat16."""

WANTED_STATE_PARTS: Final = 4
"""Number of parts of the states, if there are as many vectors; more parts exchange more sums."""


class BackwardOptions(NamedTuple):
    """The variant of the gradient.

    Attributes:
        kept: True if the last operand has the vectors that the layer kept; then x and cells are absent.
        last: True if the gradient of the states is of the last step alone, [n, h]; it is 0 for the others.
        cells: True if there is a gradient of the cells.
        first: True if the gradients of the first state and cell are results.
        sums: numbers of the gradients of preactivations that are summed over rows and steps: the last results.
    """

    kept: bool = False
    last: bool = False
    cells: bool = True
    first: bool = True
    sums: tuple[int, ...] = ()


class StatePart(NamedTuple):
    """The operand of a part's product: its stride from row to row, its first column, and its number of states."""

    apart: int
    column: Index
    states: int


class Backward:
    """The loops of the gradient."""

    def __init__(self, layer: Layer, how: BackwardOptions | None) -> None:
        self.layer, self.operands, self.how = layer, OPERANDS[layer.gates], how or BackwardOptions()
        self.again = RecomputedGates(layer, self.operands)
        self.vectors = min(2, layer.vectors)
        self.width = self.vectors * layer.lanes
        self.panels = -(-layer.states // self.width)
        lanes = layer.nominal_lanes
        most = max(MAX_CHAIN_DEPTH // (layer.gates * lanes), 1)
        self.part = min(-(-layer.states // lanes // WANTED_STATE_PARTS), most) * lanes
        self.parts = -(-layer.states // self.part)
        is_shared = layer.threads > self.parts and not layer.of_pairs and layer.cost >= layer.threads * MIN_CHUNK_CYCLES
        self.ranges = min(-(-layer.threads // self.parts), self.panels) if is_shared else 1

    @property
    def sums_size(self) -> int:
        """Elements of the sums of a part."""
        return self.panels * self.layer.rows * self.width

    def steps(self) -> KernelSteps:
        """Return the kernel steps: weights, gates and time steps."""
        layer, first = self.layer, self.how.first
        transposed = self.parts * self._part_size * self.panels * self.width
        steps = [KernelStep(self.transpose, self.parts, transposed * PACKED_ELEMENT_CYCLES)]
        is_again = layer.gates > 1 and not self.how.kept
        steps += self.again.steps() if is_again else []
        for time in range(layer.times):
            steps += self._shared_step(time) if self.ranges > 1 else [self._step(time)]
        steps += (
            [KernelStep(self.finish, self.parts, layer.rows * layer.states * REMOTE_PARTIAL_SUM_CYCLES)]
            if first
            else []
        )
        on_the_way = [0, 0] if first else [layer.rows * layer.states] * 2
        operands = [self.parts * self._operand_size] if self.ranges > 1 else []
        shared = (
            *(self.again.scratch_size if is_again else (0, 0)),
            transposed,
            2 * self.parts * self.sums_size,
            *(on_the_way if operands or not first else []),
            *operands,
        )
        own = [max(self._operand_size, layer.sums_size if is_again else 0)]
        pairs = layer.rows * self._left_apart(self.part) if layer.of_pairs else 0
        own += [max(pairs, layer.left_size if is_again else 0)] if layer.of_pairs else []
        return KernelSteps(
            tuple(steps),
            tuple(max(size * layer.item, 64) for size in shared),
            tuple(size * layer.item for size in own),
        )

    @property
    def _part_size(self) -> int:
        """Elements of a copy of the gates of a part."""
        return self.layer.gates * self.layer.words(self.part) * self.layer.elements

    @property
    def _operand_size(self) -> int:
        """Elements of the operand of a part's product."""
        return self.layer.rows * self._apart(self.part)

    def _step(self, time: int) -> KernelStep:
        """Return a time step as one kernel step, whose work items are parts."""
        layer = self.layer
        return KernelStep(self.step, self.parts, layer.cost, time * self.parts, prefers_ranges=layer.prefers_ranges)

    def _shared_step(self, time: int) -> list[KernelStep]:
        """Return a time step as two kernel steps, whose work items are vectors of states and ranges of panels."""
        layer, vectors = self.layer, self.parts * self._vectors
        cells = layer.wide * layer.rows * CELL_CYCLES
        steps = [KernelStep(self.cells, vectors, cells, time * vectors)]
        if time < layer.times - (not self.how.first):
            items = self.parts * self.ranges
            steps.append(KernelStep(self.products, items, layer.cost - cells, time * items))
        return steps

    @property
    def _vectors(self) -> int:
        """Vectors of a part."""
        return self.part // self.layer.lanes

    def transpose(self, context: KernelContext, start: Value, stop: Value) -> None:
        """Write the kernel step that transposes weights and prepares the sums that the first time step reads.

        Work items are parts.
        """
        f, layer = context.f, self.layer
        for item in f.range(start, stop):
            for states in by_size(f, layer.states, self.part, f.index(item)):
                for gate in range(layer.gates):
                    matrix = Matrix(context.operand(1) + item * self.part + gate * layer.states, 1, layer.wide)
                    words, source = layer.words(states), matrix
                    if layer.of_pairs:
                        source = PairedMatrix(matrix, False, states, is_widened=layer.is_widened)
                    to = self._transposed(context, f.index(item)) + gate * words * layer.elements * self.width
                    depth = layer.gates * words
                    packed_right(f, source, to, words, layer.states, self.width, depth, layer.vector)
                for panel in f.range(0, self.panels) if layer.is_chained else ():
                    right, blocks = self._weights(context, f.index(item), states, panel)
                    chain_operands(f, layer, blocks, right=right)
            self._begin(context, f.index(item))

    def _weights(self, context: KernelContext, part: Value, states: int, panel: Index) -> tuple[Weights, DepthBlocks]:
        """Return the transposed weights of a part for a panel of states, and the blocks of their depth."""
        layer = self.layer
        depth = layer.gates * layer.words(states)
        start = self._transposed(context, part) + panel * (depth * layer.elements * self.width)
        return packed(start, self.vectors, layer.lanes), states_in_blocks(depth, layer.of_pairs)

    def _begin(self, context: KernelContext, part: Value) -> None:
        """Prepare the sums for the first time step: zeros, or in the first part the gradient of the last state."""
        f, layer = context.f, self.layer
        to = context.shared_scratch(SUMS, layer.element) + part * self.sums_size
        for i in f.range(0, self.sums_size, layer.lanes):
            f.store(f.constant(layer.vector, 0), to, i)
        if self.how.last:
            with f.when(part.equal(0)):
                for panel in f.range(0, self.panels):
                    for states in by_size(f, layer.states, self.width, f.index(panel)):
                        for row in f.range(0, layer.rows):
                            gradient = context.operand(self.operands.gradient) + row * layer.states + panel * self.width
                            index = to + (f.index(panel) * layer.rows + row) * self.width
                            for v in range(0, states, layer.lanes):
                                tail = min(states - v, layer.lanes)
                                f.store(f.load(gradient, v, layer.lanes, tail), index, v)

    def step(self, context: KernelContext, start: Value, stop: Value) -> None:
        """Write the kernel step of a time step; its work items are parts, and those of the next time step follow."""
        f, layer = context.f, self.layer
        for item in f.range(start, stop):
            step, part = f.index(item) // self.parts, f.index(item) % self.parts
            time = layer.time(f, step, backwards=True)
            for states in by_size(f, layer.states, self.part, part):
                whole = states // layer.lanes * layer.lanes
                for v in f.range(0, whole, layer.lanes):
                    self._vector(context, step, time, part, f.index(v), layer.lanes, states)
                if states > whole:
                    self._vector(context, step, time, part, f.index(whole), states - whole, states)
                with f.when(step < layer.times - (not self.how.first)):
                    self._multiply(context, step, part, states, (0, self.panels))

    def cells(self, context: KernelContext, start: Value, stop: Value) -> None:
        """Write the cells of a time step; work items are vectors of states, part by part."""
        f, layer = context.f, self.layer
        for item in f.range(start, stop):
            vector, step = f.index(item) % (self.parts * self._vectors), f.index(item) // (self.parts * self._vectors)
            part, column = vector // self._vectors, vector % self._vectors * layer.lanes
            time = layer.time(f, step, backwards=True)
            for states in by_size(f, layer.states, self.part, part):
                whole = states // layer.lanes * layer.lanes
                with f.when(column < whole):
                    self._vector(context, step, time, part, column, layer.lanes, states)
                if states > whole:
                    with f.when(column.equal(whole)):
                        self._vector(context, step, time, part, column, states - whole, states)

    def products(self, context: KernelContext, start: Value, stop: Value) -> None:
        """Write the products of a time step; work items are ranges of panels in parts."""
        f, layer = context.f, self.layer
        for item in f.range(start, stop):
            number, of_part = f.index(item) // self.ranges, f.index(item) % self.ranges
            step, part = number // self.parts, number % self.parts
            panels = of_part * self.panels // self.ranges, (of_part + 1) * self.panels // self.ranges
            for states in by_size(f, layer.states, self.part, part):
                self._multiply(context, step, part, states, panels)

    def _vector(
        self, context: KernelContext, step: Value, time: Value, part: Value, column: Value, tail: int, states: int
    ) -> None:
        """Write the cells of all rows, and their contributions to the biases."""
        f, layer, sums = context.f, self.layer, self.how.sums
        index = StatePart(self._apart(states), column, states)
        at = StatePosition(f.index(0), time, part * self.part + column, tail)
        for row in f.range(0, layer.rows):
            self._cells(context, step, part, at._replace(row=f.index(row)), index)
        gradient, to = self._operand(context, part) + column, context.outputs[len(context.outputs) - len(sums) :]
        for blocks, sum in zip(biases.blocks(layer, sums), to, strict=True):
            indices = [block * states for block in blocks]
            biases.add_up(context, layer, step, at, gradient, index.apart, indices, sum)

    def _operand(self, context: KernelContext, part: Value) -> Value:
        """Return the address of the operand of a part's product: scratch of the thread, unless threads share it."""
        if self.ranges == 1:
            return context.thread_scratch(GRADIENTS, self.layer.element)
        return context.shared_scratch(OPERANDS_OF_PARTS, self.layer.element) + part * self._operand_size

    def _multiply(
        self, context: KernelContext, step: Value, part: Value, states: int, panels: tuple[Index, Index]
    ) -> None:
        """Multiply the gradients of the gates of a part by its weights, for some panels of all states."""
        f, layer = context.f, self.layer
        left = context.thread_scratch(PAIRS, layer.element) if layer.of_pairs else self._operand(context, part)
        apart = self._left_apart(states)
        for row in f.range(0, layer.rows) if layer.of_pairs and states % 2 else ():
            for gate in range(layer.gates):
                pad(f, left + row * apart + gate * layer.words(states) * layer.elements, states, layer.is_widened)
        chain_operands(f, layer, self._weights(context, part, states, 0)[1], left=(left, apart))
        to = self._sums(context, step + 1) + part * self.sums_size
        for panel in f.range(*panels):
            right, blocks = self._weights(context, part, states, panel)
            product(f, layer, left, apart, right, blocks, to + panel * (layer.rows * self.width))

    def finish(self, context: KernelContext, start: Value, stop: Value) -> None:
        """Write the gradient of the first state; work items are its parts."""
        f, layer = context.f, self.layer
        for item in f.range(start, stop):
            for states in by_size(f, layer.states, self.part, f.index(item)):
                for row in f.range(0, layer.rows):
                    for v in range(0, states, layer.lanes):
                        first = f.index(item) * self.part + v
                        at = StatePosition(f.index(row), f.index(0), first, min(states - v, layer.lanes))
                        state = context.outputs[self.operands.state] + row * layer.states + first
                        f.store(self._gradient(context, f.index(layer.times), at, state), state, 0, at.tail)

    def _gradient(self, context: KernelContext, step: Value, at: StatePosition, state: Value) -> Value:
        """Return the gradient of the state after a step, as far as later steps contribute to it."""
        f, layer = context.f, self.layer
        vector = at.first // layer.lanes
        index = (vector // self.vectors * layer.rows + at.row) * self.width + vector % self.vectors * layer.lanes
        start = self._sums(context, step) + index
        dh = reduce(add, (f.load(start, part * self.sums_size, layer.lanes) for part in range(self.parts)))
        if not self._keeps(context):
            return dh
        before = layer.time(f, maximum(step - 1, 0), backwards=True)
        skipped = hides(context, self.operands.mask, layer, at.row, before)
        if skipped is not None:
            skipped = skipped if step.known else skipped & (step > 0)  # the first step reads the sums of `_begin`
            dh = where(skipped, layer.zero(f), dh)  # these sums contain 0 times a weight that is NaN
        past = f.load(state, 0, layer.lanes, at.tail)
        return dh + (past if step.known else where(step.equal(0), f.constant(layer.vector, 0), past))

    def _cells(self, context: KernelContext, step: Value, part: Value, at: StatePosition, index: StatePart) -> None:
        f, layer = context.f, self.layer
        state = self._first(context, STATE) + at.row * layer.states + at.first
        dh = self._gradient(context, step, at, state)
        hidden = hides(context, self.operands.mask, layer, at.row, at.time)
        dh = dh + (layer.zero(f) if self.how.last else self._load(context, self.operands.gradient, at))  # -0 + 0 is 0
        back = self._back(context, step, at, hidden, dh)
        self._leave(context, part, at, hidden, back, index)
        if self._keeps(context):
            past = back.kept or f.constant(layer.vector, 0)
            f.store(past if hidden is None else where(hidden, dh, past), state, 0, at.tail)

    def _keeps(self, context: KernelContext) -> bool:
        """Return True if a part of a state's gradient bypasses the product."""
        mask = self.operands.mask
        return self.layer.gates == 3 or (mask < len(context.inputs) and context.inputs[mask] is not None)

    def _first(self, context: KernelContext, which: int) -> Value:
        """Return the address of the gradient of the first state or cell."""
        if not self.how.first:
            return context.shared_scratch(which, self.layer.element)
        return context.outputs[self.operands.state + which - STATE]

    def _back(
        self, context: KernelContext, step: Value, at: StatePosition, hidden: Value | None, dh: Value
    ) -> cells.CellGradients:
        layer, operands = self.layer, self.operands
        if layer.gates == 1:
            return cells.rnn_back(self._load(context, operands.states, at), dh)
        if layer.gates == 4:
            return self._lstm_back(context, step, at, hidden, dh)
        old = self._before(context, operands.first, at, lambda at: self._load(context, operands.states, at))
        if self.how.kept:
            *gates, new = self._kept(context, at, range(4))
        else:
            gates = self._computed(context, at)
            new = tanh(cells.gru_sum(gates, read(context, layer, at)[2]))
        return cells.gru_back(gates, new, old, dh)

    def _lstm_back(
        self, context: KernelContext, step: Value, at: StatePosition, hidden: Value | None, dh: Value
    ) -> cells.CellGradients:
        f, layer, operands = context.f, self.layer, self.operands
        assert operands.first_cell is not None, "an LSTM has a first cell"
        index = self._first(context, CELL) + at.row * layer.states + at.first
        dc = where(step.equal(0), f.constant(layer.vector, 0), f.load(index, 0, layer.lanes, at.tail))
        dc = dc + (self._load(context, operands.cell_gradient, at) if self.how.cells else layer.zero(f))
        gates = self._kept(context, at, range(4)) if self.how.kept else self._computed(context, at)
        before = self._before(context, operands.first_cell, at, lambda at: self._cell(context, at))
        back = cells.lstm_back(gates, self._cell(context, at), before, dh, dc)
        assert back.cell is not None, "an LSTM gives a gradient of its cell"
        f.store(back.cell if hidden is None else where(hidden, dc, back.cell), index, 0, at.tail)
        return back

    def _computed(self, context: KernelContext, at: StatePosition) -> list[Value]:
        """Return the gates, which their gradients replace later."""
        layer = self.layer
        return [
            context.f.load(gate_at(context, layer, at, gate), 0, layer.lanes, at.tail) for gate in range(layer.gates)
        ]

    def _kept(self, context: KernelContext, at: StatePosition, numbers: Iterable[int]) -> list[Value]:
        """Return some of the vectors that the layer kept for this position."""
        layer = self.layer
        start = kept(layer, context.operand(-1), at)
        return [context.f.load(start, number * layer.lanes, layer.lanes) for number in numbers]

    def _cell(self, context: KernelContext, at: StatePosition) -> Value:
        """Return the cell after a step."""
        return self._kept(context, at, [4])[0] if self.how.kept else self._load(context, self.operands.cells, at)

    def _leave(
        self,
        context: KernelContext,
        part: Value,
        at: StatePosition,
        hidden: Value | None,
        back: cells.CellGradients,
        index: StatePart,
    ) -> None:
        """Write the gradients of the preactivations, and the operand of the product."""
        f, layer = context.f, self.layer
        result = (at.row * layer.times + at.time) * layer.wide + at.first
        to = self._operand(context, part) + at.row * index.apart + index.column
        zero = f.constant(layer.vector, 0)
        for gate, (dx, da) in enumerate(zip(back.x, back.product, strict=True)):
            shown = [x if hidden is None else where(hidden, zero, x) for x in (dx, da)]
            narrow = rounded(shown[1]) if layer.of_pairs else None
            store_result(
                shown[0], context.outputs[0] + result, gate * layer.states, at.tail, narrow if dx is da else None
            )
            if layer.gates == 3:
                store_result(shown[1], context.outputs[1] + result, gate * layer.states, at.tail, narrow)
            f.store(shown[1], to, gate * index.states, at.tail)
            if narrow is not None:
                self._store_pairs(context, at, narrow, gate, index)
            if gate == 2 and biases.needs_new(layer, self.how.sums):
                f.store(shown[0], to, biases.NEW_GATE_BLOCK * index.states, at.tail)

    def _store_pairs(
        self, context: KernelContext, at: StatePosition, narrow: Value, gate: int, index: StatePart
    ) -> None:
        """Write a vector of rounded gradients of a gate as elements of the product's left operand."""
        f, layer = context.f, self.layer
        row = context.thread_scratch(PAIRS, layer.element) + at.row * self._left_apart(index.states)
        to = row + gate * layer.words(index.states) * layer.elements
        if layer.is_widened:
            narrow = convert(narrow, layer.element)
        f.store(narrow, f.cast(to, narrow.type.of(0)) + index.column, 0, at.tail)

    def _transposed(self, context: KernelContext, part: Value) -> Value:
        return context.shared_scratch(TRANSPOSED, self.layer.element) + part * (
            self._part_size * self.panels * self.width
        )

    def _sums(self, context: KernelContext, step: Value) -> Value:
        """Return the address of the sums that a time step reads."""
        return context.shared_scratch(SUMS, self.layer.element) + step % 2 * (self.parts * self.sums_size)

    def _apart(self, states: int) -> int:
        """Return the stride of rows of gradients: slightly more than a power of two."""
        blocks = self.layer.gates + biases.needs_new(self.layer, self.how.sums)
        return blocks * states + self.layer.lanes

    def _left_apart(self, states: int) -> int:
        """Return the stride of rows of the product's left operand, likewise."""
        layer = self.layer
        words = layer.gates * layer.words(states) * layer.elements
        return words + layer.lanes if layer.of_pairs else self._apart(states)

    def _load(self, context: KernelContext, number: int | None, at: StatePosition) -> Value:
        assert number is not None, "only an LSTM has cells"
        layer = self.layer
        index = (at.row * layer.times + at.time) * layer.states + at.first
        return context.f.load(context.operand(number) + index, 0, layer.lanes, at.tail)

    def _before(
        self, context: KernelContext, first: int, at: StatePosition, after: Callable[[StatePosition], Value]
    ) -> Value:
        """Return a state or cell before a step: the first one, or `after` the preceding step."""
        f, layer = context.f, self.layer
        is_first = at.time.equal(layer.times - 1 if layer.reverse else 0)
        step: Index = 1 if layer.reverse else -1
        earlier = after(
            at._replace(time=where(is_first, at.time, at.time + step))
        )  # it is read in any case, so it must be a valid position
        begin = f.load(context.operand(first) + at.row * layer.states + at.first, 0, layer.lanes, at.tail)
        return where(is_first, begin, earlier)
