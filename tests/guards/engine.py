"""The native engine whose code works on guarded memory: tensors, scratch, constants, prepacked operands and states.

Lowering places buffers in an arena. This engine keeps all else that lowering decides, and gives each buffer an offset
of its own between forbidden pages. No buffer then reuses the memory of another one, so bits that depend on the plan
differ as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

from guards.pages import Region, offsets_of
from prograd_proto import TensorType
from prograd_proto import program_pb2 as pb
from runtime.codegen.code import NativeCode
from runtime.codegen.lowering.lowered_block import LoweredBlock
from runtime.codegen.lowering.memory import BodyMemory, body_name, scratch_names
from runtime.dtypes import Array
from runtime.engines.choice import ENGINES
from runtime.engines.engine import EngineOptions, Footprint, Version, unknown_version
from runtime.engines.native import step as native_step
from runtime.engines.native.engine import NativeEngine, NativeWorkspace
from runtime.engines.native.executor import NativeExecutor
from runtime.engines.native.jit import Loaded
from runtime.engines.native.step_code import StepOptions, compiled_step, lowered, step_options
from runtime.engines.workspace_memory import WorkspaceMemory
from runtime.entries import BoundEntry
from runtime.placement.alignment import aligned
from runtime.runs import states as run_states

Sizes = dict[str, int]
"""Bytes of buffers by name, in the order in which they lie in a region."""


class Guards:
    """All guarded regions of a run.

    Attributes:
        end: True if regions guard the ends of buffers, False if they guard the begins.
    """

    def __init__(self, end: bool) -> None:
        self.end = end
        self._regions: list[Region] = []

    def region(self, sizes: Sequence[int]) -> Array:
        """Return the memory of a new region."""
        self._regions.append(Region(sizes, self.end))
        return self._regions[-1].memory

    def zeros(self, nbytes: int) -> Array:
        """Return guarded bytes that are 0."""
        [at] = offsets_of([nbytes], self.end)
        found = self.region([nbytes])[at : at + nbytes]
        found[...] = 0
        return found

    def copy(self, array: Array) -> Array:
        """Return a guarded copy of a contiguous array; one to read if the array is one."""
        copy = self.zeros(array.nbytes).view(array.dtype).reshape(array.shape)
        copy[...] = array
        copy.flags.writeable = array.flags.writeable
        return copy

    def require_untouched(self) -> None:
        """Raise Overrun if a byte beside a buffer was written."""
        for region in self._regions:
            region.require_untouched()


class Layout(NamedTuple):
    """The buffers of a step by where they lie: in the arena, in the file beside it, among what is prepacked."""

    arena: Sizes
    file: Sizes
    packed: Sizes


def layout_of(step: LoweredBlock) -> Layout:
    """Return the buffers of a step with the bytes that code may touch, without what aligns them."""
    memory, types = step.memory, step.nodes.types
    exact = _scratch_bytes(step)
    arena = {buffer.name: exact.get(buffer.name, buffer.nbytes) for buffer in memory.buffers}
    scratch = {name: nbytes for name, nbytes in exact.items() if name not in arena}
    packed = {name: types[name].nbytes for name in memory.packed} | scratch
    return Layout(arena, {name: types[name].nbytes for name in memory.in_file}, packed)


def _scratch_bytes(step: LoweredBlock) -> Sizes:
    """Return the bytes of all scratch: the last thread's ends where its bytes end."""
    found: Sizes = {}
    sizes = {buffer.name: buffer.nbytes for buffer in step.memory.buffers}
    for i, (staged, places) in enumerate(zip(step.steps, step.memory.scratch, strict=True)):
        own = [aligned(size) * (step.threads - 1) + size for size in staged.thread_scratch]
        names = scratch_names(i, len(places))
        is_host = step.groups[i].is_host
        found |= zip(names, [sizes[name] for name in names] if is_host else [*staged.shared_scratch, *own], strict=True)
    return found


def relaid(step: LoweredBlock, layout: Layout, end: bool) -> LoweredBlock:
    """Return the step with its buffers where guarded regions have them."""
    places = [dict(zip(sizes, offsets_of([*sizes.values()], end), strict=True)) for sizes in layout]
    arena, file, packed = places
    memory = step.memory
    scratch = [
        [packed[name] if name in packed else arena[name] for name in scratch_names(i, len(offsets))]
        for i, offsets in enumerate(memory.scratch)
    ]
    moved = memory._replace(
        offsets={name: arena[root] for name, root in _buffers_of(step).items()},
        in_file={name: file[name] for name in memory.in_file},
        packed={name: packed[name] for name in memory.packed},
        scratch=scratch,
        bodies={op: _moved_body(op, body, arena) for op, body in memory.bodies.items()},
    )
    return step._replace(memory=moved)


def _buffers_of(step: LoweredBlock) -> dict[str, str]:
    """Return the buffer of each tensor in the arena: its own, or one that lies there when its group begins to run."""
    at, buffers = step.memory.offsets, [buffer for buffer in step.memory.buffers if buffer.name in step.memory.offsets]
    found = {buffer.name: buffer.name for buffer in buffers}
    for names, begin in zip(step.stored, step.phases.first, strict=True):
        for name in names:
            if name in at and name not in found:
                [found[name]] = [b.name for b in buffers if at[b.name] == at[name] and b.start <= begin < b.stop]
    return found


