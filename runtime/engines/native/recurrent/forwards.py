"""A recurrent layer, step after step: stages are steps, units panels of states.

The state before lies in scratch, row after row, twice: what a step reads, and what it leaves for the next.
"""

from __future__ import annotations

from collections.abc import Iterator

from runtime.engines.native.convolution.borders import copied
from runtime.engines.native.convolution.correlation import by_size
from runtime.engines.native.forms.stages import Stage, Stages, Work
from runtime.engines.native.ir import Value
from runtime.engines.native.ir.words import where
from runtime.engines.native.recurrent import cells
from runtime.engines.native.recurrent.layer import Layer, address, hides
from runtime.engines.native.recurrent.product import product

PANELS, STATE, CELL = 0, 1, 2
"""What shared scratch is for."""


class Forwards:
    """The loops of a layer.

    The operands are x, recurrent weights, for a GRU the bias, the first state, for an LSTM the first cell, and a mask.
    """

    def __init__(self, layer: Layer) -> None:
        self.layer = layer
        self.first = 3 if layer.gates == 3 else 2
        self.mask = self.first + (2 if layer.gates == 4 else 1)

    def stages(self) -> Stages:
        """Copies, then a stage for each step."""
        layer = self.layer
        panels = layer.panels * layer.states * layer.gates * layer.lanes
        size = layer.rows * layer.apart
        shared = (panels, 2 * size, size) if layer.gates == 4 else (panels, 2 * size)
        steps = [Stage(self.step, layer.panels, layer.cost, step * layer.panels) for step in range(layer.times)]
        return Stages(
            (Stage(self.begin, layer.rows, size * 0.1), Stage(self.pack, layer.panels, panels * 0.2), *steps),
            tuple(count * layer.item for count in shared),
            (layer.rows * layer.gates * layer.lanes * layer.item,),
        )

    def begin(self, work: Work, start: Value, stop: Value) -> None:
        """Units are rows of the first state and cell."""
        f, layer = work.f, self.layer
        for unit in f.range(start, stop):
            for number in (STATE, CELL)[: 2 if layer.gates == 4 else 1]:
                source = address(work, self.first + number - STATE) + unit * layer.states
                copied(f, source, work.shared(number, layer.element) + unit * layer.apart, layer.states, layer.vector)

    def pack(self, work: Work, start: Value, stop: Value) -> None:
        """Units are panels of the recurrent weights."""
        for unit in work.f.range(start, stop):
            pack_panel(work, self.layer, work.f.index(unit))

    def step(self, work: Work, start: Value, stop: Value) -> None:
        """Units are panels of a step; those of the next step follow."""
        f, layer = work.f, self.layer
        size = layer.rows * layer.apart
        for unit in f.range(start, stop):
            step, panel = f.index(unit) // layer.panels, f.index(unit) % layer.panels
            time, first = layer.time(f, step), panel * layer.lanes
            before = work.shared(STATE, layer.element) + step % 2 * size
            after = work.shared(STATE, layer.element) + (step + 1) % 2 * size
            sums = work.own(0, layer.element)
            weights = panel_of(work, layer, panel)
            product(f, before, layer.rows, layer.apart, weights, layer.gates, layer.states, layer.vector, sums)
            for tail in by_size(f, layer.states, layer.lanes, panel):
                for row in f.range(0, layer.rows):
                    x = self._read(work, row * layer.times + time, first, tail)
                    made = list(preactivations(work, layer, f.index(row), first, tail))
                    old = f.load(before + row * layer.apart, first, layer.lanes, tail)
                    self._cell(work, f.index(row), time, first, tail, x, made, old, after)

    def _read(self, work: Work, place: Value, first: Value, tail: int) -> list[Value]:
        f, layer = work.f, self.layer
        at = address(work, 0) + place * layer.wide + first
        return [f.load(at, gate * layer.states, layer.lanes, tail) for gate in range(layer.gates)]

    def _cell(
        self,
        work: Work,
        row: Value,
        time: Value,
        first: Value,
        tail: int,
        x: list[Value],
        made: list[Value],
        old: Value,
        after: Value,
    ) -> None:
        f, layer = work.f, self.layer
        hidden = hides(work, self.mask, layer, row, time)
        place = (row * layer.times + time) * layer.states + first
        if layer.gates == 4:
            at = work.shared(CELL, layer.element) + row * layer.apart + first
            cell = f.load(at, 0, layer.lanes, tail)
            state, new = cells.lstm(x, made, cell)
            new = new if hidden is None else where(hidden, cell, new)
            f.store(new, at, 0, tail)
            f.store(new, work.outputs[1] + place, 0, tail)
        else:
            state = cells.gru(x, made, old) if layer.gates == 3 else cells.rnn(x, made)
        state = state if hidden is None else where(hidden, old, state)
        f.store(state, work.outputs[0] + place, 0, tail)
        f.store(state, after + row * layer.apart + first, 0, tail)


def pack_panel(work: Work, layer: Layer, panel: Value) -> None:
    """Copy the columns of all gates that belong to a vector of states beside each other; missing lanes are 0."""
    f, to = work.f, panel_of(work, layer, panel)
    source = address(work, 1) + panel * layer.lanes
    for tail in by_size(f, layer.states, layer.lanes, panel):
        for k in f.range(0, layer.states):
            for gate in range(layer.gates):
                x = f.load(source + k * layer.wide, gate * layer.states, layer.lanes, tail)
                f.store(x, to + k * (layer.gates * layer.lanes), gate * layer.lanes)


def panel_of(work: Work, layer: Layer, panel: Value) -> Value:
    """Where a panel of the recurrent weights lies."""
    return work.shared(PANELS, layer.element) + panel * (layer.states * layer.gates * layer.lanes)


def preactivations(work: Work, layer: Layer, row: Value, first: Value, tail: int) -> Iterator[Value]:
    """What the product of a panel gave for a row, by gate; with the bias of a GRU."""
    f = work.f
    at = work.own(0, layer.element) + row * (layer.gates * layer.lanes)
    for gate in range(layer.gates):
        made = f.load(at, gate * layer.lanes, layer.lanes)
        if layer.gates == 3:
            made = made + f.load(address(work, 2) + first, gate * layer.states, layer.lanes, tail)
        yield made
