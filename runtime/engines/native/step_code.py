"""The code of a step, read from the cache or compiled and cached; it is made once for any number of bindings.

An entry of the cache that does not fit the block counts as absent, and so does one without its object files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from prograd_proto import TensorType
from prograd_proto import program_pb2 as pb
from prograd_proto.plugins import namespace_of
from runtime.codegen.code import NativeCode
from runtime.codegen.code_bounds import fits
from runtime.codegen.code_bytes import from_bytes, to_bytes
from runtime.codegen.machine import Target
from runtime.engines.engine import Footprint
from runtime.engines.native import jit
from runtime.engines.native.cache.entries import find, keep
from runtime.engines.native.cache.entry import Entry, Label
from runtime.engines.native.cache.key import key_of
from runtime.engines.native.compiled import compiled_kernels, count_code, loaded_entry
from runtime.entries import BoundEntry
from runtime.memory.limit import NO_LIMIT, MemoryLimit, resident

if TYPE_CHECKING:
    from runtime.codegen.lowering.lowered_block import LoweredBlock


class StepOptions(NamedTuple):
    """Everything that the code of a block depends on besides the block and the target.

    Attributes:
        pinned: tensors that are fetched besides those of the block.
        threads: number of threads that share the work.
        memory_budget: bytes that the arena may take for several threads if it can do with them; None for any number.
        prepacks: True if values derived from states alone are kept from step to step.
        is_instrumented: True if every op is a group of its own, and no state changes.
    """

    pinned: tuple[str, ...] = ()
    threads: int = 1
    memory_budget: int | None = None
    prepacks: bool = False
    is_instrumented: bool = False


def step_options(bound: BoundEntry, threads: int) -> StepOptions:
    """Return the options of a step that is not instrumented."""
    memory_budget = None if bound.plan is None else bound.plan.arena_bytes
    return StepOptions(threads=threads, memory_budget=memory_budget, prepacks=True)


class StepCode:
    """The code of one block: kept by an earlier run, or lowered now; threads may ask for it at once.

    Attributes:
        footprint: bytes that a step takes.
    """

    def __init__(
        self,
        program: str,
        block: pb.BlockDesc,
        types: Mapping[str, TensorType],
        target: Target,
        options: StepOptions,
        memory: MemoryLimit,
        blocks: Sequence[pb.BlockDesc],
    ) -> None:
        """Find the code of a block, or lower the block.

        Args:
            program: name under which the code is kept.
            block: bound block.
            types: types of its tensors.
            target: machine that runs the code.
            options: everything else that the code depends on.
            memory: counts the memory of lowering, compiling and code.
            blocks: blocks of the program, to which ops refer by number.
        """
        self._program, self._memory, self._lock = program, memory, Lock()
        self._lowered: LoweredBlock | None = None
        before = resident()
        self._key = step_key(block, target, options, blocks)
        self._compiled = kept_step(self._key, block, types, target, options, memory, blocks) if self._key else None
        if self._compiled is None:
            self._lowered = lowered(block, target, options, blocks)
            sizes = self._lowered.memory
        else:
            sizes, _ = self._compiled
        what = "the program, op by op," if options.is_instrumented else "the program, as it is lowered,"
        memory.take_of_process(max(resident() - before, 0), what)
        self.footprint = Footprint(sizes.arena_bytes, sizes.file_bytes, packed=sizes.packed_bytes)

    def compiled(self) -> tuple[NativeCode, jit.Loaded]:
        """Return the code without object files, and the functions of those in memory.

        Raises ResourceLimit if there is too little memory to compile.
        """
        with self._lock:
            if self._compiled is None:
                assert self._lowered is not None, "it is lowered until it is compiled"
                self._compiled = compiled_step(self._lowered, self._program, self._memory, self._key)
                self._lowered = None
            return self._compiled


def step_key(block: pb.BlockDesc, target: Target, options: StepOptions, blocks: Sequence[pb.BlockDesc] = ()) -> str:
    """Return the key of a step among kept ones, or "" if it cannot be kept.

    The code of a plugin is no part of the key, so steps with ops of plugins are lowered anew.
    """
    read = [block, *blocks] if any(op.blocks for op in block.ops) else [block]
    if any(namespace_of(op.type) for each in read for op in each.ops):
        return ""
    parts = [b"step", repr(options).encode(), *(each.SerializeToString(deterministic=True) for each in read)]
    try:
        return key_of(target, parts)
    except OSError:  # our sources are not in files
        return ""


def kept_step(
    key: str,
    block: pb.BlockDesc,
    types: Mapping[str, TensorType],
    target: Target,
    options: StepOptions,
    memory: MemoryLimit,
    blocks: Sequence[pb.BlockDesc],
) -> tuple[NativeCode, jit.Loaded] | None:
    """Return a step that an earlier run kept, with its functions in memory; None if there is none that fits."""
    entry = find(key)
    kernels = find(entry.label.kernels) if entry and entry.label.kernels else None
    code = None if entry is None or kernels is None else from_bytes(entry.contents)
    if code is None or kernels is None:
        return None
    if not fits(code, block, types, options.pinned, target, options.threads, blocks):
        return None
    found = loaded_entry(kernels)
    if found is None or not all(map(found.loaded.has, code.functions)):
        return None
    count_code(found.loaded, memory)
    return code, found.loaded


def compiled_step(
    step: LoweredBlock, program: str = "no program", memory: MemoryLimit = NO_LIMIT, key: str = ""
) -> tuple[NativeCode, jit.Loaded]:
    """Compile a lowered step, and keep it under a key if there is one.

    Returns the code without object files, and the functions of those in memory.
    """
    from runtime.codegen.assemble import Assembly

    assembly = Assembly(step)
    kernels = compiled_kernels(program, assembly.source, memory)
    code = assembly.code(kernels.functions)
    if key and kernels.key:
        contents = to_bytes(code)
        keep(Entry(Label(key, program, step.target.name, [], [len(contents)], kernels.key), contents))
    return code, kernels.loaded


def lowered(
    block: pb.BlockDesc, target: Target, options: StepOptions, blocks: Sequence[pb.BlockDesc] = ()
) -> LoweredBlock:
    """Return a block lowered for this engine, whose host ops run as NumPy kernels."""
    from runtime.codegen import lower

    if any(namespace_of(op.type) for each in (block, *blocks) for op in each.ops):
        from runtime.engines.native.plugin_rules import use_plugin_rules

        use_plugin_rules([block, *blocks])
    return lower.lowered(
        block,
        options.pinned,
        target,
        options.threads,
        options.is_instrumented,
        options.memory_budget,
        prepacks=options.prepacks,
        blocks=blocks,
    )
