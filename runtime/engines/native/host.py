"""Host ops: an op without a lowering rule runs as its NumPy kernel, between two phases, in the same arena."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from prograd_proto import TensorType, attributes_of
from prograd_proto import program_pb2 as pb
from runtime.codegen.code import HostOp
from runtime.dtypes import Array, array_type
from runtime.engines.reference.kernels import KERNELS
from runtime.memory.aligned import view

if TYPE_CHECKING:
    from runtime.codegen.lowering.nodes import Node, Nodes


def scratch_of_node(nodes: Nodes, node: Node) -> tuple[TensorType, ...]:
    """Return the types of the arrays that the NumPy kernel of a node may overwrite while it runs."""
    inputs = [nodes.types[name] if name else None for name in node.inputs]
    return KERNELS[node.op.type].scratch(inputs, node.attributes)


def host_call(host: HostOp, op: pb.OpDesc, arrays: Mapping[str, Array], arena: Array) -> Callable[[], object]:
    """Return a call that computes a host op."""
    kernel, attributes = KERNELS[op.type], attributes_of(op)
    inputs = [arrays[name] if name else None for name in host.inputs]
    types = kernel.scratch([None if x is None else array_type(x) for x in inputs], attributes)
    scratch = [view(arena, offset, type) for offset, type in zip(host.scratch, types, strict=True)]
    return kernel.bind(inputs, [arrays[name] for name in host.outputs], scratch, attributes, op.random_stream)
