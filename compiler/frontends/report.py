"""The report of the features of a model that prograd lacks: all problems at once, with places and numbers of uses."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, ParamSpec, Protocol, cast, overload

from compiler.aligned_text import columns
from compiler.build.program import Program
from compiler.errors import CompileError
from prograd_proto.argument_kinds import with_kinds

Parameters = ParamSpec("Parameters")


class Problem(NamedTuple):
    """A node of a model that cannot be imported.

    Attributes:
        operator: its operator.
        reason: why not.
        module: the path of the module that calls it.
        line: the line of the model's source; "" if it is unknown.
        remedy: what can be done; "" if the reason says it.
    """

    operator: str
    reason: str
    module: str
    line: str
    remedy: str = ""


def source_line(trace: str) -> tuple[str, int]:
    """Return file and number of the innermost line of a stack trace outside of this package; ("", 0) if it has none."""
    found = re.findall(r'File "(.+?)", line (\d+)', trace)
    others = ("<", str(Path(__file__).parent))  # code that torch makes has no file
    written = [(path, int(line)) for path, line in found if not path.startswith(others)]
    return written[-1] if written else ("", 0)


class Table:
    """The operators that cannot be imported, as a table: operator, uses, place of the first, reason.

    Attributes:
        rows: for each operator and reason: operator, reason, number of uses, module and line of the first.
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.rows = table(problems)
        self.remedies = {(each.operator, each.reason): each.remedy for each in problems}

    def __str__(self) -> str:
        if not self.rows:
            return "everything can be imported"
        heads, shown = ["operator", "uses", "first in", "at", "why"], [list(map(str, row)) for row in self._cells()]
        if any(self.remedies.values()):
            heads.append("what can be done")
        return "\n".join(columns(heads, [row[: len(heads)] for row in shown], right=("uses",)))

    def _cells(self) -> list[tuple[str, int, str, str, str, str]]:
        return [
            (operator, uses, module, line, reason, self.remedies[operator, reason])
            for operator, reason, uses, module, line in self.rows
        ]

    def __repr__(self) -> str:
        return str(self)

    def __len__(self) -> int:
        return len(self.rows)


def table(problems: Sequence[Problem]) -> list[tuple[str, str, int, str, str]]:
    """Return for each operator and reason the number of its uses, and the module and line of the first."""
    first: dict[tuple[str, str], Problem] = {}
    uses: dict[tuple[str, str], int] = {}
    for problem in problems:
        key = problem.operator, problem.reason
        first.setdefault(key, problem)
        uses[key] = uses.get(key, 0) + 1
    return [(key[0], key[1], uses[key], first[key].module, first[key].line) for key in first]


def told(problems: Sequence[Problem], verb: str = "imported", at: str = "first in") -> str:
    """Return one sentence for each operator that cannot be imported, or `verb`; `at` stands before the place."""
    rows, cures = table(problems), {(each.operator, each.reason): each.remedy for each in problems}
    count = f"{len(rows)} operator{'s' if len(rows) != 1 else ''}"
    lines = [
        f"{operator}, used {uses} time{'s' if uses != 1 else ''}, {at} {module or 'the module'}"
        f"{f' at {line}' if line else ''}: {reason}{f' ({cures[operator, reason]})' if cures[operator, reason] else ''}"
        for operator, reason, uses, module, line in rows
    ]
    return f"{count} cannot be {verb}: " + "; ".join(lines)


class Importer(Protocol[Parameters]):
    """A function that returns a program, or the table of what cannot be imported if `explain` is True."""

    @overload
    def __call__(self, *inputs: Any, explain: Literal[True], **options: Any) -> Table: ...
    @overload
    def __call__(self, *inputs: Parameters.args, **options: Parameters.kwargs) -> Program: ...


def importer(function: Callable[Parameters, Program | Table]) -> Importer[Parameters]:
    """Let a function check its flags, and have the type of its result as its argument `explain` decides it."""
    return cast("Importer[Parameters]", with_kinds(CompileError)(function))
