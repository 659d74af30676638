"""Views: ops that only pick elements of a tensor become offsets and strides of their readers.

1. Ops are visited in order. The operand is a view of a root, with an offset and a stride for each axis; so is each
   result.
2. If all readers of a result, and of its views, can read it in place without loss of speed, the op is left out.
   Otherwise it stays, and copies from the view that is its operand.

A reader along the last axis needs contiguous elements there, 16 bytes of them for each reader but at most a cache line:
gathering them costs more than a copy. A product takes operands with contiguous elements along either axis. Attention
takes heads whose rows are contiguous. NumPy kernels and other custom kernels take contiguous tensors.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from prograd_proto.dtypes import ITEM_BYTES
from runtime.codegen.groups.nodes import Node, Nodes
from runtime.codegen.groups.view import View
from runtime.codegen.kernels.matmul.shape import is_of_few_rows
from runtime.codegen.kernels.moves import Layout, row_major
from runtime.codegen.kernels.nest import nest
from runtime.codegen.lowering.lowered_block import LoweredBlock
from runtime.codegen.rules import CustomKernel, Pointwise, Product, Reduction
from runtime.codegen.rules.rule import Factors
from runtime.codegen.rules.shape import MOVES, VIEW_OPS

LEAST_BYTES, MOST_BYTES = 16, 64
"""Least contiguous bytes of a tensor with gaps: for each reader, and in all.

Each reader pays the cost of the gaps that a copy would pay once; a whole cache line is as good as more.
"""


def resolve_views(block: LoweredBlock) -> LoweredBlock:
    """Remove ops that only pick elements, where every reader can read the operand by strides and an offset."""
    return block._replace(nodes=with_views(block.nodes, block.options.has_strided_kernels))


def with_views(block: Nodes, has_strided_kernels: bool = True) -> Nodes:
    """Return the block without the ops that no reader needs."""
    return _Views(block, has_strided_kernels).result()


class _Views:
    def __init__(self, block: Nodes, has_strided_kernels: bool) -> None:
        self.block, self.has_strided_kernels = block, has_strided_kernels
        self.found: dict[str, View] = {}
        self.views: dict[str, list[str]] = {}
        for name, root in block.root.items():
            self.views.setdefault(root, []).append(name)
        self.readers: dict[str, list[tuple[Node, int]]] = {}
        for node in block.nodes:
            for position, name in enumerate(node.inputs):
                self.readers.setdefault(name, []).append((node, position))

    def result(self) -> Nodes:
        nodes = [node for node in self.block.nodes if not self._is_view(node)]
        root = {name: self.found[name].root if name in self.found else of for name, of in self.block.root.items()}
        return replace(self.block, nodes=nodes, root=root, views=self.found)

    def _is_view(self, node: Node) -> bool:
        """Note the views, and return True, if all readers can read the results of a node in place."""
        if node.op.type not in VIEW_OPS or node.rule is None:
            return False
        operand = self._view(node.inputs[0])
        outputs = [self.block.types[name] for name in node.outputs]
        [moves] = MOVES[node.op.type]([operand.layout], outputs, **node.attributes)
        found: dict[str, View] = {}
        for name, move in zip(node.outputs, moves, strict=True):
            assert not isinstance(move.source, int), "what is picked out is read"
            layout = Layout(move.extents, move.source.strides)
            found_view = View(operand.root, operand.offset + move.source.offset, layout)
            views = self._views(name, found_view)
            if views is None or not all(self._suits(*view) for view in views.items()):
                return False
            found |= views
        self.found |= found
        return True

    def _view(self, name: str) -> View:
        shape = self.block.types[name].static_shape
        return self.found.get(name) or View(self.block.root[name], 0, Layout(shape, row_major(shape)))

    def _views(self, name: str, found_view: View) -> dict[str, View] | None:
        """Return a tensor and its views of other shapes.

        Return None if one of them must be moved, or if the end of the block reads the tensor.
        """
        if name in self.block.ends:
            return None
        views: dict[str, View] = {}
        for view in self.views[name]:
            layout = found_view.layout.reshaped(self.block.types[view].static_shape)
            if layout is None:
                return None
            views[view] = found_view._replace(layout=layout)
        return views

    def _suits(self, name: str, view: View) -> bool:
        """Return True if all readers of this tensor can read it in place."""
        readers = self.readers.get(name, [])
        least = min(LEAST_BYTES * len(readers), MOST_BYTES)
        return view.layout.is_plain or all(self._reads(*reader, view.layout, least) for reader in readers)

    def _reads(self, node: Node, position: int, layout: Layout, least: int) -> bool:
        types = self.block.types
        if node.op.type in MOVES and node.rule is not None:
            return True
        if isinstance(node.rule, Product):
            plain = [self._view(name).layout for name in node.inputs]
            read = [layout if x == node.inputs[position] else y for x, y in zip(node.inputs, plain, strict=True)]
            domain = types[node.outputs[0]].static_shape
            before, after = (node.rule.factors(*operands, **node.attributes) for operands in (plain, read))
            if before is None or after is None or not _is_contiguous(after, before, domain):
                return False
            is_paired = types[node.inputs[0]].dtype == "bfloat16"
            in_lanes = domain[-1] == 1 or (
                not is_paired and is_of_few_rows(before.left, before.right, before.depth, domain)
            )
            return not in_lanes or _keeps_depth(after, before)
        if isinstance(node.rule, Pointwise | Reduction):
            name = node.inputs[0] if isinstance(node.rule, Reduction) else node.outputs[0]
            return _has_contiguous_runs(
                layout, types[name].static_shape, least // ITEM_BYTES[types[node.inputs[position]].dtype]
            )
        if isinstance(node.rule, CustomKernel) and node.rule.strided is not None and self.has_strided_kernels:
            return node.rule.strided.can_read(position, layout)
        return False


def _is_contiguous(factors: Factors, plain: Factors, domain: tuple[int, ...]) -> bool:
    """Return True if a product finds contiguous elements in both operands, and has no more matrices than before."""
    (row, _, depth), (_, column, depth_of_right) = factors.left[-3:], factors.right[-3:]
    beside = 1 in (row, depth) and 1 in (column, depth_of_right)
    return beside and _loops_around(factors, domain) <= _loops_around(plain, domain)


def _keeps_depth(factors: Factors, plain: Factors) -> bool:
    """Return True if operands of a product in lanes are contiguous along the same axes as copies."""
    is_left = (factors.left[-1] == 1) == (plain.left[-1] == 1)
    return is_left and (factors.depth == 1 or factors.right[-1] == 1)


def _loops_around(factors: Factors, domain: tuple[int, ...]) -> int:
    """Return the number of matrices of a product."""
    steps = {"left": factors.left[:-2], "right": factors.right[:-2], "result": row_major(domain)[:-1]}
    return prod(nest(domain[:-1], steps).extents[:-1])


def _has_contiguous_runs(layout: Layout, domain: tuple[int, ...], least: int) -> bool:
    """Return True if a nest over a domain finds at least `least` contiguous elements."""
    loops = nest(domain, {"operand": layout.along(domain), "result": row_major(domain)})
    if not loops.extents:
        return True
    return loops.strides["operand"][-1] in (0, 1) and loops.extents[-1] >= least
