"""The documentation page about passes, generated from their tables: `compiler passes --markdown > docs/passes.md`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from compiler.passes.pass_table import Pass, PassTable

HEAD = """\
# Passes

Made by `compiler passes --markdown > docs/passes.md`; the tables in `compiler/passes/pipeline.py` and
`compiler/planning/pipeline.py` are the place to edit. A pass requires facts of the program, establishes some and
invalidates others; an order in which a required fact does not hold is refused when the table is imported. What a pass
does in detail stands at the top of its file, which has its name.
"""


def passes_page(tables: Iterable[PassTable]) -> str:
    """Return the page as Markdown."""
    return "\n".join([HEAD, *(line for table in tables for line in _table(table))])


def _table(table: PassTable) -> Iterator[str]:
    yield f"## compiler {table.name}\n"
    yield "| pass | does |\n| --- | --- |"
    yield from (f"| [`{each.name}`](#{each.name}) | {each.does} |" for each in table)
    yield ""
    yield from (line for each in table for line in _pass(each))
    yield f"What `compiler {table.name}` promises of the program that comes out:\n"
    yield from (f"* *{fact}*: {why}" for fact, why in table.promises.items())
    yield ""


def _pass(each: Pass) -> Iterator[str]:
    yield f"### `{each.name}`\n\n{each.does}\n"
    yield from (f"* {word} *{fact}*: {why}" for word, fact, why in each.reasons)
    yield from (f"* option `{o.name}: {o.type_name} = {o.value}`: {o.meaning}" for o in each.options.values())
    yield ""
