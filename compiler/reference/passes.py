"""The documentation page about passes, generated from their tables: `compiler passes --markdown > docs/passes.md`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

from compiler.passes.pass_table import Pass, PassTable
from prograd_proto.pass_order import OrderedPass, OrderedPasses

HEAD = """\
# Passes

Made by `compiler passes --markdown > docs/passes.md`. The tables in `compiler/passes/pipeline.py`,
`compiler/planning/pipeline.py` and `runtime/codegen/lowering/passes/pipeline.py` are the place to edit. A pass requires
facts, establishes some and invalidates others; an order in which a required fact does not hold is refused when the
table is imported. The details of a pass are at the top of its file, which has its name.
"""


AnyTable: TypeAlias = OrderedPasses[OrderedPass]


class Note(NamedTuple):
    """A line about a pass besides its facts: an option with its value, or the steps that it applies to."""

    word: str
    what: str
    meaning: str


def passes_page(tables: Iterable[AnyTable]) -> str:
    """Return the page as Markdown."""
    return "\n".join([HEAD, *(line for table in tables for line in _table(table))])


def heading(table: AnyTable) -> str:
    """Return the verb or the engine that runs the passes of a table."""
    return f"compiler {table.name}" if isinstance(table, PassTable) else f"lowering by the {table.name} engine"


def facts_of(table: AnyTable) -> list[tuple[str, str, str]]:
    """Return the facts of all passes of a table."""
    return [row for each in table.passes for row in each.reasons]


def notes(each: OrderedPass) -> list[Note]:
    """Return the options of a pass of the compiler, or the only kind of steps to which a lowering pass applies."""
    if isinstance(each, Pass):
        return [Note("option", f"{o.name}: {o.type_name} = {o.value}", o.meaning) for o in each.options.values()]
    return [] if applies_to(each) == "all steps" else [Note("applies to", applies_to(each), "")]


def applies_to(each: OrderedPass) -> str:
    """Return the steps that a lowering pass is for; the engine's class of passes is slow to import."""
    return getattr(each, "applies_to", "all steps")


def _table(table: AnyTable) -> Iterator[str]:
    yield f"## {heading(table)}\n"
    yield "| pass | does |\n| --- | --- |"
    yield from (f"| [`{each.name}`](#{each.name}) | {each.does} |" for each in table.passes)
    yield ""
    yield from (line for each in table.passes for line in _pass(each))
    what = "the program that comes out" if isinstance(table, PassTable) else "the step"
    yield f"What {_runner(table)} promises of {what}:\n"
    yield from (f"* *{fact}*: {why}" for fact, why in table.promises.items())
    yield ""


def _runner(table: AnyTable) -> str:
    return f"`{heading(table)}`" if isinstance(table, PassTable) else heading(table)


def _pass(each: OrderedPass) -> Iterator[str]:
    yield f"### `{each.name}`\n\n{each.does}\n"
    yield from (f"* {word} *{fact}*: {why}" for word, fact, why in each.reasons)
    for note in notes(each):
        yield f"* {note.word} `{note.what}`: {note.meaning}" if note.meaning else f"* {note.word} {note.what} only"
    yield ""
