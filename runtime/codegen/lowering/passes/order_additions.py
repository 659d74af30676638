"""Additions: the order in which each product adds, determined by the program alone.

An element of a product is a sum along the depth. It is one chain of blocks, or two halves of the depth that threads
compute separately, or it is computed in the lanes of a vector if the result has one column, or few rows: see
`Additions`. The choice follows from the shapes of the operands, and from the axes along which they would be contiguous
if nothing were copied: the search for these goes back through views, transposes, slices, and tensors that were moved to
a file and back. Fetches, memory plans and other readers decide whether such an operand is really copied, and which
nodes are in a group with the product; therefore strides and loops of the generated code decide nothing here. For
results of one column or few rows, the op alone decides, and operands with another layout are copied: see
`lowering.resolve_views`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from math import prod
from typing import NamedTuple

from runtime.codegen.groups.nodes import Additions, Node, Nodes
from runtime.codegen.ir import DTYPES
from runtime.codegen.kernels.matmul.shape import ProductShape, is_halved, is_of_few_rows, shares_panels
from runtime.codegen.kernels.moves import Layout, row_major
from runtime.codegen.kernels.nest import Nest
from runtime.codegen.lowering.control import shared_arguments
from runtime.codegen.lowering.lowered_block import LoweredBlock
from runtime.codegen.rules import Product
from runtime.codegen.rules.rule import Factors
from runtime.codegen.rules.shape import MOVES, VIEW_OPS
from runtime.operators import CONTRACTS
from runtime.step import is_transfer


def order_additions(block: LoweredBlock) -> LoweredBlock:
    """Choose the order in which each product adds, from the program alone."""
    return block._replace(nodes=with_additions(block.nodes, shared_arguments(block)))


def with_additions(block: Nodes, shared: Collection[str] = ()) -> Nodes:
    """Return the block with the order of additions of each of its products.

    `shared` are the arguments of a body that are equal in all iterations.
    """
    if not any(isinstance(node.rule, Product) for node in block.nodes):
        return block
    orders = _Orders(block, shared)
    found = {node.outputs[0]: orders.of(node) for node in block.nodes if isinstance(node.rule, Product)}
    return replace(block, additions=found)


class _ContiguousAxes(NamedTuple):
    """The axes along which the operands of a product are contiguous, if nothing is copied.

    Attributes:
        left_along_depth: True if elements of a row of the left operand are contiguous.
        right_along_rows: True if elements of a row of the right operand are.
    """

    left_along_depth: bool
    right_along_rows: bool


class _Orders:
    def __init__(self, block: Nodes, shared: Collection[str]) -> None:
        self._block = block
        self._maker = {name: node for node in block.nodes for name in node.outputs}
        self._invariant = _invariant(block, shared)
        self._shapes: dict[object, ProductShape] = {}

    def of(self, node: Node) -> Additions:
        """Return the order in which a product adds."""
        layouts = [self._layout(name) for name in node.inputs]
        shapes = [self._block.types[name].static_shape for name in (*node.inputs, *node.outputs)]
        is_paired = self._block.types[node.inputs[0]].dtype == "bfloat16"
        key = (node.op.type, is_paired, *node.attributes.items(), *shapes, *layouts)
        if key not in self._shapes:
            shape = self._shape(node, layouts)
            self._shapes[key] = _of_pairs(shape) if is_paired else shape
        shape = self._shapes[key]
        if shape.n == 1 < shape.m or (not is_paired and self._is_of_few_rows(node)):
            return Additions.LANES
        right = self._block.root[node.inputs[0 if shape.is_transposed else 1]]
        if shares_panels(shape, is_prepacked=right in self._invariant):
            return Additions.CHAIN
        bits = DTYPES[self._block.types[node.outputs[0]].dtype].bits
        return Additions.HALVES if is_halved(shape, bits) else Additions.CHAIN

    def _is_of_few_rows(self, node: Node) -> bool:
        types = self._block.types
        factors = self._factors(node, *(_plain(types[name].static_shape) for name in node.inputs))
        assert factors is not None, "operands without gaps are always taken"
        return is_of_few_rows(factors.left, factors.right, factors.depth, types[node.outputs[0]].static_shape)

    def _shape(self, node: Node, layouts: list[Layout]) -> ProductShape:
        """Return a product as matrices; axes along which the right operand is the same become one axis of rows.

        `layouts` are those that the operands have where they are not copied.
        """
        types, domain = self._block.types, self._block.types[node.outputs[0]].static_shape
        factors = self._factors(node, *(_plain(types[name].static_shape) for name in node.inputs))
        assert factors is not None, "operands without gaps are always taken"
        first = len(domain) - 1
        while first > 0 and (domain[first - 1] == 1 or not factors.right[first - 1]):
            first -= 1
        matrices, m, n, k = prod(domain[:first]), prod(domain[first:-1]), domain[-1], factors.depth
        if n == 1 < m:
            if factors.left[-1] == 1:
                return ProductShape(Nest((matrices, m, 1), {}), m, 1, k, (k, 1), (1, 1))
            return ProductShape(Nest((matrices, 1, m), {}), 1, m, k, (1, 1), (m, 1), is_transposed=True)
        sides = self._sides(node, layouts, m, n, k)
        left, right = (k, 1) if sides.left_along_depth else (1, m), (n, 1) if sides.right_along_rows else (1, k)
        return ProductShape(Nest((matrices, m, n), {}), m, n, k, left, right)

    def _sides(self, node: Node, moved: list[Layout], m: int, n: int, k: int) -> _ContiguousAxes:
        """Return the axes along which operands are contiguous that are read in place.

        Operands that no product could read in place count as copies.
        """
        types = self._block.types
        plain = [_plain(types[name].static_shape) for name in node.inputs]
        for pair in (moved, [moved[0], plain[1]], [plain[0], moved[1]], plain):
            factors = self._factors(node, *pair)
            if factors is None:
                continue
            (row, _, depth), (_, column, depth_of_right) = factors.left[-3:], factors.right[-3:]
            along_depth, along_rows = k == 1 or m == 1 or depth == 1, n == 1 or column == 1
            if (along_depth or row == 1) and (along_rows or depth_of_right == 1):
                return _ContiguousAxes(along_depth, along_rows)
        raise AssertionError("operands without gaps are always taken")

    def _factors(self, node: Node, *operands: Layout) -> Factors | None:
        assert isinstance(node.rule, Product), "only asked of products"
        return node.rule.factors(*operands, **node.attributes)

    def _layout(self, name: str) -> Layout:
        """Return the layout of a tensor in the memory of the tensor that contains it, through any number of views."""
        shape, maker = self._block.types[name].static_shape, self._maker.get(self._block.root.get(name, name))
        if maker is None or (maker.rule is None and not is_transfer(maker.op.type)):
            return _plain(shape)
        if is_transfer(maker.op.type):
            layout = self._layout(maker.inputs[0])
        elif maker.op.type in VIEW_OPS:
            outputs = [self._block.types[output] for output in maker.outputs]
            [moves] = MOVES[maker.op.type]([self._layout(maker.inputs[0])], outputs, **maker.attributes)
            move = moves[maker.outputs.index(self._block.root[name])]
            assert not isinstance(move.source, int), "what is picked out is read"
            layout = Layout(move.extents, move.source.strides)
        else:
            return _plain(shape)
        return layout.reshaped(shape) or _plain(shape)


def _of_pairs(shape: ProductShape) -> ProductShape:
    """Return a product whose depth counts pairs; one column is computed as a row, and never in lanes."""
    paired = shape._replace(k=-(-shape.k // 2), depth=shape.k)
    if shape.n > 1 or shape.m == 1:
        return paired
    (row, left), (right, column) = shape.left, shape.right
    return paired._replace(m=1, n=shape.m, left=(column, right), right=(left, row), is_transposed=True)


def _plain(shape: Sequence[int]) -> Layout:
    return Layout(tuple(shape), row_major(shape))


def _invariant(block: Nodes, shared: Collection[str]) -> set[str]:
    """Return the roots that are derived from states and constants alone, if no step changes a state.

    In a body, these are the roots that are derived from constants and from what all iterations share.
    """
    if block.block.desc.updates:
        return set()
    invariant = {*block.state_of, *block.constants, *shared}
    for node in block.nodes:
        is_known = node.op.type in CONTRACTS and not CONTRACTS[node.op.type].random
        if is_known and all(block.root[x] in invariant for x in node.inputs if x):
            invariant.update(node.outputs)
    return invariant
