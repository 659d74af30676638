"""The shape of each layer's output, by the name of the layer."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.analyses.op_scopes import state_scope
from prograd_proto import program_pb2 as pb
from prograd_proto import type_of


def layer_outputs(program: pb.ProgramDesc) -> dict[str, str]:
    """Return the shape of the output of each layer, with symbols, such as `[batch, 10]`.

    The output of a layer is that of the last op of a forward pass that combines the layer's states with other tensors,
    such as rows or random numbers. Tensors that are computed from states alone count as states. A layer whose states
    no entry combines with other tensors has no output.
    """
    found: dict[str, str] = {}
    for entry in program.entries:
        block = program.blocks[entry.source_block]
        shapes = {tensor.name: str(list(type_of(tensor).shape)).replace("'", "") for tensor in block.tensors}
        own = {layer: shapes.get(tensor, "-") for layer, tensor in _outputs(program, block)}
        found = own | found  # the first entry that has a layer says its shape
    return found


def _outputs(program: pb.ProgramDesc, block: pb.BlockDesc) -> Iterator[tuple[str, str]]:
    """Yield a layer and a tensor for each op that joins states of the layer with rows, in the order of the ops."""
    names = {state.name for state in program.states}
    kept = {state.name for state in program.states if state.kind in (pb.STATE_KIND_PARAMETER, pb.STATE_KIND_BUFFER)}
    layers = {p.tensor: {state_scope(p.state, names)} for p in block.parameters if p.state in kept}
    for op in block.ops:
        if op.stage != pb.STAGE_FORWARD or not op.outputs:
            continue
        read = {layer for tensor in op.inputs for layer in layers.get(tensor, ())}
        if op.type == "constant" or (op.inputs and all(tensor in layers for tensor in filter(None, op.inputs))):
            layers |= dict.fromkeys(op.outputs, read)
        else:
            yield from ((layer, op.outputs[0]) for layer in sorted(read))
