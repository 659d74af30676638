"""Masks of clamped values: `relu6(x) > 0` is `x > 0`, so a group that computes the mask alone needs no clamp.

The gradient of an activation is masked by its result. Where the result is recomputed for the mask, comparing the
operand of the activation gives the same mask, for NaN too: both comparisons are false.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Final

from prograd_proto import program_pb2 as pb
from runtime.codegen.groups.nodes import Node
from runtime.constants import constant_array

BOUNDS: Final[dict[str, tuple[float, float]]] = {"relu": (0.0, inf), "relu6": (0.0, 6.0)}
"""Least and largest result of activations that return their operand between the two."""

COMPARISONS: Final[dict[str, Callable[[float, float, float], bool]]] = {
    "greater": lambda low, bound, high: low <= bound < high,
    "less": lambda low, bound, high: low < bound <= high,
}
"""For each comparison with a bound, whether a clamped value and its operand give the same mask."""


def with_unclamped_masks(nodes: Sequence[Node], constants: Mapping[str, pb.OpDesc]) -> list[Node]:
    """Return the nodes of a group, where comparisons with constants read the operand of an activation if they can."""
    clamps = {node.outputs[0]: node for node in nodes if node.op.type in BOUNDS and not node.part}
    return [_unclamped(node, clamps, constants) for node in nodes]


def _unclamped(node: Node, clamps: Mapping[str, Node], constants: Mapping[str, pb.OpDesc]) -> Node:
    if node.op.type not in COMPARISONS or node.part or node.inputs[0] not in clamps or node.inputs[1] not in constants:
        return node
    bound = constant_array(constants[node.inputs[1]].attributes[0].tensor_value)
    clamp = clamps[node.inputs[0]]
    low, high = BOUNDS[clamp.op.type]
    if bound.size != 1 or not COMPARISONS[node.op.type](low, float(bound.item()), high):
        return node
    return node._replace(inputs=(clamp.inputs[0], node.inputs[1]))
