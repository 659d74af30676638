"""Read: the ops of a bound block with their forms; views are the tensors that they are of, constants are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from prograd_proto import Attribute, TensorType, attributes_of
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import Reading
from runtime.engines.native.forms import Form, Loops, Pointwise, form_of
from runtime.engines.native.ir import DTYPES
from runtime.operators import CONTRACTS


class Node(NamedTuple):
    """An op that has something to compute.

    Attributes:
        op: of the block.
        form: None if its NumPy kernel computes it.
        inputs: names of tensors, "" for absent ones; a view of the same shape is named as what it is of.
        outputs: names of tensors.
        attributes: by name.
    """

    op: pb.OpDesc
    form: Form | None
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Attribute]


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
    """

    block: Reading
    nodes: list[Node]
    root: dict[str, str]
    types: dict[str, TensorType]
    state_of: dict[str, str]
    feeds: list[str]
    constants: dict[str, pb.OpDesc]
    ends: set[str]


def read_nodes(desc: pb.BlockDesc, pinned: tuple[str, ...] = ()) -> Nodes:
    """The nodes of a bound block; `pinned` are tensors that the end of the step reads besides fetches and updates."""
    block = Reading(desc)
    root = {parameter.tensor: parameter.tensor for parameter in desc.parameters}
    nodes: list[Node] = []
    constants: dict[str, pb.OpDesc] = {}
    types = block.types
    for op, inputs, outputs in zip(block.ops, block.inputs, block.outputs, strict=True):
        root.update((name, name) for name in outputs)
        if op.type == "constant":
            constants[outputs[0]] = op
        elif CONTRACTS[op.type].view:
            root[outputs[0]] = root[inputs[0]]
        else:
            operands = [types[name] if name else None for name in inputs]
            form = _usable_form(op, operands, [types[name] for name in outputs])
            names = [root[name] if name and types[root[name]] == types[name] else name for name in inputs]
            nodes.append(Node(op, form, tuple(names), tuple(outputs), attributes_of(op)))
    ends = [fetch.tensor for fetch in desc.fetches] + [update.tensor for update in desc.updates] + list(pinned)
    return Nodes(
        block,
        nodes,
        root,
        types,
        {p.tensor: p.state for p in desc.parameters if p.WhichOneof("source") == "state"},
        [p.tensor for p in desc.parameters if p.WhichOneof("source") == "feed"],
        constants,
        {root[name] for name in ends},
    )


def _usable_form(op: pb.OpDesc, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]) -> Form | None:
    """The form of an op, unless there is nothing to compute, or nothing to compute it in."""
    operands = [type for type in inputs if type is not None]
    form = form_of(op.type, [type.dtype for type in operands])
    if form is None or any(0 in type.static_shape for type in (*operands, *outputs)):
        return None
    if isinstance(form, Loops):
        return form if form.takes(inputs, outputs, attributes_of(op)) else None
    if any(type.dtype not in DTYPES for type in outputs):
        return None
    if isinstance(form, Pointwise):
        one_domain = len({type.shape for type in outputs}) == 1
        return form if one_domain and (form.before is None or outputs[0].rank) else None
    return form
