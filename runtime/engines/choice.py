"""The engines by name; each is imported when it is chosen.

A new engine needs a function here that imports it, a line in `ENGINES` and a word in `EngineName`. An engine whose bits
depend on the instruction set may also be named with one: `native.avx2`.
"""

from __future__ import annotations

import os
from functools import partial

TYPE_CHECKING = False  # as in typing: the command line reads the names before anything else is imported
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Literal

    from prograd_proto import program_pb2 as pb
    from runtime.codegen.lowering.passes.pass_table import PassTable
    from runtime.engines.engine import Engine, EngineOptions, Views

    EngineName = Literal[
        "reference",
        "native",
        "native.amx_int8",
        "native.amx",
        "native.avx512_bf16",
        "native.avx512_vnni",
        "native.avx512",
        "native.avx_vnni",
        "native.avx2",
        "native.sse2",
        "native.neon_dotprod",
        "native.neon",
    ]
    Make = Callable[[pb.ProgramDesc, EngineOptions], Engine]


def make_engine(name: str | None, program: pb.ProgramDesc, options: EngineOptions) -> tuple[Engine, str]:
    """Return the engine of that name for a checked program, and a word that says why a faster engine was not used.

    Without a name, PROGRAD_ENGINE names the engine. Without that variable it is native code where this machine supports
    it.

    Raises UsageError if there is no such engine or it lacks a requested option, Unavailable if it cannot run here.
    """
    if options.threads > 1:
        _require_threads(options.threads)
    asked = name or os.environ.get(VARIABLE)
    if not asked:
        return _fastest(program, options)
    if asked not in ENGINES:
        from prograd_proto.spelling import closest_or_all
        from runtime.errors import UsageError

        hint = closest_or_all(asked, ENGINES, "the engines are")
        raise UsageError(f"{'' if name else f'{VARIABLE}: '}there is no engine {asked!r}{hint}")
    return ENGINES[asked](program, options), ""


def make_views(name: str | None, program: pb.ProgramDesc, options: EngineOptions) -> Views:
    """Return the descriptions of steps by the engine of that name; it need not run on this machine.

    Raises errors as `make_engine` does.
    """
    asked = name or os.environ.get(VARIABLE) or ""
    engine, _, instructions = asked.partition(".")
    if engine != "native" or asked not in ENGINES:
        return make_engine(name, program, options)[0]
    if options.threads > 1:
        _require_threads(options.threads)
    from runtime.engines.native.views import views_for

    return views_for(program, options, instructions)


def _require_threads(threads: int) -> None:
    from runtime.usable_cores import why_too_many

    if why := why_too_many(threads):
        from prograd_proto.wording import as_asked
        from runtime.errors import UsageError

        raise UsageError(f"{as_asked(f'--threads {threads}', f'threads={threads}')}: {why}")


def with_instructions(engine: str, instructions: str) -> str:
    """Return the name of an engine with an instruction set, or without it where engine or machine lack it."""
    if f"{engine}.{instructions}" not in ENGINES:
        return engine
    from runtime.engines.native.cpu import instruction_sets

    return f"{engine}.{instructions}" if instructions in instruction_sets() else engine


def lowering_passes() -> dict[str, PassTable]:
    """Return the tables of the passes that engines lower a step by, by the name of the engine."""
    from runtime.codegen.lowering.passes.pipeline import PASSES

    return {PASSES.name: PASSES}


def machine_peak(threads: int) -> float | None:
    """Return the operations per second that native code measures on this machine; None without native code."""
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
    """Return the engine that calls one NumPy function per op."""
    from runtime.engines.reference.engine import ReferenceEngine

    return ReferenceEngine(program, options)


def _native(program: pb.ProgramDesc, options: EngineOptions, instructions: str = "") -> Engine:
    """Return the engine that compiles groups of ops to functions."""
    from runtime.engines.native.engine import NativeEngine

    return NativeEngine(program, options, instructions)


ENGINES: dict[str, Make] = {
    "reference": _reference,
    "native": _native,
    **{
        f"native.{name}": partial(_native, instructions=name)
        for name in (
            "amx_int8",
            "amx",
            "avx512_bf16",
            "avx512_vnni",
            "avx512",
            "avx_vnni",
            "avx2",
            "sse2",
            "neon_dotprod",
            "neon",
        )
    },
}
"""Constructors of the engines by name."""

VARIABLE = "PROGRAD_ENGINE"
"""Environment variable that names the engine if nothing else does."""
