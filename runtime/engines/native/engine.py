"""The native engine: groups of ops as compiled functions, and NumPy kernels for ops without a lowering rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Final
from weakref import finalize

from prograd_proto import program_pb2 as pb
from prograd_proto import type_of
from prograd_proto.states import held
from runtime.codegen.code import NativeCode
from runtime.dtypes import Array
from runtime.engines.around_step import around_step
from runtime.engines.engine import EngineOptions, Footprint, Version, unknown_version
from runtime.engines.native import jit
from runtime.engines.native.cpu import this_machine
from runtime.engines.native.driver import driver_code
from runtime.engines.native.executor import NativeExecutor
from runtime.engines.native.helpers import Helpers
from runtime.engines.native.prepacked import Prepacked
from runtime.engines.native.random_bits import CompiledRandomBits
from runtime.engines.native.step import bind_code
from runtime.engines.native.step_code import StepCode, StepOptions, step_options
from runtime.engines.workspace_memory import WorkspaceMemory
from runtime.entries import BoundEntry
from runtime.errors import ResourceLimit
from runtime.memory.limit import MemoryLimit
from runtime.philox import use_random_bits_by
from runtime.usable_cores import DefaultThreads

if TYPE_CHECKING:
    from runtime.engines.native.instrumented import InstrumentedStep
    from runtime.engines.native.views import NativeViews

COMPILER_BYTES: Final = 96 << 20
"""Memory for LLVM and the module that it compiles, also counted for cached code: a limit always means the same."""

BYTES_PER_OP: Final = 12 << 10
"""Upper bound on the memory that an op takes when it is lowered, and on its code; 4 to 6 KiB were measured."""

UNPLANNED_ADDRESSES: Final = 32 << 20
"""Address space for Python's allocations between the choice of an engine and the end of compiling."""


_Steps = tuple[int, tuple[str, ...], tuple[int, ...]]
"""The number of a block, the additional fetches, and the addresses of the states."""


def has_room(program: pb.ProgramDesc, memory: MemoryLimit) -> bool:
    """Return True if the memory limits allow to compile the program and to run it."""
    arenas = [binding.plan.arena_bytes for entry in program.entries for binding in entry.bindings]
    own = sum(type_of(state).nbytes for state in held(program)) + max(arenas, default=0)
    own += BYTES_PER_OP * sum(len(block.ops) for block in program.blocks)
    memory_budget = memory.room_of_process
    return jit.has_address_space(own + UNPLANNED_ADDRESSES) and (
        memory_budget is None or memory_budget >= COMPILER_BYTES + own
    )


class NativeEngine:
    """See `runtime.engines.engine.Engine`."""

    name = "native"

    def __init__(self, program: pb.ProgramDesc, options: EngineOptions, instructions: str) -> None:
        """Generate code for the best instruction set of this machine, or for `instructions`.

        Raises Unavailable where nothing can be compiled, ResourceLimit where there is too little memory to compile.
        """
        jit.require_available()
        options.memory.take_of_process(COMPILER_BYTES, "LLVM, which compiles it,")
        if not jit.has_address_space():
            raise ResourceLimit(jit.TOO_LITTLE_ADDRESS_SPACE)
        self._program = program
        self._options = options
        self._target = this_machine(instructions).for_program(program)
        driver_code(self._target)  # every step needs it; where it is not kept, it shows whether LLVM can be loaded
        use_random_bits_by(CompiledRandomBits(self._target))
        self.instructions = self._target.name
        self._known: dict[int, StepCode] = {}  # by the number of the block
        self._known_instrumented: dict[int, StepCode] = {}
        self._prepacked: dict[_Steps, Prepacked] = {}
        self._lock = Lock()
        self.threads = 1 if isinstance(options.threads, DefaultThreads) else options.threads

    def needs(self, bound: BoundEntry) -> Footprint:
        """Return the bytes that its code takes."""
        own = self._code(bound, ()).footprint
        beside = self._instrumented_code(bound).footprint if self._options.check_nan else Footprint()
        return Footprint(own.arena + beside.arena, own.file + beside.file, packed=own.packed)

    def explain(self, bound: BoundEntry, after: str | None = None) -> Iterator[str]:
        """Yield the groups of a step, or its state after a pass of lowering."""
        return self._views().explain(bound, after)

    def code(self, bound: BoundEntry) -> str:
        """Return LLVM's IR."""
        return self._views().code(bound)

    def _views(self) -> NativeViews:
        from runtime.engines.native.views import NativeViews

        return NativeViews(self._program, self._options, self._target)

    def workspace(self) -> NativeWorkspace:
        """Return a new workspace."""
        ways = self._code, self._instrumented_code, self._prepacked_of, self._threads_of
        return NativeWorkspace(self._program, self._options, *ways)

    def _threads_of(self, code: NativeCode) -> int:
        """Return the upper bound on the threads of a step: as many as are useful, unless a number was asked for."""
        if not isinstance(self._options.threads, DefaultThreads):
            return self._options.threads
        self.threads = max(self.threads, code.useful_threads)
        return code.useful_threads

    def _prepacked_of(
        self, bound: BoundEntry, fetch: Sequence[str], states: Mapping[str, Array], nbytes: int
    ) -> Prepacked:
        """Return the memory that is shared by all threads which run the same steps with the same states."""
        read = [states[p.state].ctypes.data for p in bound.block.parameters if p.WhichOneof("source") == "state"]
        key = bound.number, tuple(sorted(fetch)), tuple(read)
        with self._lock:
            if key not in self._prepacked:
                self._prepacked[key] = Prepacked(nbytes, self._options.memory)
            return self._prepacked[key]

    def _code(self, bound: BoundEntry, fetch: Sequence[str]) -> StepCode:
        """Return the code of an entry: made once for its own fetches, and again each time that more are asked for."""
        if not fetch and bound.number in self._known:
            return self._known[bound.number]
        options = step_options(bound, self._options.threads)._replace(pinned=tuple(fetch))
        step = self._step_code(self._program.name, bound, options)
        if not fetch:
            self._known[bound.number] = step
        return step

    def _instrumented_code(self, bound: BoundEntry) -> StepCode:
        """Return the code of an entry op by op, which changes no state."""
        if bound.number not in self._known_instrumented:
            options = StepOptions(threads=self._options.threads, is_instrumented=True)
            name = f"{self._program.name} op by op"
            self._known_instrumented[bound.number] = self._step_code(name, bound, options)
        return self._known_instrumented[bound.number]

    def _step_code(self, name: str, bound: BoundEntry, options: StepOptions) -> StepCode:
        memory, blocks = self._options.memory, self._program.blocks
        return StepCode(name, bound.block, bound.types, self._target, options, memory, blocks)


