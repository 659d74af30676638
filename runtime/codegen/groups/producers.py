"""The producer slot: which nodes may compute an operand of a product or of a convolution where that is packed.

1. The operand is seen as a matrix. Its columns are the last axis, and its rows are all other axes.
2. The nodes are pointwise. They have the shape of the operand, and read each tensor by two strides, one from row to row
   and one from column to column. Among these tensors are statistics of rows that an earlier group has reduced.
3. The first node may be a kernel whose rows can be read alone instead, such as `gather`: see `CustomKernel.row_reader`.
4. The reader has a slot for this operand. A convolution has one for its first operand, if it packs each pixel about
   once. A product has one for either operand.
5. `recompute` decides whether the operand is computed there. It then has the same bits as in memory: the nodes are the
   same, and the order of additions of a product does not depend on where its operands are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from prograd_proto import TensorType
from runtime.codegen.groups.group import Group
from runtime.codegen.groups.nodes import Node
from runtime.codegen.groups.view import View
from runtime.codegen.kernels.moves import Layout, row_major
from runtime.codegen.kernels.nest import nest
from runtime.codegen.rules import CustomKernel, Pointwise, Product
from runtime.codegen.rules.rule import RowReader


def has_slot(group: Group, name: str) -> bool:
    """Return True if a group may compute tensor `name` where it packs it: one operand of its first node, read once."""
    node, *others = group.nodes
    if group.prologue and isinstance(node.rule, Product):  # of what the slot reads, nothing else may read it
        return any(name in other.inputs for other in group.prologue) and not any(
            name in other.inputs for other in group.nodes
        )
    slots = node.inputs if isinstance(node.rule, Product) else node.inputs[:1] if _is_packed(node) else ()
    return name in slots and node.inputs.count(name) == 1 and not any(name in other.inputs for other in others)


def _is_packed(node: Node) -> bool:
    return isinstance(node.rule, CustomKernel) and node.rule.plan_with_prologue is not None


def can_produce(
    nodes: Sequence[Node], operand: TensorType, types: Mapping[str, TensorType], views: Mapping[str, View]
) -> bool:
    """Return True if these nodes compute an operand of this type row by row, each element from its own row."""
    shape = operand.static_shape
    if not shape or shape[-1] == 1 or prod(shape[:-1]) == 1:
        return False
    internal = {name for node in nodes for name in node.outputs}
    return all(types[node.outputs[0]].static_shape == shape for node in nodes) and all(
        reader_of(node, types)
        or (
            _is_elementwise(node)
            and all(x in internal or row_strides(_layout(x, types, views), shape) for x in node.inputs if x)
        )
        for node in nodes
    )


def reader_of(node: Node, types: Mapping[str, TensorType]) -> RowReader | None:
    """Return how vectors of the rows of a node's result are computed alone, if they can be."""
    reader = node.rule.row_reader if isinstance(node.rule, CustomKernel) else None
    applies = reader is not None and reader.applies(node.op_types(types))
    return reader if applies else None


def _is_elementwise(node: Node) -> bool:
    rule = node.rule
    return isinstance(rule, Pointwise) and not (rule.uniforms or rule.indices or rule.is_random or rule.is_invalid)


def _layout(name: str, types: Mapping[str, TensorType], views: Mapping[str, View]) -> Layout:
    shape = types[name].static_shape
    return views[name].layout if name in views else Layout(shape, row_major(shape))


def row_strides(layout: Layout, shape: tuple[int, ...]) -> tuple[int, int] | None:
    """Return the strides of a tensor from row to row and from column to column of an operand of this shape.

    None if its rows are not evenly spaced or its columns have gaps.
    """
    *leading, column = layout.along(shape)
    rows = nest(shape[:-1], {"": tuple(leading)})
    if len(rows.extents) > 1 or column not in (0, 1):
        return None
    return (rows.strides[""][0] if rows.extents else 0), column
