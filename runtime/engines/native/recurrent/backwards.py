"""The gradients of a recurrent layer: the gates of all steps, then the steps from the last to the first.

A stage is a step: the product of what the one before left by the transposed weights, then the cells of a panel. The
last stage is but the product, which is the gradient of the first state. Where the layer kept its gates, none are
computed here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from runtime.engines.native.convolution.borders import copied
from runtime.engines.native.convolution.correlation import by_size
from runtime.engines.native.forms.stages import Stage, Stages, Work
from runtime.engines.native.ir import Index, Value
from runtime.engines.native.ir.words import where
from runtime.engines.native.product import Matrix
from runtime.engines.native.product.packing import packed_right
from runtime.engines.native.recurrent import cells
from runtime.engines.native.recurrent.forwards import pack_panel, products, read, sums
from runtime.engines.native.recurrent.layer import At, Layer, address, hides, kept
from runtime.engines.native.recurrent.product import product

STATES, TURNED, LEFT, STATE, CELL = 1, 2, 3, 4, 5
"""What shared scratch is for, after the panels: states before all steps, transposed weights, what a step leaves; and if
they are no results, the gradients of the first state and cell on their way."""


class Back(NamedTuple):
    """How the gradient is computed.

    Attributes:
        kept: whether what the layer kept is the last operand; then x and cells are absent.
        last: whether the gradient of the states is of the last step alone, [n, h], and else 0.
        cells: whether there is one of the cells.
        first: whether the gradients of the first state and cell are results.
    """

    kept: bool = False
    last: bool = False
    cells: bool = True
    first: bool = True


class Operands(NamedTuple):
    """Operands and results of a layer by number; None for what it does not have."""

    first: int
    states: int
    gradient: int
    mask: int
    state: int
    first_cell: int | None = None
    cells: int | None = None
    cell_gradient: int | None = None


OPERANDS = {
    1: Operands(2, 3, 4, 5, 1),
    3: Operands(3, 4, 5, 6, 2),
    4: Operands(2, 4, 6, 8, 1, 3, 5, 7),
}
"""By the number of gates."""


class Backwards:
    """The loops of the gradient."""

    def __init__(self, layer: Layer, how: Back | None = None) -> None:
        self.layer, self.operands, self.how = layer, OPERANDS[layer.gates], how or Back()
        self.vectors = min(2, -(-layer.states // layer.lanes))
        self.width = self.vectors * layer.lanes
        self.panels = -(-layer.states // self.width)

    def stages(self) -> Stages:
        """Copies, gates, and steps."""
        layer = self.layer
        weights = layer.panels * layer.panel_size
        turned = self.panels * layer.wide * self.width
        before = layer.times * layer.rows * layer.apart
        stages = [Stage(self.turn, self.panels, turned * 0.3)]
        if layer.gates > 1 and not self.how.kept:
            stages += [
                Stage(self.pack, layer.panels, weights * 0.2),
                Stage(self.copy, layer.times * layer.rows, before * 0.1),
                Stage(self.gates, layer.panels * layer.times, layer.cost * layer.times),
            ]
        else:
            weights = before = 0
        count = layer.times + self.how.first
        stages += [Stage(self.step, self.panels, layer.cost, i * self.panels) for i in range(count)]
        first = [] if self.how.first else [layer.rows * layer.states] * 2
        shared = (weights, before, turned, 2 * layer.rows * layer.wide_apart, *first)
        own = max(layer.rows * self.width, layer.sums_size)
        return Stages(tuple(stages), tuple(max(size * layer.item, 64) for size in shared), (own * layer.item,))

    # Before all steps.

    def pack(self, work: Work, start: Value, stop: Value) -> None:
        """Units are panels of the weights."""
        for unit in work.f.range(start, stop):
            pack_panel(work, self.layer, work.f.index(unit))

    def turn(self, work: Work, start: Value, stop: Value) -> None:
        """Units are panels of the transposed weights."""
        f, layer = work.f, self.layer
        for unit in f.range(start, stop):
            source = Matrix(address(work, 1) + unit * (self.width * layer.wide), 1, layer.wide)
            to = self._turned(work, f.index(unit))
            for columns in by_size(f, layer.states, self.width, f.index(unit)):
                packed_right(f, source, to, layer.wide, columns, self.width, layer.wide, layer.vector)

    def copy(self, work: Work, start: Value, stop: Value) -> None:
        """Units are steps and rows: the states before them."""
        f, layer = work.f, self.layer
        for unit in f.range(start, stop):
            time, row = f.index(unit) // layer.rows, f.index(unit) % layer.rows
            to = work.shared(STATES, layer.element) + unit * layer.apart
            before = time + 1 if layer.reverse else time - 1
            is_first = time.equal(layer.times - 1 if layer.reverse else 0)
            with f.when(is_first):
                copied(f, address(work, self.operands.first) + row * layer.states, to, layer.states, layer.vector)
            with f.when(~is_first):
                source = address(work, self.operands.states) + (row * layer.times + before) * layer.states
                copied(f, source, to, layer.states, layer.vector)

    def gates(self, work: Work, start: Value, stop: Value) -> None:
        """Units are panels of all steps; the gates lie where their gradients will, a GRU's last one in the second."""
        f, layer = work.f, self.layer
        for unit in f.range(start, stop):
            panel, time = f.index(unit) // layer.times, f.index(unit) % layer.times
            products(work, layer, work.shared(STATES, layer.element) + time * (layer.rows * layer.apart), panel)
            for columns in by_size(f, layer.states, layer.width, panel):
                for row in f.range(0, layer.rows):
                    for v in range(-(-columns // layer.lanes)):
                        tail = min(columns - v * layer.lanes, layer.lanes)
                        self._gates(work, At(f.index(row), time, panel * layer.width + v * layer.lanes, tail), v)

    def _gates(self, work: Work, at: At, number: int) -> None:
        layer = self.layer
        made = sums(work, layer, at, number)
        find = cells.lstm_gates if layer.gates == 4 else cells.gru_gates
        for gate, value in enumerate(find(read(work, layer, at), made)):
            work.f.store(value, self._gate(work, at, gate), 0, at.tail)

    def _gate(self, work: Work, at: At, gate: int) -> Value:
        """Where a gate lies, and then its gradient."""
        layer = self.layer
        to = work.outputs[1 if (layer.gates, gate) == (3, 2) else 0]
        return to + (at.row * layer.times + at.time) * layer.wide + at.first + gate * layer.states

    # The steps.

    def step(self, work: Work, start: Value, stop: Value) -> None:
        """Units are panels of a step; those of the next follow."""
        f, layer = work.f, self.layer
        size = layer.rows * layer.wide_apart
        for unit in f.range(start, stop):
            step, panel = f.index(unit) // self.panels, f.index(unit) % self.panels
            left = work.shared(LEFT, layer.element)
            time = layer.time(f, step, backwards=True)
            with f.when(step < layer.times):
                self._ask_for(work, time, panel)
            is_first = step.equal(0)
            with f.when(is_first):
                self._begin(work, panel)
            with f.when(~is_first):
                depth, weights = layer.wide, self._turned(work, panel)
                at, to = left + step % 2 * size, work.own(0, layer.element)
                product(f, at, layer.rows, layer.wide_apart, weights, self.vectors, depth, layer.vector, to)
            after = left + (step + 1) % 2 * size
            for columns in by_size(f, layer.states, self.width, panel):
                for row in f.range(0, layer.rows):
                    for v in range(0, columns, layer.lanes):
                        self._cells(work, step, f.index(row), time, panel * self.width + v, columns - v, after, v)

    def _begin(self, work: Work, panel: Value) -> None:
        """What there is instead of a product in the first step: nothing, or the gradient of the last state."""
        f, layer = work.f, self.layer
        for columns in by_size(f, layer.states, self.width, panel):
            for row in f.range(0, layer.rows):
                for v in range(0, self.width, layer.lanes):
                    x, tail = f.constant(layer.vector, 0), min(columns - v, layer.lanes)
                    if self.how.last and tail > 0:
                        given = address(work, self.operands.gradient) + row * layer.states + panel * self.width
                        x = f.load(given, v, layer.lanes, tail)
                    f.store(x, work.own(0, layer.element) + row * self.width, v)

    def _ask_for(self, work: Work, time: Value, panel: Value) -> None:
        """What the cells of a panel read besides the product, rows of which lie far from each other."""
        f, layer, operands = work.f, self.layer, self.operands
        numbers = [operands.states] if layer.gates < 4 else [] if self.how.kept else [operands.cells]
        numbers += [] if self.how.last else [operands.gradient]
        numbers += [operands.cell_gradient] if self.how.cells else []
        for row in f.range(0, layer.rows):
            for v in range(0, self.width, layer.lanes):
                at = At(f.index(row), time, panel * self.width + v, 0)
                place = (at.row * layer.times + time) * layer.states + at.first
                for number in numbers:
                    if number is not None:
                        f.prefetch(address(work, number) + place)
                for gate in range(0 if self.how.kept else layer.gates):
                    f.prefetch(self._gate(work, at, gate))

    def _cells(
        self, work: Work, step: Value, row: Value, time: Value, first: Value, left: int, after: Value, v: int
    ) -> None:
        f, layer = work.f, self.layer
        tail = min(left, layer.lanes)
        dh = f.load(work.own(0, layer.element) + row * self.width, v, layer.lanes)
        state = self._first(work, STATE) + row * layer.states + first
        if self._keeps(work):
            kept = f.load(state, 0, layer.lanes, tail)
            dh = dh + where(step.equal(0), f.constant(layer.vector, 0), kept)
        with f.when(step.equal(layer.times)):
            f.store(dh, state, 0, tail)
        with f.when(step < layer.times):
            at = At(row, time, first, tail)
            hidden = hides(work, self.operands.mask, layer, row, time)
            dh = dh if self.how.last else dh + self._load(work, self.operands.gradient, at)
            back = self._back(work, step, at, hidden, dh)
            self._leave(work, at, hidden, back, after)
            if self._keeps(work):
                kept = back.kept or f.constant(layer.vector, 0)
                f.store(kept if hidden is None else where(hidden, dh, kept), state, 0, tail)

    def _keeps(self, work: Work) -> bool:
        """Whether something of a state's gradient goes past the product."""
        mask = self.operands.mask
        return self.layer.gates == 3 or (mask < len(work.inputs) and work.inputs[mask] is not None)

    def _first(self, work: Work, which: int) -> Value:
        """Where the gradient of the first state or cell comes to be."""
        if not self.how.first:
            return work.shared(which, self.layer.element)
        return work.outputs[self.operands.state + which - STATE]

    def _back(self, work: Work, step: Value, at: At, hidden: Value | None, dh: Value) -> cells.Back:
        layer, operands = self.layer, self.operands
        if layer.gates == 1:
            return cells.rnn_back(self._load(work, operands.states, at), dh)
        if layer.gates == 4:
            return self._lstm_back(work, step, at, hidden, dh)
        old = self._before(work, operands.first, at, lambda at: self._load(work, operands.states, at))
        if self.how.kept:
            *gates, new = self._kept(work, at, range(4))
        else:
            gates = self._computed(work, at)
            new = cells.gru_new(gates, read(work, layer, at)[2])
        return cells.gru_back(gates, new, old, dh)

    def _lstm_back(self, work: Work, step: Value, at: At, hidden: Value | None, dh: Value) -> cells.Back:
        f, layer, operands = work.f, self.layer, self.operands
        assert operands.first_cell is not None, "an LSTM has a first cell"
        place = self._first(work, CELL) + at.row * layer.states + at.first
        dc = where(step.equal(0), f.constant(layer.vector, 0), f.load(place, 0, layer.lanes, at.tail))
        if self.how.cells:
            dc = dc + self._load(work, operands.cell_gradient, at)
        gates = self._kept(work, at, range(4)) if self.how.kept else self._computed(work, at)
        before = self._before(work, operands.first_cell, at, lambda at: self._cell(work, at))
        back = cells.lstm_back(gates, self._cell(work, at), before, dh, dc)
        assert back.cell is not None, "an LSTM gives a gradient of its cell"
        f.store(back.cell if hidden is None else where(hidden, dc, back.cell), place, 0, at.tail)
        return back

    def _computed(self, work: Work, at: At) -> list[Value]:
        """The gates, which lie where their gradients will."""
        layer = self.layer
        return [work.f.load(self._gate(work, at, gate), 0, layer.lanes, at.tail) for gate in range(layer.gates)]

    def _kept(self, work: Work, at: At, numbers: Iterable[int]) -> list[Value]:
        """Some of what the layer kept there."""
        layer = self.layer
        start = kept(layer, address(work, -1), at)
        return [work.f.load(start, number * layer.lanes, layer.lanes) for number in numbers]

    def _cell(self, work: Work, at: At) -> Value:
        """The cell after a step."""
        return self._kept(work, at, [4])[0] if self.how.kept else self._load(work, self.operands.cells, at)

    def _leave(self, work: Work, at: At, hidden: Value | None, back: cells.Back, after: Value) -> None:
        """Write the gradients of preactivations, and what the next step multiplies."""
        f, layer = work.f, self.layer
        place = (at.row * layer.times + at.time) * layer.wide + at.first
        zero = f.constant(layer.vector, 0)
        for gate, (dx, da) in enumerate(zip(back.x, back.product, strict=True)):
            shown = [x if hidden is None else where(hidden, zero, x) for x in (dx, da)]
            f.store(shown[0], work.outputs[0] + place, gate * layer.states, at.tail)
            if layer.gates == 3:
                f.store(shown[1], work.outputs[1] + place, gate * layer.states, at.tail)
            f.store(shown[1], after + at.row * layer.wide_apart + at.first, gate * layer.states, at.tail)

    def _turned(self, work: Work, panel: Value) -> Value:
        return work.shared(TURNED, self.layer.element) + panel * (self.layer.wide * self.width)

    def _load(self, work: Work, number: int | None, at: At) -> Value:
        assert number is not None, "only an LSTM has cells"
        layer = self.layer
        place = (at.row * layer.times + at.time) * layer.states + at.first
        return work.f.load(address(work, number) + place, 0, layer.lanes, at.tail)

    def _before(self, work: Work, first: int, at: At, after: Callable[[At], Value]) -> Value:
        """What a state or cell was before a step: the first one, or that `after` another step."""
        f, layer = work.f, self.layer
        is_first = at.time.equal(layer.times - 1 if layer.reverse else 0)
        step: Index = 1 if layer.reverse else -1
        earlier = after(
            at._replace(time=where(is_first, at.time, at.time + step))
        )  # read in any case: it has to be there
        begin = f.load(address(work, first) + at.row * layer.states + at.first, 0, layer.lanes, at.tail)
        return where(is_first, begin, earlier)
