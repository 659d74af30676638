"""Check of the order of passes: every fact that a pass requires holds before it.

The facts that hold are tracked from the first pass to the last: a pass removes those that it invalidates and adds those
that it establishes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from compiler.errors import CompileError
from prograd_proto.spelling import closest

if TYPE_CHECKING:
    from compiler.passes.pass_table import Pass

Reasons = Mapping[str, str]
"""Reasons by fact."""


def require_order(table: str, passes: Sequence[Pass], given: Reasons, promises: Reasons) -> None:
    """Raise CompileError, with the name of the table, for the first pass that is in a wrong position.

    Args:
        table: its name.
        passes: in order.
        given: the facts that hold before the first.
        promises: the facts that are to hold after the last.
    """
    _require_names(table, passes)
    _require_reasons(table, passes)
    _require_known_facts(table, passes, given, promises)
    holding: Reasons = given
    for i, each in enumerate(passes):
        for fact, reason in each.requires.items():
            if fact not in holding:
                raise CompileError(f"{table}: {each.name} requires {fact!r} ({reason}), {_why_not(passes, fact, i)}")
        holding = facts_after(each, holding)
    for fact, reason in promises.items():
        if fact not in holding:
            why = _why_not(passes, fact, len(passes))
            raise CompileError(f"{table} promises {fact!r} ({reason}), {why}")


def facts_after(each: Pass, holding: Reasons) -> dict[str, str]:
    """Return the facts that hold after a pass, given those before it."""
    return {fact: why for fact, why in holding.items() if fact not in each.invalidates} | dict(each.establishes)


def _require_names(table: str, passes: Sequence[Pass]) -> None:
    for name, count in Counter(each.name for each in passes).items():
        if count > 1:
            raise CompileError(f"{table}: {count} passes have the name {name}, that of their function; rename one")


def _require_reasons(table: str, passes: Sequence[Pass]) -> None:
    for each in passes:
        for word, fact, why in each.reasons:
            if not why:
                raise CompileError(f"{table}: {each.name} {word} {fact!r} without a reason; say why")


def _require_known_facts(table: str, passes: Sequence[Pass], given: Reasons, promises: Reasons) -> None:
    known = {*given, *(fact for each in passes for fact in each.establishes)}
    named = [(f"{table}: {each.name} requires", each.requires) for each in passes]
    named += [(f"{table}: {each.name} invalidates", each.invalidates) for each in passes]
    for who, reasons in (*named, (f"{table} promises", promises)):
        for fact, reason in reasons.items():
            if fact not in known:
                hint = closest(fact, known)
                raise CompileError(f"{who} {fact!r} ({reason}), which no pass establishes{hint}")


def _why_not(passes: Sequence[Pass], fact: str, before: int) -> str:
    """Return the reason why a known fact does not hold before the pass of that number, and a remedy."""
    makers = " or ".join(each.name for each in passes if fact in each.establishes)
    for each in reversed(passes[:before]):
        if fact in each.invalidates:
            again = f"put {makers} between" if makers else "put that later"
            return f"which {each.name}, before it, invalidates ({each.invalidates[fact]}); {again}"
    return f"which {makers} establishes only after it; put that before"
