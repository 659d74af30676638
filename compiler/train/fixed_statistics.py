"""Fixed statistics: normalisations of frozen layers that take their running statistics in training, too.

Each is replaced by its inference form, under the name of its result. So gradients are those of this form, and no step
updates the statistics.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from compiler.passes.use_inference_forms import inference_form
from compiler.train.written_ops import replace_ops, written
from prograd_proto import program_pb2 as pb
from prograd_proto.files import copy_of
from prograd_proto.spelling import closest
from registry import Block, OpError, Value
from registry.op import find_op


def fix_statistics(block: Block, updates: dict[str, Value], patterns: Sequence[str]) -> list[str]:
    """Fix the normalisations whose statistics match a pattern; return the names of these states.

    Args:
        block: the growing block of a program, before any differentiation.
        updates: the updates of the program by state; those of the statistics are removed.
        patterns: patterns of names, such as "trunk.*".

    Raises OpError for patterns that no statistics match, and where something else reads the statistics of a batch.
    """
    state_of = {p.tensor: p.state for p in block.desc.parameters if p.WhichOneof("source") == "state"}
    fixed = {
        op.id: states
        for op in block.desc.ops
        if (states := _statistics(op, state_of)) and any(fnmatchcase(n, p) for p in patterns for n in states)
    }
    if not fixed:
        raise OpError(
            f"freeze: no normalisation has running statistics that match {', '.join(map(repr, patterns))}"
            f"{closest(patterns[0], [*updates])}; leave statistics=True out"
        )
    made: list[pb.OpDesc] = []
    for op in [copy_of(op) for op in block.desc.ops]:
        made += _inference_form(block, op, fixed[op.id]) if op.id in fixed else [op]
    replace_ops(block.desc, made)
    names = [name for states in fixed.values() for name in states]
    for name in names:
        updates.pop(name, None)
    return names


def _statistics(op: pb.OpDesc, state_of: dict[str, str]) -> list[str]:
    """Return the states with the running statistics of a normalisation; none for another op."""
    return [state_of[name] for name in op.inputs[3:5] if name in state_of] if op.type == "batch_norm" else []


def _inference_form(block: Block, op: pb.OpDesc, statistics: Sequence[str]) -> list[pb.OpDesc]:
    """Return the ops of the inference form, of which the last one makes the result of the op."""
    for name in op.outputs[1:]:
        if any(name in other.inputs for other in block.desc.ops):
            raise OpError(
                f"freeze: %{name} is read, and only a batch has it; leave {statistics[0]} out of the patterns"
            )

    def write() -> Value:
        result = inference_form(block, find_op(op.type), op, list(op.inputs))[0]
        assert result is not None, "a normalisation has a result outside training"
        return result

    made = written(block, op.outputs[0], write)
    for name in op.outputs[1:]:
        block.desc.tensors.remove(block.tensors.pop(name))
        del block.types[name]
    return made
