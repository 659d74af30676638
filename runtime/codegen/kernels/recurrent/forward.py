"""A recurrent layer, one time step after the other: a kernel step is a time step, its work items are panels of states.

Scratch holds the states row by row, twice: those that a step reads, and those that it writes for the next. If the layer
multiplies features too, the features of the step follow the states, and so do their weights: one product has both. If
weights are bfloat16, the operand of the product is a second copy of the states, rounded.
"""

from __future__ import annotations

from typing import NamedTuple

from runtime.codegen.costs import COPIED_BYTE_CYCLES, PACKED_ELEMENT_CYCLES
from runtime.codegen.ir import Function, Value
from runtime.codegen.ir.types import BFLOAT16, WIDENED_BFLOAT16
from runtime.codegen.ir.words import where
from runtime.codegen.kernels.copies import copied
from runtime.codegen.kernels.depth import PanelVector
from runtime.codegen.kernels.matmul.matrix import Matrix, PairedMatrix
from runtime.codegen.kernels.pair_products import widened_half
from runtime.codegen.kernels.recurrent import cells
from runtime.codegen.kernels.recurrent.layer import (
    Layer,
    ProductPart,
    StatePosition,
    hides,
    kept,
    pad,
    rounded,
    rounded_row,
    store_result,
)
from runtime.codegen.kernels.recurrent.state_product import (
    DepthBlocks,
    Weights,
    chain_operands,
    features_in_blocks,
    packed,
    product,
    states_in_blocks,
)
from runtime.codegen.kernels.steps import KernelContext, KernelStep, KernelSteps, Prepack
from runtime.codegen.kernels.tiles import by_size
from runtime.codegen.math import tanh

PANELS, STATE, CELL, PAIRS = 0, 1, 2, 3
"""Numbers of the shared scratch."""

PRODUCTS, LEFT_COPY = 0, 1
"""Scratch of a thread: the products of a panel, and the copy of their left operand."""


class ForwardOptions(NamedTuple):
    """The variant of the layer.

    Attributes:
        keeps: True if its last result has the vectors that the gradient needs, in the layout of `layer.kept`.
        cells: True if the cells of an LSTM are a result.
        last: True if only the states of the last step are written.
    """

    keeps: bool = False
    cells: bool = True
    last: bool = False


