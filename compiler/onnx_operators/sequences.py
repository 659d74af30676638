"""Sequences and optionals, which are lists while importing."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from compiler.errors import CompileError
from compiler.frontends.arranged import Arranged, arranged, plain, squeezed
from compiler.frontends.onnx.node import Mapping, Node
from compiler.frontends.pieces import split
from compiler.onnx_operators.flow.bodies import ran
from compiler.onnx_operators.shape import joined
from registry import ops


def _sequence(node: Node) -> list[Any]:
    x = node.operands[0]
    if not isinstance(x, list):
        raise CompileError("a sequence that is no list while importing")
    return x


def _insert(node: Node) -> tuple[list[Any]]:
    xs = list(_sequence(node))
    xs.insert(node.number(2) if node.has(2) else len(xs), node.operands[1])
    return (xs,)


def _erase(node: Node) -> tuple[list[Any]]:
    xs = list(_sequence(node))
    del xs[node.number(1) if node.has(1) else -1]
    return (xs,)


def _concatenated(node: Node) -> Arranged:
    xs, axis = [node.lifted(x) for x in _sequence(node)], int(node.attribute("axis"))
    if node.attribute("new_axis", 0):
        return arranged(ops.stack(*map(plain, xs), axis=axis))
    return joined(xs, axis % xs[0].rank)


def _split_to(node: Node) -> tuple[list[Any]]:
    x, axis = node.tensor(0), node.axis()
    size = node.size(axis)
    if not node.has(1):
        parts = split(x, [1] * size, axis)
        return ([squeezed(y, [axis]) for y in parts] if not node.attribute("keepdims", 1) else parts,)
    sizes = node.numbers(1)
    if node.operands[1].rank == 0:
        each = sizes[0]
        sizes = [each] * (size // each) + ([size % each] if size % each else [])
    return (split(x, sizes, axis),)


def _sequence_map(node: Node) -> tuple[Any, ...]:
    body, xs = node.attribute("body"), _sequence(node)
    made: list[list[Any]] = [[] for _ in body.output]
    for i, x in enumerate(xs):
        others = [each[i] if isinstance(each, list) else each for each in node.operands[1:]]
        for collected, result in zip(made, ran(node, body, [x, *others]), strict=True):
            collected.append(result)
    return tuple(made)


IMPORTS: Final[dict[str, Mapping]] = {
    "OptionalHasElement": lambda node: node.walk.constant(np.asarray(node.has(0))),
    "OptionalGetElement": lambda node: node.operands[0],
    "SequenceConstruct": lambda node: (list(node.operands),),
    "SequenceEmpty": lambda node: ([],),
    "SequenceAt": lambda node: _sequence(node)[node.number(1)],
    "SequenceLength": lambda node: node.walk.constant(np.asarray(len(_sequence(node)), np.int64)),
    "SequenceInsert": _insert,
    "SequenceErase": _erase,
    "SequenceMap": _sequence_map,
    "ConcatFromSequence": _concatenated,
    "SplitToSequence": _split_to,
}