class NativeWorkspace:
    """See `runtime.engines.engine.Workspace`."""

    def __init__(
        self,
        program: pb.ProgramDesc,
        options: EngineOptions,
        code: Callable[[BoundEntry, Sequence[str]], StepCode],
        instrumented_code: Callable[[BoundEntry], StepCode],
        prepacked: Callable[[BoundEntry, Sequence[str], Mapping[str, Array], int], Prepacked],
        threads_of: Callable[[NativeCode], int],
    ) -> None:
        """Keep the functions that return code.

        `code` takes an entry and the tensors that are fetched besides its own fetches; `instrumented_code` returns code
        that runs the ops one by one. `prepacked` returns the values that the steps of an entry share, `threads_of` the
        upper bound on the threads of a step.
        """
        self._program, self._options, self._prepacked = program, options, prepacked
        self._code, self._instrumented_code, self._threads_of = code, instrumented_code, threads_of
        self._memory, self._beside = (
            WorkspaceMemory(options.memory, options.spill),
            WorkspaceMemory(options.memory, options.spill),
        )
        self._helpers = Helpers(options.threads - 1)
        finalize(self, self._helpers.close)

    @property
    def footprint(self) -> Footprint:
        """The bytes of the arena, the file beside it and all copies, with those of the ops that are run one by one."""
        here, beside = self._memory, self._beside
        arena, file = here.arena_bytes + beside.arena_bytes, here.file_bytes + beside.file_bytes
        return Footprint(arena, file, here.copy_bytes + beside.copy_bytes)

    def prepare(
        self,
        bound: BoundEntry,
        states: Mapping[str, Array],
        fetch: Sequence[str],
        version: Version = unknown_version,
    ) -> NativeExecutor:
        """Bind the code of the entry, which is compiled if it is not kept."""
        options, memory = self._options, self._memory
        step = self._code(bound, fetch)
        code = step.compiled()  # before there is an arena, because the compiler needs memory, too
        arena, file = _arena_and_file(memory, step, code[0].arena_tensors())
        nbytes = step.footprint.packed
        shared = self._prepacked(bound, fetch, states, nbytes) if nbytes else None
        packed = None if shared is None else shared.memory
        threads = self._threads_of(code[0])
        compiled = bind_code(*code, bound.block, states, arena, file, packed, self._program, max_threads=threads)
        around = around_step(bound.block, compiled.arrays, states, fetch, memory.copies)
        watch = self._instrumented(bound, states, around.feeds) if options.check_nan else None
        invariant = None if shared is None else partial(shared.require, version)
        return NativeExecutor(
            self._program.locations, compiled, around, self._helpers, watch, invariant, [arena, *states.values()]
        )

    def _instrumented(
        self, bound: BoundEntry, states: Mapping[str, Array], feeds: Mapping[str, Array]
    ) -> InstrumentedStep:
        """Return the ops one by one, in memory of their own."""
        from runtime.engines.native.instrumented import InstrumentedStep
        from runtime.engines.step_start import StepStart

        step = self._instrumented_code(bound)
        arena, file = _arena_and_file(self._beside, step)
        program = self._program
        compiled = bind_code(*step.compiled(), bound.block, states, arena, file, program=program, check_nan=True)
        here = {feed.name: compiled.arrays[feed.tensor] for feed in compiled.code.feeds}
        start = StepStart(self._program, bound.block, states, here, self._beside.copies)
        pairs = {name: (feeds[name], array) for name, array in here.items()}
        return InstrumentedStep(compiled, start, pairs, self._program.locations, self._helpers)

    def close(self) -> None:
        """End the threads that help."""
        self._helpers.close()


def _arena_and_file(
    memory: WorkspaceMemory, step: StepCode, tensors: Sequence[tuple[int, int]] = ()
) -> tuple[Array, Array | None]:
    """Return the memory of a step's temporaries, and that of its file if it has one."""
    own = step.footprint
    file = memory.file(own.file) if own.file else None
    return memory.arena(own.arena, tensors), file
