"""The view `compiler show --engine`: the computation of an entry's step by an engine, in words or as code."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from compiler.build.well_formed import well_formed
from compiler.commands.chosen_entry import chosen_binding, chosen_entry
from compiler.commands.views.ranks import of_rank
from runtime.engines.choice import make_views
from runtime.engines.engine import EngineOptions
from runtime.entries import bound_entries


def engine_text(options: argparse.Namespace) -> Iterator[str]:
    """Return the lines. Raise UsageError for options that the engine does not take."""
    program = of_rank(options, well_formed(options.program))
    entry = chosen_entry(options.program, program, options.entry)
    _, binding = chosen_binding(options.program, program, options.entry, options.bind)
    bound = next(b for b in bound_entries(program, entry.name) if b.number == binding.block)
    engine = make_views(options.engine, program, EngineOptions(threads=options.threads))
    if options.ir:
        yield engine.code(bound)
    else:
        yield from engine.explain(bound, options.after)
