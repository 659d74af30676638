"""A recurrent layer, step after step: stages are steps, units panels of states.

The state before lies in scratch, row after row, twice: what a step reads, and what it leaves for the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

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
        panels = layer.panels * layer.panel_size
        size = layer.rows * layer.apart
        shared = (panels, 2 * size, size) if layer.gates == 4 else (panels, 2 * size)
        steps = [Stage(self.step, layer.panels, layer.cost, step * layer.panels) for step in range(layer.times)]
        return Stages(
            (Stage(self.begin, layer.rows, size * 0.1), Stage(self.pack, layer.panels, panels * 0.2), *steps),
            tuple(count * layer.item for count in shared),
            (layer.sums_size * layer.item,),
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
            time = layer.time(f, step)
            before = work.shared(STATE, layer.element) + step % 2 * size
            after = work.shared(STATE, layer.element) + (step + 1) % 2 * size
            self._ask_for(work, time, panel)
            products(work, layer, before, panel)
            for columns in by_size(f, layer.states, layer.width, panel):
                for row in f.range(0, layer.rows):
                    for v in range(-(-columns // layer.lanes)):
                        tail = min(columns - v * layer.lanes, layer.lanes)
                        at = At(f.index(row), time, panel * layer.width + v * layer.lanes, tail)
                        self._cell(work, at, list(preactivations(work, layer, at, v)), before, after)

    def _ask_for(self, work: Work, time: Value, panel: Value) -> None:
        """What the cells of a panel add to the product, rows of which lie far from each other."""
        f, layer = work.f, self.layer
        for row in f.range(0, layer.rows):
            at = address(work, 0) + (row * layer.times + time) * layer.wide + panel * layer.width
            for gate in range(layer.gates):
                for v in range(layer.beside):
                    f.prefetch(at, gate * layer.states + v * layer.lanes)

    def _cell(self, work: Work, at: At, made: list[Value], before: Value, after: Value) -> None:
        f, layer = work.f, self.layer
        place = at.row * layer.times + at.time
        x = read(work, layer, at)
        old = f.load(before + at.row * layer.apart + at.first, 0, layer.lanes, at.tail)
        hidden, result = hides(work, self.mask, layer, at.row, at.time), place * layer.states + at.first
        if layer.gates == 4:
            here = work.shared(CELL, layer.element) + at.row * layer.apart + at.first
            cell = f.load(here, 0, layer.lanes, at.tail)
            state, new = cells.lstm(x, made, cell)
            new = new if hidden is None else where(hidden, cell, new)
            f.store(new, here, 0, at.tail)
            f.store(new, work.outputs[1] + result, 0, at.tail)
        else:
            state = cells.gru(x, made, old) if layer.gates == 3 else cells.rnn(x, made)
        state = state if hidden is None else where(hidden, old, state)
        f.store(state, work.outputs[0] + result, 0, at.tail)
        f.store(state, after + at.row * layer.apart + at.first, 0, at.tail)


class At(NamedTuple):
    """A vector of states at a step of a row: its row, time, first state, and how many lanes count."""

    row: Value
    time: Value
    first: Value
    tail: int


def read(work: Work, layer: Layer, at: At) -> list[Value]:
    """What is added to the product there, by gate."""
    f = work.f
    start = address(work, 0) + (at.row * layer.times + at.time) * layer.wide + at.first
    return [f.load(start, gate * layer.states, layer.lanes, at.tail) for gate in range(layer.gates)]


def pack_panel(work: Work, layer: Layer, panel: Value) -> None:
    """Copy the columns of all gates that belong to a panel's states, as pairs; missing lanes are 0."""
    f, lanes = work.f, layer.lanes
    source = address(work, 1) + panel * layer.width
    for columns in by_size(f, layer.states, layer.width, panel):
        to = panel_of(work, layer, panel)
        for number, vectors in enumerate(layer.pairs):
            for k in f.range(0, layer.states):
                for v in range(vectors):
                    beside, gate = divmod(number * 2 + v, layer.gates)
                    tail = min(columns - beside * lanes, lanes)
                    x = f.constant(layer.vector, 0)
                    if tail > 0:
                        x = f.load(source + k * layer.wide, gate * layer.states + beside * lanes, lanes, tail)
                    f.store(x, to + k * (vectors * lanes), v * lanes)
            to = to + layer.states * vectors * lanes


def panel_of(work: Work, layer: Layer, panel: Value) -> Value:
    """Where a panel of the recurrent weights lies."""
    return work.shared(PANELS, layer.element) + panel * layer.panel_size


def products(work: Work, layer: Layer, states: Value, panel: Value) -> None:
    """The states of all rows by a panel, pair by pair, into scratch of the thread."""
    weights, to = panel_of(work, layer, panel), work.own(0, layer.element)
    for vectors in layer.pairs:
        product(work.f, states, layer.rows, layer.apart, weights, vectors, layer.states, layer.vector, to)
        weights = weights + layer.states * vectors * layer.lanes
        to = to + layer.rows * vectors * layer.lanes


def preactivations(work: Work, layer: Layer, at: At, number: int) -> Iterator[Value]:
    """What the products of a panel gave for a row, by gate, for its vector of this number; with the bias of a GRU."""
    f, lanes = work.f, layer.lanes
    for gate in range(layer.gates):
        pair, v = divmod(number * layer.gates + gate, 2)
        vectors = layer.pairs[pair]
        begin = work.own(0, layer.element) + 2 * pair * layer.rows * lanes
        made = f.load(begin + at.row * (vectors * lanes), v * lanes, lanes)
        if layer.gates == 3:
            made = made + f.load(address(work, 2) + at.first, gate * layer.states, lanes, at.tail)
        yield made
