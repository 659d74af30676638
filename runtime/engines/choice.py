"""The engines by name; each is imported when it is chosen.

To add one: a function here that imports it, a line in `ENGINES`, a word in `EngineName`. One whose bits depend on a set
of instructions may also be asked for with a set: `native.avx2`.
"""

from __future__ import annotations

import os
from functools import partial

TYPE_CHECKING = False  # as the module typing has it: the command line reads the names before anything else is imported
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Literal

    from prograd_proto import program_pb2 as pb
    from runtime.engines.engine import Engine, EngineOptions

    EngineName = Literal["reference", "native", "native.avx512", "native.avx2", "native.sse2", "native.neon"]
    Make = Callable[[pb.ProgramDesc, EngineOptions], Engine]


def make_engine(name: str | None, program: pb.ProgramDesc, options: EngineOptions) -> tuple[Engine, str]:
    """The engine of that name for a checked program, and a word for why it is not the fastest one, if that was meant.

    Without a name it is the one that PROGRAD_ENGINE names; without that, native code where it can be made here.

    Raises UsageError if there is no such engine or it does not have what is asked, Unavailable if it cannot run here.
    """
    if options.threads > 1:
        _require_threads(options.threads)
    asked = name or os.environ.get(VARIABLE)
    if not asked:
        return _fastest(program, options)
    if asked not in ENGINES:
        from prograd_proto.spelling import closest
        from runtime.errors import UsageError

        hint = closest(asked, ENGINES) or f"; the engines are {', '.join(ENGINES)}"
        raise UsageError(f"{'' if name else f'{VARIABLE}: '}there is no engine {asked!r}{hint}")
    return ENGINES[asked](program, options), ""


def _require_threads(threads: int) -> None:
    from runtime.usable_cores import why_too_many

    if why := why_too_many(threads):
        from prograd_proto.wording import as_asked
        from runtime.errors import UsageError

        raise UsageError(f"{as_asked(f'--threads {threads}', f'threads={threads}')}: {why}")


def with_instructions(engine: str, instructions: str) -> str:
    """The name of an engine with a set of instructions; without it where engine or machine do not have it."""
    if f"{engine}.{instructions}" not in ENGINES:
        return engine
    from runtime.engines.native.target import instruction_sets

    return f"{engine}.{instructions}" if instructions in instruction_sets() else engine


def machine_peak(threads: int) -> float | None:
    """Operations a second that this machine can make, as native code measures it; None where that cannot be made."""
    from runtime.engines.engine import Unavailable
    from runtime.engines.native.peak import peak

    try:
        return peak(threads)
    except Unavailable:
        return None


def _fastest(program: pb.ProgramDesc, options: EngineOptions) -> tuple[Engine, str]:
    from importlib.util import find_spec

    if find_spec("llvmlite") is None:
        return _reference(program, options), "no_llvmlite"
    from runtime.engines.engine import Unavailable
    from runtime.engines.native.engine import has_room

    if not has_room(program, options.memory):
        return _reference(program, options), "too_little_memory"
    try:
        return _native(program, options), ""
    except Unavailable as error:
        return _reference(program, options), error.word


def _reference(program: pb.ProgramDesc, options: EngineOptions) -> Engine:
    """NumPy, one function per op."""
    from runtime.engines.reference.engine import ReferenceEngine

    return ReferenceEngine(program, options)


def _native(program: pb.ProgramDesc, options: EngineOptions, instructions: str = "") -> Engine:
    """Groups of ops as compiled functions."""
    from runtime.engines.native.engine import NativeEngine

    return NativeEngine(program, options, instructions)


ENGINES: dict[str, Make] = {
    "reference": _reference,
    "native": _native,
    **{f"native.{name}": partial(_native, instructions=name) for name in ("avx512", "avx2", "sse2", "neon")},
}
"""By name, what makes an engine."""

VARIABLE = "PROGRAD_ENGINE"
"""Of the environment: names the engine where nothing else does."""