class Forward:
    """The loops of a layer.

    The operands are x, recurrent weights, for a GRU the bias, the first state, for an LSTM the first cell, and a mask.
    If the layer multiplies features, x is absent, and the features, their weights and a bias follow.
    """

    def __init__(self, layer: Layer, how: ForwardOptions | None) -> None:
        self.layer, self.how = layer, how or ForwardOptions()
        self.first = 3 if layer.gates == 3 else 2
        self.mask = self.first + (2 if layer.gates == 4 else 1)
        self.source = GateInputs(layer, self.mask + 1)

    def steps(self) -> KernelSteps:
        """Return the kernel steps: copies, then one for each time step."""
        layer = self.layer
        panels = layer.panels * layer.panel_size
        size = layer.rows * layer.states_apart
        shared = (panels, 2 * size, size) if layer.gates == 4 else (panels, 2 * size)
        if layer.of_pairs:
            shared = (panels, 2 * size, size if layer.gates == 4 else 0, 2 * layer.rows * layer.apart)
        firsts = [step * layer.panels for step in range(layer.times)]
        steps = [
            KernelStep(self.step, layer.panels, layer.cost, first, prefers_ranges=layer.prefers_ranges)
            for first in firsts
        ]
        reads = (1, self.source.weights) if layer.features else (1,)
        packs = (
            [KernelStep(self.pack, layer.panels, panels * PACKED_ELEMENT_CYCLES, prepack=Prepack(reads, (PANELS,)))]
            if panels
            else []
        )
        end = [KernelStep(self.end, layer.rows, size * layer.item * COPIED_BYTE_CYCLES)] if self.how.last else []
        return KernelSteps(
            (KernelStep(self.begin, layer.rows, size * layer.item * COPIED_BYTE_CYCLES), *packs, *steps, *end),
            tuple(max(count * layer.item, 64) for count in shared),
            tuple(size * layer.item for size in (layer.sums_size, layer.left_size) if size),
        )

    def begin(self, context: KernelContext, start: Value, stop: Value) -> None:
        """Copy the first state and cell; work items are rows."""
        f, layer = context.f, self.layer
        for item in f.range(start, stop):
            for number in (STATE, CELL)[: 2 if layer.gates == 4 else 1]:
                source = context.operand(self.first + number - STATE) + item * layer.states
                copied(
                    f,
                    source,
                    context.shared_scratch(number, layer.element) + item * layer.states_apart,
                    layer.states,
                    layer.vector,
                )
            time = layer.time(f, f.index(0))
            if layer.of_pairs:
                self._first_pairs(context, f.index(item))
            self._features(context, f.index(item), time, self._left(context, f.index(0)))

    def _first_pairs(self, context: KernelContext, row: Value) -> None:
        """Write the first state as pairs, and what elements without a neighbour are paired with."""
        f, layer = context.f, self.layer
        left = self._left(context, f.index(0)) + row * layer.apart
        rounded_row(f, context.operand(self.first) + row * layer.states, left, layer.states, layer.vector)
        for step in range(2):
            operand = self._left(context, f.index(step)) + row * layer.apart
            pad(f, operand, layer.states)
            pad(f, operand + layer.words(layer.states), layer.features)

    def _left(self, context: KernelContext, step: Value) -> Value:
        """Return the address of the left operand of a step's product."""
        layer = self.layer
        which = PAIRS if layer.of_pairs else STATE
        return context.shared_scratch(which, layer.element) + step % 2 * (layer.rows * layer.apart)

    def end(self, context: KernelContext, start: Value, stop: Value) -> None:
        """Write the last state; work items are rows."""
        f, layer = context.f, self.layer
        time, size = layer.time(f, f.index(layer.times - 1)), layer.rows * layer.states_apart
        left = context.shared_scratch(STATE, layer.element) + layer.times % 2 * size
        for item in f.range(start, stop):
            to = context.outputs[0] + (item * layer.times + time) * layer.states
            copied(f, left + item * layer.states_apart, to, layer.states, layer.vector)

    def pack(self, context: KernelContext, start: Value, stop: Value) -> None:
        """Pack the weights; work items are panels."""
        for item in context.f.range(start, stop):
            pack_panel(context, self.layer, context.f.index(item), self.source.weights)

    def step(self, context: KernelContext, start: Value, stop: Value) -> None:
        """Write the kernel step of a time step; its work items are panels, and those of the next time step follow."""
        f, layer = context.f, self.layer
        size = layer.rows * layer.states_apart
        copy_left(context, layer, self._left(context, f.index(start) // layer.panels))
        for item in f.range(start, stop):
            step, panel = f.index(item) // layer.panels, f.index(item) % layer.panels
            time = layer.time(f, step)
            before = context.shared_scratch(STATE, layer.element) + step % 2 * size
            after = context.shared_scratch(STATE, layer.element) + (step + 1) % 2 * size
            self.source.ask_for(context, time, panel)
            self._next_features(context, step, panel, self._left(context, step + 1))
            products(context, layer, self._left(context, step), panel)
            for columns in by_size(f, layer.states, layer.width, panel):
                for write in (self._gates, self._state):  # one long loop would wait for its own results
                    for row in f.range(0, layer.rows):
                        for v in range(-(-columns // layer.lanes)):
                            tail = min(columns - v * layer.lanes, layer.lanes)
                            at = StatePosition(f.index(row), time, panel * layer.width + v * layer.lanes, tail)
                            write(context, at, v, before, after)

    def _next_features(self, context: KernelContext, step: Value, panel: Value, after: Value) -> None:
        """Copy some rows of the features that the next time step multiplies; each panel copies its share."""
        f, layer = context.f, self.layer
        if not layer.features:
            return
        time = layer.time(f, where(step.equal(layer.times - 1), step, step + 1))
        for row in f.range(panel * layer.rows // layer.panels, (panel + 1) * layer.rows // layer.panels):
            self._features(context, f.index(row), time, after)

    def _features(self, context: KernelContext, row: Value, time: Value, to: Value) -> None:
        layer = self.layer
        if layer.features:
            source = context.operand(self.source.features) + (row * layer.times + time) * layer.features
            to = to + row * layer.apart + layer.words(layer.states)
            if layer.of_pairs:
                lanes = 2 * layer.lanes
                copied(context.f, source, context.f.cast(to, BFLOAT16), layer.features, BFLOAT16.of(lanes))
            else:
                copied(context.f, source, to, layer.features, layer.vector)

    def _gates(self, context: KernelContext, at: StatePosition, number: int, *_: Value) -> None:
        """Write the intermediate results of a cell; `number` is that of the vector in the panel."""
        f, layer = context.f, self.layer
        products = sums(context, layer, at, number)
        x, products = self.source.added(context, at, products[layer.gates :]), products[: layer.gates]
        if layer.gates == 4:
            here = context.shared_scratch(CELL, layer.element) + at.row * layer.states_apart + at.first
            cell, gates = f.load(here, 0, layer.lanes, at.tail), cells.lstm_gates(x, products)
            new, hidden = cells.lstm_cell(gates, cell), hides(context, self.mask, layer, at.row, at.time)
            new = new if hidden is None else where(hidden, cell, new)
            f.store(new, here, 0, at.tail)
            if self.how.cells:
                index = (at.row * layer.times + at.time) * layer.states + at.first
                f.store(new, context.outputs[1] + index, 0, at.tail)
            self._keep(context, at, [*gates, new])
            f.store(gates[3], *slot(context, layer, at.row, number, 3))
        elif layer.gates == 3:
            gates = cells.gru_gates(x, products)
            self._keep(context, at, gates)
            f.store(gates[1], *slot(context, layer, at.row, number, 1))
            f.store(cells.gru_sum(gates, x[2]), *slot(context, layer, at.row, number, 2))
        else:
            f.store(cells.rnn_sum(x, products), *slot(context, layer, at.row, number, 0))

    def _state(self, context: KernelContext, at: StatePosition, number: int, before: Value, after: Value) -> None:
        """Write the new state, from the intermediate results of `_gates`."""
        f, layer = context.f, self.layer
        old = f.load(before + at.row * layer.states_apart + at.first, 0, layer.lanes, at.tail)
        left = [f.load(*slot(context, layer, at.row, number, part), layer.lanes) for part in range(layer.gates)]
        if layer.gates == 4:
            here = context.shared_scratch(CELL, layer.element) + at.row * layer.states_apart + at.first
            cell = f.load(here, 0, layer.lanes, at.tail)
            state = tanh(cell) * left[3]
        else:
            state = tanh(left[-1])
        if layer.gates == 3:
            self._keep(context, at, [state], 3)
            state = cells.gru_mix(left[1], state, old)
        hidden = hides(context, self.mask, layer, at.row, at.time)
        state = state if hidden is None else where(hidden, old, state)
        index = (at.row * layer.times + at.time) * layer.states + at.first
        narrow = rounded(state) if layer.of_pairs else None
        if not self.how.last:
            store_result(state, context.outputs[0] + index, 0, at.tail, narrow)
        f.store(state, after + at.row * layer.states_apart + at.first, 0, at.tail)
        if narrow is not None:
            time = at.time if not layer.reverse else layer.times - 1 - at.time
            left = f.cast(self._left(context, time + 1) + at.row * layer.apart, BFLOAT16)
            f.store(narrow, left + at.first, 0, at.tail)

    def _keep(self, context: KernelContext, at: StatePosition, values: list[Value], first: int = 0) -> None:
        if self.how.keeps:
            for i, x in enumerate(values, first):
                context.f.store(x, kept(self.layer, context.outputs[-1], at), i * self.layer.lanes)


class GateInputs:
    """The terms that are added to the product of the states: an operand, or a product of features in the same pass."""

    def __init__(self, layer: Layer, features: int) -> None:
        self.layer = layer
        self.features, self.weights, self.bias = features, features + 1, features + 2

    def ask_for(self, context: KernelContext, time: Value, panel: Value) -> None:
        """Prefetch the terms that the cells of a panel add; their rows lie far apart."""
        f, layer = context.f, self.layer
        if layer.features:
            return
        for row in f.range(0, layer.rows):
            at = context.operand(0) + (row * layer.times + time) * layer.wide + panel * layer.width
            for gate in range(layer.gates):
                for v in range(layer.beside):
                    f.prefetch(at, gate * layer.states + v * layer.lanes)

    def added(self, context: KernelContext, at: StatePosition, products: list[Value]) -> list[Value]:
        """Return the terms that are added to the products of the states, by gate.

        `products` are the products of the features.
        """
        if not self.layer.features:
            return read(context, self.layer, at)
        bias = context.inputs[self.bias]
        if bias is None:
            return products
        return [a + b for a, b in zip(products, of_gates(context.f, bias, self.layer, at), strict=True)]


def read(context: KernelContext, layer: Layer, at: StatePosition) -> list[Value]:
    """Return the terms that are added to the product at a position, by gate."""
    start = context.operand(0) + (at.row * layer.times + at.time) * layer.wide
    return of_gates(context.f, start, layer, at)


def of_gates(f: Function, start: Value, layer: Layer, at: StatePosition) -> list[Value]:
    """Return the vectors of all gates in a row of preactivations."""
    return [f.load(start + at.first, gate * layer.states, layer.lanes, at.tail) for gate in range(layer.gates)]


def pack_panel(context: KernelContext, layer: Layer, panel: Value, features: int = 0) -> None:
    """Copy the columns of a panel's states, pair by pair; missing lanes are 0; `features` are operands by number."""
    f = context.f
    for columns in by_size(f, layer.states, layer.width, panel):
        to = panel_of(context, layer, panel)
        for pair in layer.pairs:
            part = layer.parts[pair[0][1]]
            weights, rows = (features, layer.features) if part.first else (1, layer.states)
            matrix = Matrix(context.operand(weights) + panel * layer.width, layer.wide)
            _pack(f, layer, matrix, columns, pair, rows, to)
            chain_operands(f, layer, _blocks(layer, part), right=packed(to, len(pair), layer.lanes))
            to = to + part.depth * (len(pair) * layer.lanes * layer.elements)


def _pack(
    f: Function, layer: Layer, matrix: Matrix, columns: int, pair: list[tuple[int, int]], rows: int, to: Value
) -> None:
    lanes, source = layer.lanes, PairedMatrix(matrix, False, rows) if layer.of_pairs else matrix
    for k in f.range(0, layer.words(rows)):
        for i, (v, number) in enumerate(pair):
            tail = min(columns - v * lanes, lanes)
            x, column = f.constant(layer.vector, 0), layer.parts[number].gate * layer.states + v * lanes
            if tail > 0:
                x = source.along_row(k, column, lanes, tail)
            to_row, row = to + k * (len(pair) * lanes * layer.elements), len(pair) * lanes
            for half in range(layer.elements):
                f.store(widened_half(x, half) if layer.is_widened else x, to_row, half * row + i * lanes)


def panel_of(context: KernelContext, layer: Layer, panel: Value) -> Value:
    """Return the address of a panel of the weights."""
    return context.shared_scratch(PANELS, layer.element) + panel * layer.panel_size


def copy_left(context: KernelContext, layer: Layer, states: Value) -> None:
    """Copy the left operand of a step's product into scratch of the thread, in the form that the product reads."""
    f = context.f
    if not layer.copies_left:
        return
    to, size = context.thread_scratch(LEFT_COPY, layer.element), layer.rows * layer.apart * layer.elements
    source = f.cast(states, WIDENED_BFLOAT16) if layer.is_widened else states
    copied(f, source, to, size, layer.vector)
    for part in {part[1:]: part for part in layer.parts}.values():
        chain_operands(f, layer, _blocks(layer, part), left=(to + part.first, layer.apart))


def _blocks(layer: Layer, part: ProductPart) -> DepthBlocks:
    """Return the blocks of the depth of a part's product."""
    return features_in_blocks(part.depth) if part.first else states_in_blocks(part.depth, layer.of_pairs)


def products(context: KernelContext, layer: Layer, states: Value, panel: Value) -> None:
    """Write the products of the states of all rows by a panel, pair by pair, into scratch of the thread.

    If the layer copies the left operand, `copy_left` has done so.
    """
    if layer.in_place:
        _products_in_place(context, layer, states, panel)
        return
    weights, to = panel_of(context, layer, panel), context.thread_scratch(PRODUCTS, layer.element)
    states = context.thread_scratch(LEFT_COPY, layer.element) if layer.copies_left else states
    for pair in layer.pairs:
        part, vectors = layer.parts[pair[0][1]], len(pair)
        right = packed(weights, vectors, layer.lanes)
        left, apart = states + part.first * layer.elements, layer.apart * layer.elements
        product(context.f, layer, left, apart, right, _blocks(layer, part), to)
        weights = weights + part.depth * (vectors * layer.lanes * layer.elements)
        to = to + layer.rows * vectors * layer.lanes


def _products_in_place(context: KernelContext, layer: Layer, states: Value, panel: Value) -> None:
    """Write the products with weights where they are.

    Vectors beyond the last one repeat it, and nothing reads their results.
    """
    [all], lanes = layer.pairs, layer.lanes
    to, start = context.thread_scratch(0, layer.element), context.operand(1) + panel * layer.width
    for columns in by_size(context.f, layer.states, layer.width, panel):
        last = columns // lanes - 1
        firsts = [layer.parts[part].gate * layer.states + min(v, last) * lanes for v, part in all]
        right = Weights(start, layer.wide, [PanelVector(first, lanes) for first in firsts])
        product(context.f, layer, states, layer.apart, right, states_in_blocks(layer.depth), to)


def sums(context: KernelContext, layer: Layer, at: StatePosition, number: int) -> list[Value]:
    """Return the products of a panel for a row, by part, for one of its vectors; with the bias of a GRU."""
    f, count = context.f, len(layer.parts)
    products = [f.load(*slot(context, layer, at.row, number, part), layer.lanes) for part in range(count)]
    if layer.gates == 3:
        bias = of_gates(f, context.operand(2), layer, at)
        products[:3] = [x + y for x, y in zip(products[:3], bias, strict=True)]
    return products


def slot(context: KernelContext, layer: Layer, row: Value, number: int, part: int) -> tuple[Value, int]:
    """Return the address and the offset in elements of the product of a part, for a row and a numbered vector."""
    begin = context.thread_scratch(0, layer.element)
    for pair in layer.pairs:
        if (number, part) in pair:
            return begin + row * (len(pair) * layer.lanes), pair.index((number, part)) * layer.lanes
        begin = begin + layer.rows * len(pair) * layer.lanes
    raise AssertionError("every part of every vector is in a pair")
