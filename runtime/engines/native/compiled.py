"""The functions of a step, ready to be called: kept by an earlier run, or written, compiled and kept."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Final, NamedTuple

from runtime.codegen.elf import UnknownObject
from runtime.codegen.machine import Target
from runtime.engines.native import jit
from runtime.engines.native.cache.entries import find, keep
from runtime.engines.native.cache.entry import Entry, Label
from runtime.engines.native.cache.key import key_of
from runtime.engines.native.release_memory import give_back
from runtime.memory.limit import NO_LIMIT, MemoryLimit

if TYPE_CHECKING:
    from runtime.codegen.assemble import KernelSource
    from runtime.codegen.emit.code import CodeSource
    from runtime.codegen.ir import Module

_log = logging.getLogger("prograd")

SECONDS_BEFORE_NOTE: Final = 1.0
"""Time that LLVM compiles without a note; it comes before the next module."""

UNCOUNTED_BYTES: Final = 16 << 20
"""Size of a step's code that the memory counted for LLVM includes: LLVM needs less after compiling."""


class KernelCode(NamedTuple):
    """Code in memory.

    Attributes:
        loaded: functions by name.
        functions: their names, for each group.
        objects: the object files.
        key: key of the entry that keeps them; "" if nothing is kept.
    """

    loaded: jit.Loaded
    functions: list[list[str]]
    objects: list[bytes]
    key: str = ""


def own_code(target: Target, name: str, write: Callable[[Module], None], functions: Sequence[str]) -> jit.Loaded:
    """Return the functions of a module that is the same for all programs, under a name of ours."""

    def source() -> CodeSource:
        from runtime.codegen.emit.code import CodeSource
        from runtime.codegen.ir import Module

        module = Module(target)
        write(module)
        return CodeSource(iter([module]), [list(functions)])

    return compiled_code("", target, (name.encode(),), source, lambda names: names == [list(functions)]).loaded


def compiled_kernels(program: str, source: KernelSource, memory: MemoryLimit) -> KernelCode:
    """Return the functions of a step's groups; see `compiled_code`. Code of plugins' rules is not kept."""
    if source.has_plugin_rules:
        code = _compiled(source.write(), source.target, memory)
        count_code(code.loaded, memory)
        return code
    return compiled_code(
        program,
        source.target,
        source.keys,
        source.write,
        lambda names: list(map(len, names)) == source.counts,
        memory,
    )


def compiled_code(
    program: str,
    target: Target,
    parts: Sequence[bytes],
    write: Callable[[], CodeSource],
    fits: Callable[[list[list[str]]], bool],
    memory: MemoryLimit = NO_LIMIT,
) -> KernelCode:
    """Return the code for a target of these parts.

    An undamaged entry that is not code of this engine counts as absent; only the user can have put it there.

    Args:
        program: name of the program, for the list of entries.
        target: machine that runs the code.
        parts: everything else that the code depends on.
        write: writes the code if it is not kept; it follows from target and parts.
        fits: returns True if the caller needs this many functions for each group.
        memory: counts the code, and is asked before LLVM compiles a module.

    Raises ResourceLimit where there is too little memory to compile.
    """
    try:
        key = key_of(target, parts)
    except OSError:  # our sources are not in files
        return _compiled(write(), target, memory)
    kept = find(key)
    code = None if kept is None or kept.label.kernels or not fits(kept.label.functions) else loaded_entry(kept)
    if code is None:
        code = _compiled(write(), target, memory)._replace(key=key)
        sizes = list(map(len, code.objects))
        keep(Entry(Label(key, program, target.name, code.functions, sizes), b"".join(code.objects)))
    count_code(code.loaded, memory)
    return code


def count_code(loaded: jit.Loaded, memory: MemoryLimit) -> None:
    """Count the memory of code; raises ResourceLimit if it is too much."""
    memory.take_of_process(max(loaded.nbytes - UNCOUNTED_BYTES, 0), "its compiled code")


def loaded_entry(kept: Entry) -> KernelCode | None:
    """Return the code of an entry, or None if it is no code of this engine."""
    objects = kept.parts()
    try:
        loaded = jit.linked(objects)
    except UnknownObject:
        return None
    names = {name for names in kept.label.functions for name in names}
    return KernelCode(loaded, kept.label.functions, objects, kept.label.key) if all(map(loaded.has, names)) else None


def _compiled(source: CodeSource, target: Target, memory: MemoryLimit) -> KernelCode:
    """Compile one module after the other, so that LLVM never has more than one."""
    objects: list[bytes] = []
    start, is_said = perf_counter(), False
    for module in source.modules:
        if objects:
            if not is_said and perf_counter() - start > SECONDS_BEFORE_NOTE:
                _log.info("LLVM compiles the steps; later runs of this program find them in the cache")
                is_said = True
            gc.collect(0)  # the commands let 200,000 objects be made before Python searches, and IR is full of cycles
        memory.require_resident(jit.compiler_bytes(module, warm=bool(objects)), "LLVM, which compiles it,")
        objects.append(jit.compiled_of_several(module))
    give_back()
    return KernelCode(jit.load_all(objects, target), source.functions, objects)