def _moved_body(op: int, body: BodyMemory, arena: Mapping[str, int]) -> BodyMemory:
    """Return the memory of the blocks inside an op where a region has it; the arena of the blocks is one buffer."""
    return BodyMemory(
        arena.get(body_name(op, "arena"), 0),
        tuple(arena.get(body_name(op, f"packed {i}"), 0) for i in range(len(body.packed))),
        {j: arena.get(body_name(op, f"spare {j}"), 0) for j in body.spare},
    )


class GuardedEngine(NativeEngine):
    """The native engine on guarded memory."""

    def __init__(self, program: pb.ProgramDesc, options: EngineOptions, guards: Guards, instructions: str = "") -> None:
        super().__init__(program, options, instructions)
        self._guards = guards

    def workspace(self) -> GuardedWorkspace:
        """Return a workspace on guarded memory."""
        ways = self._relaid, self._relaid_unfused, self._guarded_packed, self._threads_of
        return GuardedWorkspace(self._program, self._options, ways, self._guards)

    def _relaid(self, bound: BoundEntry, fetch: Sequence[str]) -> GuardedStep:
        options = step_options(bound, self._options.threads)._replace(pinned=tuple(fetch))
        return GuardedStep(lowered(bound.block, self._target, options, self._program.blocks), self._guards.end)

    def _relaid_unfused(self, bound: BoundEntry) -> GuardedStep:
        options = StepOptions(threads=self._options.threads, is_instrumented=True)
        return GuardedStep(lowered(bound.block, self._target, options, self._program.blocks), self._guards.end)

    def _guarded_packed(self, bound: BoundEntry, fetch: Sequence[str], states: Mapping[str, Array], nbytes: int) -> Any:
        packed = self._prepacked_of(bound, fetch, states, nbytes)
        packed.memory = self._guards.region([*self._relaid(bound, fetch).layout.packed.values()])
        return packed


class GuardedStep:
    """The code of a step whose buffers are where guarded regions have them; see `StepCode`."""

    def __init__(self, step: LoweredBlock, end: bool) -> None:
        memory, self.layout = step.memory, layout_of(step)
        self.footprint = Footprint(memory.arena_bytes, memory.file_bytes, packed=memory.packed_bytes)
        self._step = relaid(step, self.layout, end)

    def compiled(self) -> tuple[NativeCode, Loaded]:
        """Return the code and its functions."""
        return compiled_step(self._step)


class GuardedWorkspace(NativeWorkspace):
    """A workspace on guarded memory."""

    def __init__(
        self, program: pb.ProgramDesc, options: EngineOptions, ways: tuple[Any, Any, Any, Any], guards: Guards
    ) -> None:
        super().__init__(program, options, *ways)
        self._guarded = self._memory = GuardedMemory(options, guards)
        self._guarded_beside = self._beside = GuardedMemory(options, guards)

    def prepare(
        self,
        bound: BoundEntry,
        states: Mapping[str, Array],
        fetch: Sequence[str],
        version: Version = unknown_version,
    ) -> NativeExecutor:
        """Lower, compile and bind the entry to regions of its own."""
        self._guarded.layout = self._code(bound, fetch).layout
        if self._options.check_nan:
            self._guarded_beside.layout = self._instrumented_code(bound).layout
        return super().prepare(bound, states, fetch, version)


class GuardedMemory(WorkspaceMemory):
    """Memory in guarded regions; `layout` says what the next ones hold."""

    layout: Layout

    def __init__(self, options: EngineOptions, guards: Guards) -> None:
        super().__init__(options.memory, options.spill)
        self._guards = guards

    def arena(self, nbytes: int, tensors: Sequence[tuple[int, int]] = ()) -> Array:
        """Return a new region for the arena of `layout`."""
        return self._guards.region([*self.layout.arena.values()])

    def file(self, nbytes: int) -> Array:
        """Return a new region in place of the file of `layout`."""
        return self._guards.region([*self.layout.file.values()])

    def copies(self, nbytes: int) -> Array:
        """Return guarded bytes."""
        return self._guards.zeros(nbytes)


@contextmanager
def guarded(end: bool, instructions: str = "") -> Iterator[Guards]:
    """Have runs of the engine "guarded" work on guarded memory; raise Overrun at the end if bytes beside it changed."""
    guards = Guards(end)
    constant_array, states = native_step.constant_array, run_states._beside_each_other

    def guarded_states(types: Mapping[str, TensorType]) -> dict[str, Array]:
        return {name: guards.copy(array) for name, array in states(types).items()}

    def make(program: pb.ProgramDesc, options: EngineOptions) -> GuardedEngine:
        return GuardedEngine(program, options, guards, instructions)

    with ExitStack() as stack:
        enter = stack.enter_context
        enter(patch.dict(ENGINES, {"guarded": make}))
        enter(patch.object(native_step, "constant_array", lambda tensor: guards.copy(constant_array(tensor))))
        enter(patch.object(run_states, "_beside_each_other", guarded_states))
        yield guards
    guards.require_untouched()
