"""The verb `compiler passes`: the tables of passes, with the facts that each pass requires and establishes."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator

from compiler.errors import UsageError
from compiler.passes.pass_table import Pass, PassTable
from compiler.passes.pipeline import PASSES
from compiler.planning.pipeline import PLANNING
from compiler.reference.passes import passes_page
from prograd_proto.spelling import closest
from runtime.command_line.streams import put

TABLES = {table.name: table for table in (PASSES, PLANNING)}


def passes(options: argparse.Namespace) -> None:
    """Print the named tables, or both: for a reader, for a program, or as a page of the documentation."""
    for name in options.tables:
        if name not in TABLES:
            known = " and ".join(TABLES)
            raise UsageError(f"there is no table of passes {name!r}{closest(name, TABLES)}; there are {known}")
    tables = [TABLES[name] for name in options.tables or TABLES]
    if options.json:
        put(json.dumps({table.name: table_as_json(table) for table in tables}, indent=2))
    elif options.markdown:
        put(passes_page(tables).removesuffix("\n"))
    else:
        put("\n\n".join("\n".join(table_in_words(table)) for table in tables))


def table_in_words(table: PassTable) -> Iterator[str]:
    """Return a line for each pass, and below it one for each fact and option."""
    promised = [("promises", fact, why) for fact, why in table.promises.items()]
    width = max(len(fact) for _, fact, _ in (*promised, *(row for each in table for row in each.reasons)))
    yield f"compiler {table.name}: {len(table.passes)} passes, in order"
    if table.given:
        yield f"   {'given':14}{', '.join(table.given)}"
    for number, each in enumerate(table, 1):
        yield f"{number:2} {each.name}: {each.does}"
        yield from (f"     {word:12}{fact:{width}}  {why}" for word, fact, why in each.reasons)
        for option in each.options.values():
            yield f"     {'option':12}{option.name}: {option.type_name} = {option.value}  {option.meaning}"
    yield from (f"   {word:14}{fact:{width}}  {why}" for word, fact, why in promised)


def table_as_json(table: PassTable) -> dict[str, object]:
    """Return a table of passes as JSON values."""
    return {"given": dict(table.given), "passes": [_as_json(each) for each in table], "promises": dict(table.promises)}


def _as_json(each: Pass) -> dict[str, object]:
    return {
        "name": each.name,
        "does": each.does,
        "requires": dict(each.requires),
        "establishes": dict(each.establishes),
        "invalidates": dict(each.invalidates),
        "options": [
            {"name": o.name, "type": o.type_name, "value": o.value, "meaning": o.meaning} for o in each.options.values()
        ],
    }
