"""Bind a block: create its arrays in one arena, and calls without arguments.

1. Every op's rule gives its output and scratch types.
2. Temporaries get an offset in the arena, or in the file beside it if they are spilled. Tensors of states are the
   states' own arrays, constants are the bytes of the program.
3. Every op becomes a call with its arrays and attributes bound; views have nothing to compute.
4. The blocks inside an op of control flow are bound likewise, to the arrays of its operands and to an arena in its
   scratch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

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
from runtime.step import FED, Touched, effects_of, places_within
from runtime.step.places import Placed

if TYPE_CHECKING:
    from runtime.engines.reference.control import Body

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


class Around(NamedTuple):
    """The parts of the program and the run that binding a block needs.

    Attributes:
        blocks: the blocks of the program, to which ops refer by number.
        locations: the source lines to which ops refer.
        check_nan: True if ops inside blocks check their outputs.
        inside: list to which binding appends each bound block inside an op, with the type of the op; None for no list.
    """

    blocks: Sequence[pb.BlockDesc] = ()
    locations: Sequence[str] = ()
    check_nan: bool = False
    inside: list[tuple[str, Body]] | None = None

    def find(self, number: int) -> BlockAnalysis:
        """Return the reading of a block by its number."""
        return BlockAnalysis(self.blocks[number], self.find)


NOTHING: Final = Around()
"""No blocks and no checks: for a block whose ops have no blocks."""


def bind(
    block: pb.BlockDesc,
    states: Mapping[str, Array],
    *,
    around: Around = NOTHING,
    pinned: Sequence[str] = (),
    plan: pb.MemoryPlan | None = None,
    ways: Sequence[Sequence[int]] = (),
    memory: Callable[[int], Array] = aligned_bytes,
    file: Callable[[int], Array] = no_file,
) -> BoundBlock:
    """Place and bind a checked block.

    Args:
        block: block with static types, from a program that `check_program` accepts.
        states: the program's states by name.
        around: the program and the run.
        pinned: tensors that must keep their values to the end of a step, besides fetches and updates.
        plan: the bytes that a step may take; tensors that are pinned take more.
        ways: ways to put ops into phases; the first one for which the plan has enough bytes is taken.
        memory: returns at least the given number of aligned bytes for the arena.
        file: returns at least the given number of bytes for spilled tensors; not called if there are none.
    """
    states_of = {p.tensor: states[p.state] for p in block.parameters if p.WhichOneof("source") == "state"}
    return _bind(BlockAnalysis(block, around.find), states_of, around, pinned, plan, ways, memory, file)


def _bind(
    written: BlockAnalysis,
    outside: Mapping[str, Array],
    around: Around,
    pinned: Sequence[str] = (),
    plan: pb.MemoryPlan | None = None,
    ways: Sequence[Sequence[int]] = (),
    memory: Callable[[int], Array] = aligned_bytes,
    file: Callable[[int], Array] = no_file,
) -> BoundBlock:
    """Bind a block whose parameters have these arrays, except those that lie in the arena."""
    block = written.desc
    places = places_within(written, REFERENCE, None if pinned else plan, pinned, ways)
    scratch, aliases = places.scratch, places.aliases
    arena = memory(places.arena_bytes)
    beside = file(places.file_bytes) if places.file_bytes else arena
    types = written.types | {name: type for row in scratch for name, type in row}
    arrays = dict(outside)
    arrays.update(
        (op.outputs[0], constant_array(op.attributes[0].tensor_value)) for op in block.ops if op.type == "constant"
    )
    arrays.update((b.name, view(arena, offset, types[b.name])) for b, offset in places.in_arena)
    arrays.update((b.name, view(beside, offset, types[b.name])) for b, offset in places.in_file)
    for name, root in aliases.root.items():
        if name not in arrays:
            arrays[name] = arrays[root].reshape(types[name].static_shape)
    ops = [
        _bound(written.ops[i], arrays, [name for name, _ in scratch[i]], written.sub_blocks(i), around)
        for i in places.order
        if written.op_types[i] != "constant" and i not in aliases.views
    ]
    buffers = _buffers(places.in_arena, ops, aliases.root, places.phases)
    return BoundBlock(arrays, ops, buffers, places.arena_bytes, places.file_bytes)


def _buffers(placed: Placed, ops: list[BoundOp], root: dict[str, str], end: int) -> list[Buffer]:
    """Return the buffers of the arena, with the positions of the bound ops that touch each."""
    users: dict[str, list[int]] = {buffer.name: [] for buffer, _ in placed}
    for i, op in enumerate(ops):
        names = [*op.desc.inputs, *op.desc.outputs, *op.scratch_names]
        for name in {root.get(name, name) for name in names if name}:
            if name in users:
                users[name].append(i)
    return [Buffer(b.name, aligned(b.nbytes), users[b.name], b.start == FED, b.stop > end) for b, _ in placed]


def _bound(
    op: pb.OpDesc, arrays: dict[str, Array], scratch_names: list[str], blocks: Sequence[BlockAnalysis], around: Around
) -> BoundOp:
    scratch = [arrays[name] for name in scratch_names]
    inputs = [arrays[name] if name else None for name in op.inputs]
    outputs = [arrays[name] for name in op.outputs]
    present = [array for array in inputs if array is not None]
    if blocks:
        call = control_call(op, present, outputs, scratch, blocks, around)
    else:
        call = KERNELS[op.type].bind(inputs, outputs, scratch, attributes_of(op), op.random_stream)
    return BoundOp(op, call, present, outputs, scratch, scratch_names)


def control_call(
    op: pb.OpDesc,
    inputs: Sequence[Array],
    outputs: Sequence[Array],
    scratch: Sequence[Array],
    blocks: Sequence[BlockAnalysis],
    around: Around,
) -> Call:
    """Return the call of an op that runs blocks."""
    from runtime.engines.reference.control import Body, ControlOp, bind_control  # few programs need it

    def bind_body(block: BlockAnalysis, arguments: Mapping[int, Array], arena: Array) -> Body:
        outside = {name: arguments[number] for name, number in block.arguments.items()}
        bound = _bind(block, outside, around, memory=lambda nbytes: arena)
        results = [bound.arrays[name] for name in block.desc.results]
        body = Body(_inner_calls(bound, around), [inner.desc for inner in bound.ops], results)
        if around.inside is not None:
            around.inside.append((op.type, body))
        return body

    return bind_control(
        ControlOp(op, attributes_of(op), inputs, outputs, scratch, blocks, REFERENCE, bind_body, around.locations)
    )


def _inner_calls(bound: BoundBlock, around: Around) -> list[Call]:
    if not around.check_nan:
        return [op.call for op in bound.ops]
    from runtime.engines.nan_watch import WatchedOp, watched

    return [watched(WatchedOp(op.desc, op.call, op.inputs, op.outputs)) for op in bound.ops]
