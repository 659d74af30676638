"""Dead code analysis: the ops that are needed, and the tensors that they read."""

from __future__ import annotations

from prograd_proto.blocks import BlockAnalysis, question
from runtime.step import is_observable


@question()
def needed(block: BlockAnalysis) -> tuple[list[bool], set[str]]:
    """Return for each op True if it is needed by the end of the step, an effect or another op; and the tensors read."""
    read = set(block.ends)
    observable = {op_type for op_type in set(block.op_types) if is_observable(op_type)}
    is_needed = [op_type in observable for op_type in block.op_types]
    for i in reversed(range(len(is_needed))):
        if is_needed[i] or not read.isdisjoint(block.outputs[i]):
            read.update(block.inputs[i])
            is_needed[i] = True
    return is_needed, read
