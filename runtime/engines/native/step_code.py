"""The code of a step: lowered and compiled once, however often it is bound."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from prograd_proto import program_pb2 as pb
from runtime.codegen.code import NativeCode
from runtime.codegen.machine import Target
from runtime.engines.engine import Footprint
from runtime.engines.native import jit
from runtime.memory.limit import NO_LIMIT, MemoryLimit, resident

if TYPE_CHECKING:
    from runtime.codegen.assemble import CompiledKernels, KernelSource
    from runtime.codegen.lower import Lowered


class StepOptions(NamedTuple):
    """Everything that the code of a block depends on besides the block and the target.

    Attributes:
        pinned: tensors that are fetched besides those of the block.
        threads: number of threads that share the work.
        memory_budget: bytes that the arena may take for several threads if it can do with them; None for any number.
        prepacks: True if what is derived from states alone is kept from step to step.
        is_instrumented: True if every op is a group of its own, and no state changes.
    """

    pinned: tuple[str, ...] = ()
    threads: int = 1
    memory_budget: int | None = None
    prepacks: bool = False
    is_instrumented: bool = False


class StepCode:
    """The code of one block; threads may ask for it at once."""

    def __init__(
        self,
        program: str,
        block: pb.BlockDesc,
        target: Target,
        options: StepOptions,
        memory: MemoryLimit = NO_LIMIT,
    ) -> None:
        """Lower the block; `program` is the name under which the code is kept."""
        self._program, self.block, self._memory = program, block, memory
        before = resident()
        self._lowered: Lowered | None = lowered(block, target, options)
        what = "the program, op by op," if options.is_instrumented else "the program, as it is lowered,"
        memory.take_of_process(max(resident() - before, 0), what)
        sizes = self._lowered.memory
        self.footprint = Footprint(sizes.arena_bytes, sizes.file_bytes, packed=sizes.packed_bytes)
        self._compiled: tuple[NativeCode, jit.Loaded] | None = None
        self._lock = Lock()

    def compiled(self) -> tuple[NativeCode, jit.Loaded]:
        """Return the code and its functions in memory; raises ResourceLimit if there is too little to compile."""
        with self._lock:
            if self._compiled is None:
                self._compiled = self._made()
                self._lowered = None
            return self._compiled

    def _made(self) -> tuple[NativeCode, jit.Loaded]:
        assert self._lowered is not None, "it is lowered until it is compiled"
        return compiled_step(self._lowered, self._program, self._memory)


def compiled_step(
    step: Lowered, program: str = "no program", memory: MemoryLimit = NO_LIMIT
) -> tuple[NativeCode, jit.Loaded]:
    """Compile a lowered step, and return its code without object files, and the functions of those in memory."""
    from runtime.codegen.assemble import CompiledKernels, native_code
    from runtime.engines.native.compiled import compiled_kernels

    loaded: list[jit.Loaded] = []

    def build(source: KernelSource) -> CompiledKernels:
        code = compiled_kernels(program, source, memory)
        loaded.append(code.loaded)
        return CompiledKernels((), code.functions)

    return native_code(step, build), loaded[0]


def lowered(block: pb.BlockDesc, target: Target, options: StepOptions) -> Lowered:
    """Return a block lowered for this engine, whose host ops run as NumPy kernels."""
    from runtime.codegen import lower
    from runtime.engines.native.host import scratch_of_node

    return lower.lowered(
        block,
        options.pinned,
        target,
        scratch_of_node,
        options.threads,
        options.is_instrumented,
        options.memory_budget,
        prepacks=options.prepacks,
    )
