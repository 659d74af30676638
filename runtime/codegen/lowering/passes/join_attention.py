"""Attention writes its results where transposes and concatenations would move them, and as casts would round them.

A result of attention is a tensor of heads. Usually its only reader is a transpose that puts the heads of a position
next to each other. The gradients of queries, keys and values are often concatenated, as one product computed all three.
If all parts of such a concatenation are gradients of one op, the op writes them into the parts. Attention of
bfloat16 also rounds a result that only a cast to bfloat16 reads.

A result stays a tensor of its own if another op or the end of the block reads it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, cast

from runtime.codegen.groups.nodes import Node, Nodes
from runtime.codegen.kernels.attention import ResultPlace, can_read
from runtime.codegen.kernels.moves import Layout, row_major
from runtime.codegen.lowering.lowered_block import LoweredBlock
from runtime.codegen.rules.attention import JOINED_OPS, PLANS, attention_rule


def join_attention(block: LoweredBlock) -> LoweredBlock:
    """Let attention write its results where transposes and concatenations would move them."""
    if not block.options.has_strided_kernels:
        return block
    return block._replace(nodes=with_attention(block.nodes))


def with_attention(block: Nodes) -> Nodes:
    """Return the block where attention writes the results of the ops that only move its own."""
    positions = [i for i, node in enumerate(block.nodes) if node.op.type in PLANS and node.rule is not None]
    return _Attention(block).result(positions) if positions else block


class _Target(NamedTuple):
    """The tensor that attention writes instead of a result.

    Attributes:
        name: the tensor, a root.
        offset: offset of the first element of the result in it.
        layout: layout of the result in it.
        moves: positions of the ops that move the result there, in order.
    """

    name: str
    offset: int
    layout: Layout
    moves: tuple[int, ...] = ()


class _Attention:
    def __init__(self, block: Nodes) -> None:
        self.block = block
        self.readers: dict[str, list[int]] = {}
        for i, node in enumerate(block.nodes):
            for name in filter(None, node.inputs):
                self.readers.setdefault(block.root.get(name, name), []).append(i)

    def result(self, positions: Sequence[int]) -> Nodes:
        nodes = dict(enumerate(self.block.nodes))
        for i in positions:
            targets = self._targets(nodes[i])
            moves = sorted({move for target in targets for move in target.moves})
            if moves:
                nodes[i] = self._joined(nodes[i], targets, [nodes[move] for move in moves])
                for move in moves:
                    del nodes[move]
        return replace(self.block, nodes=[*nodes.values()])

    def _joined(self, node: Node, targets: Sequence[_Target], moves: Sequence[Node]) -> Node:
        outputs = [*dict.fromkeys(target.name for target in targets)]
        places = [ResultPlace(outputs.index(each.name), each.offset, each.layout) for each in targets]
        rule = attention_rule(node.op.type, places, [move.op.type for move in moves], of_pairs=self._is_of_pairs(node))
        return node._replace(rule=rule, outputs=tuple(outputs))

    def _targets(self, node: Node) -> list[_Target]:
        """Return the tensors that an op writes instead of its results."""
        joined = JOINED_OPS[self._is_of_pairs(node)]
        found = [self._target(name, joined) for name in node.outputs]
        parts = Counter(move for target in found for move in target.moves)
        nodes = self.block.nodes
        if all(count == len(nodes[move].inputs) for move, count in parts.items() if nodes[move].op.type == "concat"):
            return found
        alone = [name for name in joined if name != "concat"]
        return [self._target(name, alone) for name in node.outputs]

    def _is_of_pairs(self, node: Node) -> bool:
        return self.block.types[node.inputs[0]].dtype == "bfloat16"

    def _target(self, name: str, operators: Sequence[str]) -> _Target:
        """Return the tensor to which ops of these operators alone move a tensor; the tensor itself if none do."""
        own = self._own(name)
        readers = self.readers.get(name, [])
        if len(readers) != 1 or name in self.block.ends:
            return own
        [i] = readers
        node = self.block.nodes[i]
        if node.op.type not in operators or node.rule is None:
            return own
        [result] = node.outputs
        if node.op.type == "cast" and self.block.types[result].dtype != "bfloat16":
            return own
        for further in (self._target(result, operators), self._own(result)):
            offset, layout = self._operand(name, node, further)
            if layout is not None and can_read(layout):
                return _Target(further.name, offset, layout, (i, *further.moves))
        return own

    def _own(self, name: str) -> _Target:
        shape = self.block.types[name].static_shape
        return _Target(name, 0, Layout(shape, row_major(shape)))

    def _operand(self, name: str, node: Node, result: _Target) -> tuple[int, Layout | None]:
        """Return the offset and the layout of an operand of a move in the tensor to which its result is moved."""
        number = [self.block.root.get(x, x) for x in node.inputs].index(name)
        shapes = [self.block.types[x].static_shape for x in node.inputs]
        steps, offset = result.layout.strides, result.offset
        if node.op.type == "cast":
            strides = steps
        elif node.op.type == "transpose":
            axes = cast("tuple[int, ...]", node.attributes["axes"])
            strides = tuple(steps[axes.index(axis)] for axis in range(len(axes)))
        else:
            axis = cast("int", node.attributes["axis"])
            strides, offset = steps, offset + sum(shape[axis] for shape in shapes[:number]) * steps[axis]
        return offset, Layout(shapes[number], strides).reshaped(self.block.types[name].static_shape)
