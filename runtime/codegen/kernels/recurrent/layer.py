"""The sizes of a recurrent layer, and the division of its work.

Kernel steps are time steps, and work items are panels of states. A panel has vectors of states and their gates: one
work item computes all products that a cell needs. Its vectors of weights lie in pairs, as the product reads them, so
that a pair of the whole depth stays in the first-level cache.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from runtime.codegen.costs import CELL_CYCLES, L2_BYTES_PER_CYCLE
from runtime.codegen.ir import FLOAT32, Function, Index, Type, Value
from runtime.codegen.ir.types import BFLOAT16
from runtime.codegen.ir.words import convert
from runtime.codegen.kernels.steps import KernelContext

MAX_WEIGHT_BOUND_ROWS: Final = 2
"""Rows of a batch up to which reading the weights determines the time of a step."""

KEPT_VECTORS: Final = {3: 4, 4: 5}
"""Number of vectors that are kept for the gradient, for each vector of states, by the number of gates.

They are the gates, and the candidate state of a GRU or the cell of an LSTM.
"""


class Operands(NamedTuple):
    """Operands and results of a gradient by number; None for absent ones."""

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
"""Operands and results by the number of gates."""


class ProductPart(NamedTuple):
    """The result of a product: a gate, and the first and the number of the words of a row that it multiplies."""

    gate: int
    first: int
    depth: int


class StatePosition(NamedTuple):
    """A vector of states at a step of a row: its row, time, first state, and the number of lanes that count."""

    row: Value
    time: Value
    first: Value
    tail: int


class Layer(NamedTuple):
    """A recurrent layer.

    Attributes:
        element: type of all tensors but the mask.
        rows: rows of the batch.
        times: number of steps.
        states: states of a row.
        gates: number of vectors of preactivations for each vector of states.
        reverse: True if the last step is computed first.
        lanes: lanes of a vector.
        nominal_lanes: lanes of a nominal vector; the gradient splits the states into parts of whole nominal vectors.
        multiply_add_cycles: cycles of a multiply-add of one element.
        chains: number of parallel chains of multiply-adds, if weights are read in place; 0 if they are copied.
        features: number of features that the layer multiplies by weights besides its states; 0 if that is done before
            it.
        of_pairs: True if the product has bfloat16 operands; its depth then counts pairs, which are words of 32 bits.
        threads: number of threads among which the layer's steps are partitioned; no bit depends on it.
        is_widened: True if copies of the product's operands have the elements of pairs as float32.
        is_chained: True if words of these copies hold neighbours of a chain of `kernels.pair_chains`.
    """

    element: Type
    rows: int
    times: int
    states: int
    gates: int
    reverse: bool
    lanes: int
    nominal_lanes: int
    multiply_add_cycles: float
    chains: int
    features: int = 0
    of_pairs: bool = False
    threads: int = 2
    is_widened: bool = False
    is_chained: bool = False

    @property
    def vector(self) -> Type:
        """Type of a vector of states."""
        return self.element.of(self.lanes)

    @property
    def item(self) -> int:
        """Bytes of an element."""
        return self.element.bits // 8

    @property
    def wide(self) -> int:
        """Preactivations of a row."""
        return self.gates * self.states

    @property
    def in_place(self) -> bool:
        """True if weights are read where they are."""
        return self.chains > 0

    @property
    def beside(self) -> int:
        """Vectors of states in a panel: enough for complete pairs, if there are as many."""
        wanted = 1 if self.gates % 2 == 0 else 2
        return min(max(self.chains // (self.rows * self.gates), 1) if self.in_place else wanted, self.vectors)

    @property
    def width(self) -> int:
        """States of a panel."""
        return self.beside * self.lanes

    @property
    def panels(self) -> int:
        """Panels of all states."""
        return -(-self.states // self.width)

    def words(self, count: int) -> int:
        """Return the number of words that hold this number of elements of an operand of the product."""
        return -(-count // 2) if self.of_pairs else count

    @property
    def elements(self) -> int:
        """Elements of a copy of the product's operands for each word."""
        return 2 if self.is_widened else 1

    @property
    def copies_left(self) -> bool:
        """True if a thread copies the left operand of a step's product, because the product reads another form."""
        return self.is_widened or self.is_chained

    @property
    def depth(self) -> int:
        """Words of a row's operand of the product: its states, then its features."""
        return self.words(self.states) + self.words(self.features)

    @property
    def parts(self) -> list[ProductPart]:
        """The products of a vector of states: one for each gate, then one of the features for each gate.

        Features have sums of their own, in the order of a product that runs before the layer. Therefore the bits do not
        depend on where the features are multiplied.
        """
        states, features = self.words(self.states), self.words(self.features)
        parts = [ProductPart(gate, 0, states) for gate in range(self.gates)]
        if features:
            parts += [ProductPart(gate, states, features) for gate in range(self.gates)]
        return parts

    @property
    def pairs(self) -> list[list[tuple[int, int]]]:
        """The vectors that are computed together, of one depth: each by its number in the panel and its part.

        Two, so that a pair of the whole depth stays in the first-level cache. Four for one or two rows, which have few
        chains. The whole panel if weights are read in place.
        """
        size = self.gates * self.beside if self.in_place else 4 if self.rows <= MAX_WEIGHT_BOUND_ROWS else 2
        alike: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for v in range(self.beside):
            for number, part in enumerate(self.parts):
                alike.setdefault(part[1:], []).append((v, number))
        return [vectors[first : first + size] for vectors in alike.values() for first in range(0, len(vectors), size)]

    @property
    def panel_size(self) -> int:
        """Elements of a copied panel of weights."""
        depth = sum(part.depth for part in self.parts) * self.elements
        return 0 if self.in_place else self.beside * self.lanes * depth

    @property
    def left_size(self) -> int:
        """Elements of a thread's copy of the left operand of a step's product."""
        return self.rows * self.apart * self.elements if self.copies_left else 0

    @property
    def sums_size(self) -> int:
        """Elements of the result of a panel's product."""
        return self.rows * self.beside * len(self.parts) * self.lanes

    @property
    def apart(self) -> int:
        """Words from row to row of the left operand of the product: a little more than a power of two."""
        return self.depth + self.lanes

    @property
    def states_apart(self) -> int:
        """Elements from row to row of copies of states; those of float32 are the left operand."""
        return self.states + self.lanes if self.of_pairs else self.apart

    @property
    def cost(self) -> float:
        """Cycles of the product of a step, whose weights are in the second-level cache, and of the cells."""
        product = max(self.rows * self.multiply_add_cycles, self.item / L2_BYTES_PER_CYCLE) * self.depth
        return self.wide * (product + self.rows * CELL_CYCLES)

    @property
    def prefers_ranges(self) -> bool:
        """True if a thread should compute its share of a step in one range.

        For few rows, a thread that begins late should get less.
        """
        return self.rows > MAX_WEIGHT_BOUND_ROWS

    @property
    def vectors(self) -> int:
        """Vectors of all states."""
        return -(-self.states // self.lanes)

    @property
    def kept_size(self) -> int:
        """Elements of all vectors that are kept for the gradient."""
        return self.times * self.vectors * self.rows * KEPT_VECTORS[self.gates] * self.lanes

    def zero(self, f: Function) -> Value:
        """Return a vector of zeros."""
        return f.constant(self.vector, 0)

    def time(self, f: Function, step: Value, backwards: bool = False) -> Value:
        """Return the position of a step, counted from the one that is computed first."""
        return f.index(self.times - 1) - step if self.reverse != backwards else step


def rounded(x: Value) -> Value:
    """Return states or gradients as operands of a product of bfloat16."""
    return convert(x, BFLOAT16)


def store_result(x: Value, to: Value, at: Index, tail: int, narrow: Value | None) -> None:
    """Store the first `tail` lanes of a vector of a result: `narrow`, the rounded one, if the result is bfloat16."""
    if to.type.element == BFLOAT16:
        x = narrow or rounded(x)
    x.function.store(x, to, at, tail)


def rounded_row(f: Function, source: Value, to: Value, count: int, vector: Type) -> None:
    """Write elements of float32 as pairs of bfloat16; an element without a neighbour is paired with 0."""
    to = f.cast(to, BFLOAT16)
    whole = count // vector.lanes * vector.lanes
    for i in f.range(0, whole, vector.lanes):
        f.store(rounded(f.load(source, i, vector.lanes)), to, i)
    if tail := count - whole:
        f.store(rounded(f.load(source, whole, vector.lanes, tail)), to, whole, tail)
    pad(f, to, count)


def pad(f: Function, to: Value, count: int, is_widened: bool = False) -> None:
    """Write 0 as the neighbour of the last one of an odd number of elements."""
    if count % 2:
        zero = f.constant(FLOAT32, 0) if is_widened else Value("0", BFLOAT16, f)
        f.store(zero, f.cast(to, zero.type), count)


def kept(layer: Layer, all: Value, at: StatePosition) -> Value:
    """Return the address of the kept vectors of a position: by time, then vector of states, then row.

    A panel finds its own without gaps.
    """
    vector = at.time * layer.vectors + at.first // layer.lanes
    return all + (vector * layer.rows + at.row) * (KEPT_VECTORS[layer.gates] * layer.lanes)


def hides(context: KernelContext, number: int, layer: Layer, row: Index, time: Index) -> Value | None:
    """Return True, as a scalar, if the mask hides a step of a row; None without a mask."""
    mask = context.inputs[number] if number < len(context.inputs) else None
    return None if mask is None else context.f.load(mask, row * layer.times + time).equal(0)
