"""Host ops: an op without a lowering rule runs as its NumPy kernel, between two phases, in the same arena.

An op that runs blocks is a host op: the ops in its blocks run as NumPy kernels, in an arena that is scratch of the op.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from prograd_proto import attributes_of
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks.control import BLOCKS
from runtime.codegen.code import HostOp
from runtime.dtypes import Array, array_type
from runtime.engines.reference.bind import NOTHING as NOTHING
from runtime.engines.reference.bind import Around as Around
from runtime.engines.reference.bind import control_call
from runtime.engines.reference.kernels import KERNELS
from runtime.engines.reference.target import REFERENCE
from runtime.memory.aligned import aligned_array, view


def host_call(
    host: HostOp, op: pb.OpDesc, arrays: Mapping[str, Array], arena: Array, around: Around
) -> Callable[[], object]:
    """Return a call that computes a host op; `around` has the blocks inside ops."""
    if op.type in BLOCKS:
        return _control_call(host, op, arrays, arena, around)
    inputs = [arrays[name] if name else None for name in host.inputs]
    return kernel_call(op, inputs, [arrays[name] for name in host.outputs], host.scratch, arena)


def kernel_call(
    op: pb.OpDesc,
    inputs: Sequence[Array | None],
    outputs: Sequence[Array],
    scratch_offsets: Sequence[int],
    arena: Array,
) -> Callable[[], object]:
    """Return the call of the NumPy kernel of an op without blocks, whose scratch is at these offsets of the arena."""
    kernel, attributes = KERNELS[op.type], attributes_of(op)
    types = kernel.scratch([None if x is None else array_type(x) for x in inputs], attributes)
    scratch = [view(arena, offset, type) for offset, type in zip(scratch_offsets, types, strict=True)]
    return kernel.bind(inputs, outputs, scratch, attributes, op.random_stream)


def _control_call(
    host: HostOp, op: pb.OpDesc, arrays: Mapping[str, Array], arena: Array, around: Around
) -> Callable[[], object]:
    inner = [around.find(number) for number in op.blocks]
    inputs, outputs = [arrays[name] for name in host.inputs], [arrays[name] for name in host.outputs]
    types = REFERENCE.control_scratch(op.type, [*map(array_type, inputs)], attributes_of(op), inner)
    scratch = [view(arena, offset, type) for offset, type in zip(host.scratch, types, strict=True)]
    return control_call(op, inputs, outputs, scratch, inner, around)


def control_call_elsewhere(
    op: pb.OpDesc, inputs: Sequence[Array | None], outputs: Sequence[Array], program: pb.ProgramDesc
) -> Callable[[], object]:
    """Return a call that computes an op of control flow by NumPy kernels, in memory of its own."""
    around = Around(program.blocks, program.locations)
    inner, given = [around.find(number) for number in op.blocks], [x for x in inputs if x is not None]
    types = REFERENCE.control_scratch(op.type, [*map(array_type, given)], attributes_of(op), inner)
    return control_call(op, given, outputs, [*map(aligned_array, types)], inner, around)
