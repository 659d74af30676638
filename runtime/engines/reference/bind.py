"""Bind a block: create its arrays in one arena, and calls without arguments.

1. Every op's rule gives its output and scratch types.
2. Temporaries get an offset in the arena, or in the file beside it if they are spilled. Tensors of states are the
   states' own arrays, constants are the bytes of the program.
3. Every op becomes a call with its arrays and attributes bound; views have nothing to compute.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from prograd_proto import attributes_of
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalysis
from runtime.constants import constant_array
from runtime.dtypes import Array
from runtime.engines.parts import Buffer
from runtime.engines.reference.kernels import KERNELS
from runtime.engines.reference.target import REFERENCE
from runtime.engines.workspace_memory import no_file
from runtime.memory.aligned import address_ranges, aligned_bytes, view
from runtime.placement.alignment import aligned
from runtime.step import Touched, aliases_of, effects_of, places_of, scratch_of
from runtime.step.places import Placed

Call = Callable[[], object]


class BoundOp(NamedTuple):
    """An op, the call that computes it, and the arrays it touches."""

    desc: pb.OpDesc
    call: Call
    inputs: list[Array]
    outputs: list[Array]
    scratch: list[Array]
    scratch_names: list[str]


class BoundBlock(NamedTuple):
    """The arrays of every tensor, the ops in order, the arena behind them with its buffers, and the file."""

    arrays: dict[str, Array]
    ops: list[BoundOp]
    buffers: list[Buffer]
    arena_bytes: int
    file_bytes: int

    def touched(self) -> list[Touched]:
        """Return the addresses that each op reads and writes, with its effects."""
        return [
            Touched(address_ranges(op.inputs), address_ranges([*op.outputs, *op.scratch]), effects_of(op.desc.type))
            for op in self.ops
        ]


def bind(
    block: pb.BlockDesc,
    states: Mapping[str, Array],
    *,
    pinned: Sequence[str] = (),
    plan: pb.MemoryPlan | None = None,
    memory: Callable[[int], Array] = aligned_bytes,
    file: Callable[[int], Array] = no_file,
) -> BoundBlock:
    """Place and bind a checked block.

    Args:
        block: block with static types, from a program that `check_program` accepts.
        states: the program's states by name.
        pinned: tensors that must keep their values to the end of a step, besides fetches and updates.
        plan: the compiler's offsets; used, after a check, unless tensors are pinned, which it does not know of.
        memory: returns at least the given number of aligned bytes for the arena.
        file: returns at least the given number of bytes for spilled tensors; not called if there are none.
    """
    written = BlockAnalysis(block)
    scratch, aliases = scratch_of(written, REFERENCE), aliases_of(written, pinned)
    places = places_of(written, aliases, scratch, None if pinned else plan)
    arena = memory(places.arena_bytes)
    beside = file(places.file_bytes) if places.file_bytes else arena
    types = written.types | {name: type for row in scratch for name, type in row}
    arrays = _outside(block, states)
    arrays.update((b.name, view(arena, offset, types[b.name])) for b, offset in places.in_arena)
    arrays.update((b.name, view(beside, offset, types[b.name])) for b, offset in places.in_file)
    for name, (root, _) in aliases.storage.items():
        if name not in arrays:
            arrays[name] = arrays[root].reshape(types[name].static_shape)
    ops = [
        _bound(op, arrays, [name for name, _ in row])
        for i, (op, row) in enumerate(zip(block.ops, scratch, strict=True))
        if op.type != "constant" and i not in aliases.views
    ]
    root = {name: storage.root for name, storage in aliases.storage.items()}
    buffers = _buffers(places.in_arena, ops, root, 2 * len(block.ops))
    return BoundBlock(arrays, ops, buffers, places.arena_bytes, places.file_bytes)


def _outside(block: pb.BlockDesc, states: Mapping[str, Array]) -> dict[str, Array]:
    arrays = {p.tensor: states[p.state] for p in block.parameters if p.WhichOneof("source") == "state"}
    for op in block.ops:
        if op.type == "constant":
            arrays[op.outputs[0]] = constant_array(op.attributes[0].tensor_value)
    return arrays


def _buffers(placed: Placed, ops: list[BoundOp], root: dict[str, str], end: int) -> list[Buffer]:
    """Return the buffers of the arena, with the positions of the bound ops that touch each."""
    users: dict[str, list[int]] = {buffer.name: [] for buffer, _ in placed}
    for i, op in enumerate(ops):
        names = [*op.desc.inputs, *op.desc.outputs, *op.scratch_names]
        for name in {root.get(name, name) for name in names if name}:
            if name in users:
                users[name].append(i)
    return [Buffer(b.name, aligned(b.nbytes), users[b.name], b.start == 0, b.stop > end) for b, _ in placed]


def _bound(op: pb.OpDesc, arrays: dict[str, Array], scratch_names: list[str]) -> BoundOp:
    scratch = [arrays[name] for name in scratch_names]
    inputs = [arrays[name] if name else None for name in op.inputs]
    outputs = [arrays[name] for name in op.outputs]
    call = KERNELS[op.type].bind(inputs, outputs, scratch, attributes_of(op), op.random_stream)
    return BoundOp(op, call, [array for array in inputs if array is not None], outputs, scratch, scratch_names)
