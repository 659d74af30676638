"""`compiler show --engine`: how an engine computes a step of an entry, in words or as the code that it compiles."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from compiler.build.well_formed import well_formed
from compiler.commands.chosen_entry import chosen_binding, chosen_entry
from compiler.errors import UsageError
from runtime.engines.choice import make_engine
from runtime.engines.engine import EngineOptions
from runtime.entries import bound_entries


def engine_text(options: argparse.Namespace) -> Iterator[str]:
    """Return the lines. Raises UsageError for options that contradict each other, or that the engine does not take."""
    others = [name for name in ("memory", "order", "html", "svg", "bound") if getattr(options, name)]
    if others:
        raise UsageError(f"--engine and --{others[0]} are two views; ask for one of them")
    if options.ir and options.after is not None:
        raise UsageError("--ir is what there is after all passes, and --after after one of them; give one of both")
    program = well_formed(options.program)
    entry = chosen_entry(options.program, program, options.entry)
    _, binding = chosen_binding(options.program, program, options.entry, options.bind)
    bound = next(b for b in bound_entries(program, entry.name) if b.number == binding.block)
    engine, _ = make_engine(options.engine, program, EngineOptions(threads=options.threads))
    if options.ir:
        yield engine.code(bound)
    else:
        yield from engine.explain(bound, options.after)
