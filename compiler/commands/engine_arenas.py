"""The arena bytes of each engine of this machine for an entry, as in the result line of a run."""

from __future__ import annotations

from collections.abc import Mapping

from compiler.commands.ops_in_words import size_in_words
from prograd_proto import program_pb2 as pb
from runtime.engines.choice import make_engine
from runtime.engines.engine import Engine, EngineOptions, Unavailable
from runtime.entries import bound_entries

ENGINES = ("native", "reference")


def engine_arenas(program: pb.ProgramDesc, threads: int) -> dict[str, Mapping[str, int]]:
    """Return the arena bytes of each compiled entry by the name of the engine, for runs on this many threads.

    An entry of several sizes needs the arena of the largest one. An engine that cannot run on this machine is omitted.
    """
    compiled = [entry.name for entry in program.entries if entry.bindings]
    return {
        name: {entry: max(engine.needs(bound).arena for bound in bound_entries(program, entry)) for entry in compiled}
        for name, engine in _engines(program, threads).items()
    }


def arenas_in_words(program: pb.ProgramDesc, threads: int, entry: str) -> dict[int, str]:
    """Return in words the arenas of a run for each size of an entry, by the number of its block."""
    engines, on = _engines(program, threads), f", on {threads} threads" if threads > 1 else ", on 1 thread"
    return {
        bound.number: f"{in_words({name: engine.needs(bound).arena for name, engine in engines.items()})}{on}"
        for bound in bound_entries(program, entry)
    }


def in_words(arenas: Mapping[str, int]) -> str:
    """Return the arena bytes of engines in words: 54.2 KiB (native) or 57.9 KiB (reference)."""
    return " or ".join(f"{size_in_words(nbytes)} ({name})" for name, nbytes in arenas.items())


def _engines(program: pb.ProgramDesc, threads: int) -> dict[str, Engine]:
    """Return the engines that can run the program on this machine."""
    found: dict[str, Engine] = {}
    for name in ENGINES:
        try:
            found[name], _ = make_engine(name, program, EngineOptions(threads=threads))
        except Unavailable:
            continue
    return found
