"""The gates of all time steps, recomputed if a layer kept none: the states before them are known."""

from __future__ import annotations

from runtime.codegen.costs import COPIED_BYTE_CYCLES, PACKED_ELEMENT_CYCLES
from runtime.codegen.ir import Function, Value
from runtime.codegen.kernels.copies import copied
from runtime.codegen.kernels.recurrent import cells
from runtime.codegen.kernels.recurrent.forward import copy_left, pack_panel, products, read, sums
from runtime.codegen.kernels.recurrent.layer import Layer, Operands, StatePosition, rounded_row
from runtime.codegen.kernels.steps import KernelContext, KernelStep
from runtime.codegen.kernels.tiles import by_size

STATES = 1
"""Number of the scratch with the states before all steps; the scratch before it has panels of weights."""


class RecomputedGates:
    """The kernel steps that compute gates."""

    def __init__(self, layer: Layer, operands: Operands) -> None:
        self.layer, self.operands = layer, operands

    @property
    def scratch_size(self) -> tuple[int, int]:
        """Elements of scratch: for panels of weights, and for states."""
        layer = self.layer
        return layer.panels * layer.panel_size, layer.times * layer.rows * layer.apart

    def steps(self) -> list[KernelStep]:
        """Return the kernel steps: copies, then gates."""
        layer, (panels, states) = self.layer, self.scratch_size
        packs = [KernelStep(self.pack, layer.panels, panels * PACKED_ELEMENT_CYCLES)] if panels else []
        return [
            *packs,
            KernelStep(self.copy, layer.times * layer.rows, states * layer.item * COPIED_BYTE_CYCLES),
            KernelStep(self.gates, layer.panels * layer.times, layer.cost * layer.times),
        ]

    def pack(self, context: KernelContext, start: Value, stop: Value) -> None:
        """Pack the weights; work items are panels."""
        for item in context.f.range(start, stop):
            pack_panel(context, self.layer, context.f.index(item))

    def copy(self, context: KernelContext, start: Value, stop: Value) -> None:
        """Copy the states before all steps; work items are steps and rows."""
        f, layer = context.f, self.layer
        for item in f.range(start, stop):
            time, row = f.index(item) // layer.rows, f.index(item) % layer.rows
            to = context.shared_scratch(STATES, layer.element) + item * layer.apart
            before = time + 1 if layer.reverse else time - 1
            is_first = time.equal(layer.times - 1 if layer.reverse else 0)
            with f.when(is_first):
                self._copied(f, context.operand(self.operands.first) + row * layer.states, to)
            with f.when(~is_first):
                source = context.operand(self.operands.states) + (row * layer.times + before) * layer.states
                self._copied(f, source, to)

    def _copied(self, f: Function, source: Value, to: Value) -> None:
        """Copy the states of a row, as the left operand of the product."""
        copy = rounded_row if self.layer.of_pairs else copied
        copy(f, source, to, self.layer.states, self.layer.vector)

    def gates(self, context: KernelContext, start: Value, stop: Value) -> None:
        """Write the gates where their gradients will be; work items are panels of steps.

        A GRU's last gate goes to the second result.
        """
        f, layer = context.f, self.layer
        for item in f.range(start, stop):
            panel, time = f.index(item) // layer.times, f.index(item) % layer.times
            states = context.shared_scratch(STATES, layer.element) + time * (layer.rows * layer.apart)
            copy_left(context, layer, states)
            products(context, layer, states, panel)
            for columns in by_size(f, layer.states, layer.width, panel):
                for row in f.range(0, layer.rows):
                    for v in range(-(-columns // layer.lanes)):
                        tail = min(columns - v * layer.lanes, layer.lanes)
                        self._gates(
                            context, StatePosition(f.index(row), time, panel * layer.width + v * layer.lanes, tail), v
                        )

    def _gates(self, context: KernelContext, at: StatePosition, number: int) -> None:
        layer = self.layer
        products = sums(context, layer, at, number)
        find = cells.lstm_gates if layer.gates == 4 else cells.gru_gates
        for gate, value in enumerate(find(read(context, layer, at), products)):
            context.f.store(value, gate_at(context, layer, at, gate), 0, at.tail)


def gate_at(context: KernelContext, layer: Layer, at: StatePosition, gate: int) -> Value:
    """Return the address of a gate, which its gradient replaces later."""
    to = context.outputs[1 if (layer.gates, gate) == (3, 2) else 0]
    return to + (at.row * layer.times + at.time) * layer.wide + at.first + gate * layer.states
