"""The verb `compiler passes`: the tables of passes, with the facts that each pass requires and establishes.

They are the tables of the compiler, and those by which engines lower a step.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator

from compiler.errors import UsageError
from compiler.passes.pass_table import Pass
from compiler.passes.pipeline import PASSES
from compiler.planning.pipeline import PLANNING
from compiler.reference.passes import AnyTable, applies_to, facts_of, heading, notes, passes_page
from prograd_proto.pass_order import OrderedPass
from prograd_proto.spelling import closest
from runtime.command_line.streams import put
from runtime.engines.choice import lowering_passes


def passes(options: argparse.Namespace) -> None:
    """Print the named tables, or all: for a reader, for a program, or as a page of the documentation."""
    known = tables_by_name()
    for name in options.tables:
        if name not in known:
            names = ", ".join(known)
            raise UsageError(f"there is no table of passes {name!r}{closest(name, known)}; there are {names}")
    tables = [known[name] for name in options.tables or known]
    if options.json:
        put(json.dumps({table.name: table_as_json(table) for table in tables}, indent=2))
    elif options.markdown:
        put(passes_page(tables).removesuffix("\n"))
    else:
        put("\n\n".join("\n".join(table_in_words(table)) for table in tables))


def tables_by_name() -> dict[str, AnyTable]:
    """Return the tables of the compiler by verb, and those of engines by the name of the engine."""
    return {PASSES.name: PASSES, PLANNING.name: PLANNING, **lowering_passes()}


def table_in_words(table: AnyTable) -> Iterator[str]:
    """Return a line for each pass, and below it one for each fact and option."""
    promised = [("promises", fact, why) for fact, why in table.promises.items()]
    width = max(len(fact) for _, fact, _ in (*promised, *facts_of(table)))
    yield f"{heading(table)}: {len(table.passes)} passes, in order"
    if table.given:
        yield f"   {'given':14}{', '.join(table.given)}"
    for number, each in enumerate(table.passes, 1):
        yield f"{number:2} {each.name}: {each.does}"
        yield from (f"     {word:12}{fact:{width}}  {why}" for word, fact, why in each.reasons)
        yield from (f"     {note.word:12}{'  '.join(filter(None, (note.what, note.meaning)))}" for note in notes(each))
    yield from (f"   {word:14}{fact:{width}}  {why}" for word, fact, why in promised)


def table_as_json(table: AnyTable) -> dict[str, object]:
    """Return a table of passes as JSON values."""
    return {
        "given": dict(table.given),
        "passes": [_as_json(each) for each in table.passes],
        "promises": dict(table.promises),
    }


def _as_json(each: OrderedPass) -> dict[str, object]:
    facts = {
        "name": each.name,
        "does": each.does,
        "requires": dict(each.requires),
        "establishes": dict(each.establishes),
        "invalidates": dict(each.invalidates),
    }
    if not isinstance(each, Pass):
        return {**facts, "applies_to": applies_to(each)}
    options = [
        {"name": o.name, "type": o.type_name, "value": o.value, "meaning": o.meaning} for o in each.options.values()
    ]
    return {**facts, "options": options}
