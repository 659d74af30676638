"""The parts of weights in place of the weights that a block reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from prograd_proto import TensorType
from registry import Block, Value


def read_parts(block: Block, types: Mapping[str, Sequence[TensorType]], words: Sequence[str]) -> dict[str, list[Value]]:
    """Declare the parts of weights in place of the weights that a block reads; return the parts by tensor.

    Args:
        block: the block, whose ops still read the tensors of the weights.
        types: types of the parts by weight.
        words: last words of the names of the parts, in the order of the types.
    """
    found: dict[str, list[Value]] = {}
    for parameter in list(block.desc.parameters):
        if parameter.WhichOneof("source") != "state" or parameter.state not in types:
            continue
        tensor, state = parameter.tensor, parameter.state
        block.desc.parameters.remove(parameter)
        block.state_tensors.discard(tensor)
        found[tensor] = []
        for word, type in zip(words, types[state], strict=True):
            part = block.define_free(f"{state}.{word}", type)
            found[tensor].append(part)
            block.desc.parameters.add(tensor=part.name, state=f"{state}.{word}")
            block.state_tensors.add(part.name)
    return found
