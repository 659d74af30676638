"""Read: the ops of a bound block become nodes; views are replaced by their roots, and constants are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from prograd_proto import Attribute, TensorType
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalysis, Kind
from runtime.codegen.groups.nodes import Node, Nodes
from runtime.codegen.ir import DTYPES
from runtime.codegen.kernels.op_types import OpTypes
from runtime.codegen.lowering.decompositions import Decompositions
from runtime.codegen.lowering.lowered_block import LoweredBlock
from runtime.codegen.rules import CustomKernel, Decomposition, Pointwise, Rule, rule_of
from runtime.operators import CONTRACTS


def read(block: LoweredBlock) -> LoweredBlock:
    """Create nodes from ops, with their lowering rules; resolve constants and decompositions."""
    return block._replace(nodes=read_nodes(block.desc, block.pinned, is_instrumented=block.is_instrumented))


def read_nodes(desc: pb.BlockDesc, pinned: tuple[str, ...] = (), is_instrumented: bool = False) -> Nodes:
    """Return the nodes of a bound block.

    Args:
        desc: the block.
        pinned: tensors that the end of the step reads besides fetches and updates.
        is_instrumented: True if every op stays one node.
    """
    block = BlockAnalysis(desc)
    reader = _Reader(
        is_instrumented, {parameter.tensor: parameter.tensor for parameter in desc.parameters}, dict(block.types)
    )
    for op, kind, inputs, outputs in zip(block.ops, block.kinds, block.inputs, block.outputs, strict=True):
        reader.add(op, kind, inputs, outputs)
    sources = [(parameter.WhichOneof("source"), parameter) for parameter in desc.parameters]
    return Nodes(
        block,
        reader.nodes,
        reader.root,
        reader.types,
        {parameter.tensor: parameter.state for source, parameter in sources if source == "state"},
        [parameter.tensor for source, parameter in sources if source != "state"],
        reader.constants,
        {reader.root[name] for name in (*block.ends, *pinned)},
    )


@dataclass
class _Reader:
    whole: bool
    root: dict[str, str]
    types: dict[str, TensorType]
    nodes: list[Node] = field(default_factory=list[Node])
    constants: dict[str, pb.OpDesc] = field(default_factory=dict[str, pb.OpDesc])
    decompositions: Decompositions = field(default_factory=Decompositions)
    rules: dict[Kind, Rule | None] = field(default_factory=dict[Kind, "Rule | None"])

    def add(self, op: pb.OpDesc, kind: Kind, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        for name in outputs:
            self.root[name] = name
        if kind.op_type == "constant":
            self.constants[outputs[0]] = op
        elif kind.op_type in CONTRACTS and CONTRACTS[kind.op_type].view:
            self.root[outputs[0]] = self.root[inputs[0]]
        else:
            rule = None if op.blocks else self._rule(kind)  # `LoweredBlock.bodies` tells what runs the blocks
            names, outputs = self._names(inputs), tuple(outputs)
            if isinstance(rule, Decomposition) and not self.whole:
                self._decompose(op, rule, names, outputs, kind.attributes)
            else:
                rule = None if isinstance(rule, Decomposition) else rule
                self.nodes.append(Node(op, rule, names, outputs, kind.attributes))

    def _rule(self, kind: Kind) -> Rule | None:
        if kind not in self.rules:
            self.rules[kind] = _usable_rule(kind)
        return self.rules[kind]

    def _decompose(
        self,
        op: pb.OpDesc,
        rule: Decomposition,
        names: tuple[str, ...],
        outputs: tuple[str, ...],
        attributes: Mapping[str, Attribute],
    ) -> None:
        decomposed = self.decompositions.decomposed(len(self.nodes), rule, names, outputs, self.types, attributes)
        self.types.update(decomposed.types)
        self.root.update((name, name) for name in decomposed.types)
        for name, of in decomposed.views.items():
            self.root[name] = self.root[of]
        for part, name, rule_of_part, names, output, attributes in decomposed.steps:
            self.nodes.append(Node(op, rule_of_part, self._names(names), (output.name,), attributes, part, name))

    def _names(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the names, where a view with the shape of its root has the name of the root."""
        root, types = self.root, self.types
        return tuple(
            [root[name] if name and root[name] != name and types[root[name]] == types[name] else name for name in names]
        )


def _usable_rule(kind: Kind) -> Rule | None:
    """Return the lowering rule of ops without blocks; None if none takes their operands, or they compute no element."""
    operands, outputs = [type for type in kind.inputs if type is not None], kind.outputs
    rule = rule_of(kind.op_type, [type.dtype for type in operands])
    if rule is None or any(0 in type.static_shape for type in (*operands, *outputs)):
        return None
    if isinstance(rule, CustomKernel | Decomposition):
        return rule if rule.supports(OpTypes(kind.inputs, outputs, kind.attributes)) else None
    if any(type.dtype not in DTYPES for type in outputs):
        return None
    if isinstance(rule, Pointwise):
        one_domain = len({type.shape for type in outputs if type.rank}) < 2  # and numbers alone, beside it
        return rule if one_domain and (rule.uniforms is None or outputs[0].rank) else None
    return rule
