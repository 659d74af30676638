"""Read: the ops of a bound block with their forms; views are the tensors that they are of, constants are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from prograd_proto import Attribute, TensorType, attributes_of
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalysis
from runtime.codegen.ir import DTYPES
from runtime.codegen.lowering.decompositions import Decompositions
from runtime.codegen.lowering.view import View
from runtime.codegen.rules import CustomKernel, Decomposition, Pointwise, Rule, rule_of
from runtime.operators import CONTRACTS


class Additions(Enum):
    """The order in which a product adds along its depth."""

    CHAIN = "blocks of the depth, one after the other"
    HALVES = "two halves of the depth, each in blocks"
    LANES = "the lanes of a vector, then those of it"


class Node(NamedTuple):
    """An op that has something to compute.

    Attributes:
        op: of the block.
        rule: None if its NumPy kernel computes it.
        inputs: names of tensors, "" for absent ones; a view of the same shape is named as what it is of.
        outputs: names of tensors.
        attributes: by name.
        part: which one it is of those that the op is spelled with.
    """

    op: pb.OpDesc
    rule: Rule | None
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Attribute]
    part: int = 0


@dataclass(frozen=True)
class Nodes:
    """A block as nodes.

    Attributes:
        block: as it is written.
        nodes: in its order, without views and constants.
        root: of each tensor, the one whose memory it is: itself, or what it is a view of.
        types: of each tensor.
        state_of: by tensor, the state that it is.
        feeds: the tensors that are fed.
        constants: the ops that are constants, by tensor.
        ends: the roots of what the end of the step reads.
        views: of tensors that are part of their root, how they lie in it; others are all of it, in its order.
        additions: of the results of products, in which order they are added up.
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


def read_nodes(desc: pb.BlockDesc, pinned: tuple[str, ...] = (), is_instrumented: bool = False) -> Nodes:
    """The nodes of a bound block.

    Args:
        desc: the block.
        pinned: tensors that the end of the step reads besides fetches and updates.
        is_instrumented: whether every op stays one node.
    """
    block = BlockAnalysis(desc)
    reader = _Reader(
        is_instrumented, {parameter.tensor: parameter.tensor for parameter in desc.parameters}, dict(block.types)
    )
    for op, inputs, outputs in zip(block.ops, block.inputs, block.outputs, strict=True):
        reader.add(op, inputs, outputs)
    ends = [fetch.tensor for fetch in desc.fetches] + [update.tensor for update in desc.updates] + list(pinned)
    return Nodes(
        block,
        reader.nodes,
        reader.root,
        reader.types,
        {p.tensor: p.state for p in desc.parameters if p.WhichOneof("source") == "state"},
        [p.tensor for p in desc.parameters if p.WhichOneof("source") == "feed"],
        reader.constants,
        {reader.root[name] for name in ends},
    )


@dataclass
class _Reader:
    whole: bool
    root: dict[str, str]
    types: dict[str, TensorType]
    nodes: list[Node] = field(default_factory=list[Node])
    constants: dict[str, pb.OpDesc] = field(default_factory=dict[str, pb.OpDesc])
    decompositions: Decompositions = field(default_factory=Decompositions)

    def add(self, op: pb.OpDesc, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        self.root.update((name, name) for name in outputs)
        if op.type == "constant":
            self.constants[outputs[0]] = op
        elif CONTRACTS[op.type].view:
            self.root[outputs[0]] = self.root[inputs[0]]
        else:
            rule = _usable_rule(op, [self.types[x] if x else None for x in inputs], [self.types[x] for x in outputs])
            if isinstance(rule, Decomposition) and not self.whole:
                self._decompose(op, rule, inputs, outputs)
            else:
                rule = None if isinstance(rule, Decomposition) else rule
                self.nodes.append(Node(op, rule, self._names(inputs), tuple(outputs), attributes_of(op)))

    def _decompose(self, op: pb.OpDesc, rule: Decomposition, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        names, attributes = self._names(inputs), attributes_of(op)
        decomposed = self.decompositions.decomposed(
            len(self.nodes), rule, names, tuple(outputs), self.types, attributes
        )
        self.types.update(decomposed.types)
        self.root.update((name, name) for name in decomposed.types)
        for name, of in decomposed.views.items():
            self.root[name] = self.root[of]
        for part, form_of_part, names, output, attributes in decomposed.steps:
            self.nodes.append(Node(op, form_of_part, self._names(names), (output.name,), attributes, part))

    def _names(self, names: Sequence[str]) -> tuple[str, ...]:
        """A view of the same shape is named as what it is of."""
        roots = ((name, self.root[name]) if name else ("", "") for name in names)
        return tuple(root if name and self.types[root] == self.types[name] else name for name, root in roots)


def _usable_rule(op: pb.OpDesc, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]) -> Rule | None:
    """The form of an op, unless there is nothing to compute, or nothing to compute it in."""
    operands = [type for type in inputs if type is not None]
    rule = rule_of(op.type, [type.dtype for type in operands])
    if rule is None or any(0 in type.static_shape for type in (*operands, *outputs)):
        return None
    if isinstance(rule, CustomKernel | Decomposition):
        return rule if rule.supports(inputs, outputs, attributes_of(op)) else None
    if any(type.dtype not in DTYPES for type in outputs):
        return None
    if isinstance(rule, Pointwise):
        one_domain = len({type.shape for type in outputs if type.rank}) < 2  # and numbers alone, beside it
        return rule if one_domain and (rule.uniforms is None or outputs[0].rank) else None
    return rule
