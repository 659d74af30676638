"""The arena bytes of each engine of this machine for an entry, as in the result line of a run."""

from __future__ import annotations

from collections.abc import Mapping

from prograd_proto import program_pb2 as pb
from runtime.engines.choice import make_engine
from runtime.engines.engine import EngineOptions, Unavailable
from runtime.entries import bound_entries

ENGINES = ("native", "reference")


def engine_arenas(program: pb.ProgramDesc, threads: int) -> dict[str, Mapping[str, int]]:
    """Return the arena bytes of each compiled entry by the name of the engine, for runs on this many threads.

    An entry of several sizes needs the arena of the largest one. An engine that cannot run on this machine is omitted.
    """
    compiled = [entry.name for entry in program.entries if entry.bindings]
    found: dict[str, Mapping[str, int]] = {}
    for name in ENGINES:
        try:
            engine, _ = make_engine(name, program, EngineOptions(threads=threads))
        except Unavailable:
            continue
        found[name] = {
            entry: max(engine.needs(bound).arena for bound in bound_entries(program, entry)) for entry in compiled
        }
    return found
