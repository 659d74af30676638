"""Nodes: the ops of a bound block with their lowering rules, and their tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from prograd_proto import Attribute, TensorType
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalysis
from runtime.codegen.groups.view import View
from runtime.codegen.kernels.conv.plan import ConvShape
from runtime.codegen.kernels.op_types import OpTypes
from runtime.codegen.rules import CustomKernel, Rule
from runtime.codegen.rules.conv import shape_of


class Additions(Enum):
    """The order in which a product adds along its depth."""

    CHAIN = "blocks of the depth, one after the other"
    HALVES = "two halves of the depth, each in blocks"
    LANES = "the lanes of a vector, then those of it"


class Node(NamedTuple):
    """An op that computes something, or a part of one.

    Attributes:
        op: the op.
        rule: its lowering rule; None for a host op.
        inputs: names of operands, "" for absent ones; a view with the shape of its root has the name of the root.
        outputs: names of results.
        attributes: attributes by name.
        part: number of the part if a decomposition replaces the op, from 1; else 0.
        part_name: name of that part, such as "exp" in a softmax; else "".
    """

    op: pb.OpDesc
    rule: Rule | None
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Attribute]
    part: int = 0
    part_name: str = ""

    @property
    def name(self) -> str:
        """The op, with the part of it that this node computes or with the ops that were joined with it."""
        joined = self.rule.joined if isinstance(self.rule, CustomKernel) else ()
        what = f"{self.op.type}.{self.part_name}" if self.part_name else self.op.type
        return f"{what} with {', '.join(joined)}" if joined else what

    def op_types(self, types: Mapping[str, TensorType]) -> OpTypes:
        """Return what the plan of its kernel sees, given the types of all tensors."""
        inputs = [types[name] if name else None for name in self.inputs]
        return OpTypes(inputs, [types[name] for name in self.outputs], self.attributes)


@dataclass(frozen=True)
class Nodes:
    """A block as nodes.

    Attributes:
        block: analysis of the block.
        nodes: the nodes in the order of the block, without views and constants.
        root: by tensor, the tensor whose memory it has: itself, or the one that it is a view of.
        types: types by tensor.
        state_of: states by the tensors that stand for them.
        feeds: the tensors that are fed; in a block inside an op, its arguments.
        constants: constant ops by their results.
        ends: the roots of the tensors that the end of the block reads.
        views: by tensor that is a part of its root, its offset and strides; other tensors have all elements of their
            root, in its order.
        additions: by result of a product, the order of its additions.
    """

    block: BlockAnalysis
    nodes: list[Node]
    root: dict[str, str]
    types: dict[str, TensorType]
    state_of: dict[str, str]
    feeds: list[str]
    constants: dict[str, pb.OpDesc]
    ends: set[str]
    views: dict[str, View] = field(default_factory=dict[str, "View"])
    additions: dict[str, Additions] = field(default_factory=dict[str, Additions])


def convolution_of(node: Node, types: Mapping[str, TensorType]) -> ConvShape:
    """Return the sizes of a convolution."""
    source, filter = (types[name] for name in node.inputs[:2])
    return shape_of(source, filter, types[node.outputs[0]], node.attributes)
