"""The buffers of a step that is computed op by op: memory with a size and a lifetime.

Tensors that share memory are one buffer, with the name of the first. Scratch is needed in the phase of its op.
"""

from __future__ import annotations

from collections.abc import Sequence

from prograd_proto.blocks import BlockAnalysis
from runtime.placement.buffer import Buffer
from runtime.step.aliases import Aliases, made_outside
from runtime.step.clock import UNREAD_FEED
from runtime.step.effects import spills


def buffers_of(
    block: BlockAnalysis,
    aliases: Aliases,
    scratch: Sequence[Sequence[tuple[str, int]]],
    phases: Sequence[int] | None = None,
) -> list[Buffer]:
    """Return the buffers of a bound block that belong in the arena, in the order of their definition.

    Args:
        block: block with static types; tensors of states, arguments, constants and spilled tensors are left out.
        aliases: the tensors that are one buffer, and their lifetimes, for the same phases.
        scratch: for each op, the names and bytes of its scratch arrays.
        phases: for each op the number of its phase; None for ops that run one after another.
    """
    outside = {*block.state_of, *block.arguments, *made_outside(block)}
    names = [*block.parameter_names, *(name for outputs in block.outputs for name in outputs)]
    found = [_buffer(block, aliases, name) for name in names if aliases.root[name] == name and name not in outside]
    times = range(len(block.ops)) if phases is None else phases
    for phase, row in zip(times, scratch, strict=True):
        found.extend([Buffer(name, nbytes, phase, phase + 1) for name, nbytes in row])
    return sorted(found, key=lambda buffer: (buffer.start, buffer.name in block.types, buffer.name))


def spilled_of(block: BlockAnalysis, aliases: Aliases) -> list[Buffer]:
    """Return the buffers of a bound block that lie in the file beside the arena, as `buffers_of` does for the arena."""
    types = set(filter(spills, set(block.op_types)))
    columns = zip(block.op_types, block.outputs, strict=True)
    return [_buffer(block, aliases, name) for op_type, outputs in columns if op_type in types for name in outputs]


def _buffer(block: BlockAnalysis, aliases: Aliases, name: str) -> Buffer:
    return Buffer(name, block.types[name].nbytes, *aliases.lifetimes.get(name, UNREAD_FEED))
