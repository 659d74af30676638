"""Host ops: what has no form runs as its NumPy kernel, between two segments of compiled code, in the same arena."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from prograd_proto import TensorType
from runtime.codegen.lowering.nodes import Node, Nodes
from runtime.dtypes import Array
from runtime.engines.reference.kernels import KERNELS
from runtime.memory.aligned import view


def scratch_of_node(nodes: Nodes, node: Node) -> tuple[TensorType, ...]:
    """What the NumPy kernel of a node may overwrite while it runs."""
    inputs = [nodes.types[name] if name else None for name in node.inputs]
    return KERNELS[node.op.type].scratch(inputs, node.attributes)


def host_call(
    nodes: Nodes, node: Node, scratch: Sequence[int], arrays: Mapping[str, Array], arena: Array
) -> Callable[[], object]:
    """A call that computes a node; `scratch` are the offsets of its scratch in the arena."""
    scratch_arrays = [view(arena, at, type) for at, type in zip(scratch, scratch_of_node(nodes, node), strict=True)]
    inputs = [arrays[name] if name else None for name in node.inputs]
    outputs = [arrays[name] for name in node.outputs]
    return KERNELS[node.op.type].bind(inputs, outputs, scratch_arrays, node.attributes, node.op.random_stream)
