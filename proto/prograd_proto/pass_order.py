"""Passes in an order that is checked: every fact that a pass requires holds before it.

A fact is a property of what the passes change, such as "bound": the blocks that run are static. The facts that hold are
tracked from the first pass to the last: a pass removes those that it invalidates and adds those that it establishes.
The compiler and the code generator have tables of passes of their own, which are made of these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from prograd_proto.spelling import closest

Reasons = Mapping[str, str]
"""Reasons by fact."""


@dataclass(frozen=True)
class OrderedPass:
    """A function, and its position among others.

    Attributes:
        function: the pass has its name, which for built-in passes is that of the file.
        requires: facts that must hold before it, with the reasons.
        establishes: facts that hold from it on, with their meaning.
        invalidates: facts that may no longer hold, with the reasons.
    """

    function: Callable[..., object]
    requires: Reasons = field(default_factory=dict[str, str])
    establishes: Reasons = field(default_factory=dict[str, str])
    invalidates: Reasons = field(default_factory=dict[str, str])

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.function.__name__

    @property
    def does(self) -> str:
        """The first line of the function's docstring."""
        return (self.function.__doc__ or "").strip().partition("\n")[0]

    @property
    def reasons(self) -> list[tuple[str, str, str]]:
        """The facts of the pass: "requires", "establishes" or "invalidates", the fact, and the reason."""
        words = {"requires": self.requires, "establishes": self.establishes, "invalidates": self.invalidates}
        return [(word, fact, why) for word, facts in words.items() for fact, why in facts.items()]


AnyPass = TypeVar("AnyPass", bound=OrderedPass, covariant=True)


@dataclass(frozen=True)
class OrderedPasses(Generic[AnyPass]):
    """Passes in their order, which the tables that are made of this class check.

    Attributes:
        name: what runs them: a verb or an engine.
        passes: from the first to the last.
        given: the facts that hold before the first.
        promises: the facts that must hold after the last, and their purpose.
    """

    name: str
    passes: Sequence[AnyPass]
    given: Reasons = field(default_factory=dict[str, str])
    promises: Reasons = field(default_factory=dict[str, str])

    def __iter__(self) -> Iterator[AnyPass]:
        return iter(self.passes)

    @property
    def names(self) -> list[str]:
        """The names of the passes, in order."""
        return [each.name for each in self.passes]


def order_fault(table: str, passes: Sequence[OrderedPass], given: Reasons, promises: Reasons) -> str:
    """Return the sentence about the first pass in a wrong position, or "" if the order is right.

    Args:
        table: its name.
        passes: in order.
        given: the facts that hold before the first.
        promises: the facts that are to hold after the last.
    """
    checks = (_of_names, _of_reasons, _of_known_facts, _of_order)
    return next((fault for check in checks for fault in check(table, passes, given, promises)), "")


def facts_after(each: OrderedPass, holding: Reasons) -> dict[str, str]:
    """Return the facts that hold after a pass, given those before it."""
    return {fact: why for fact, why in holding.items() if fact not in each.invalidates} | dict(each.establishes)


def _of_names(table: str, passes: Sequence[OrderedPass], given: Reasons, promises: Reasons) -> Iterator[str]:
    for name, count in Counter(each.name for each in passes).items():
        if count > 1:
            yield f"{table}: {count} passes have the name {name}, that of their function; rename one"


def _of_reasons(table: str, passes: Sequence[OrderedPass], given: Reasons, promises: Reasons) -> Iterator[str]:
    for each in passes:
        for word, fact, why in each.reasons:
            if not why:
                yield f"{table}: {each.name} {word} {fact!r} without a reason; say why"


def _of_known_facts(table: str, passes: Sequence[OrderedPass], given: Reasons, promises: Reasons) -> Iterator[str]:
    known = {*given, *(fact for each in passes for fact in each.establishes)}
    named = [(f"{table}: {each.name} requires", each.requires) for each in passes]
    named += [(f"{table}: {each.name} invalidates", each.invalidates) for each in passes]
    for who, reasons in (*named, (f"{table} promises", promises)):
        for fact, reason in reasons.items():
            if fact not in known:
                hint = closest(fact, known)
                yield f"{who} {fact!r} ({reason}), which no pass establishes{hint}"


def _of_order(table: str, passes: Sequence[OrderedPass], given: Reasons, promises: Reasons) -> Iterator[str]:
    holding: Reasons = given
    for i, each in enumerate(passes):
        for fact, reason in each.requires.items():
            if fact not in holding:
                yield f"{table}: {each.name} requires {fact!r} ({reason}), {_why_not(passes, fact, i)}"
        holding = facts_after(each, holding)
    for fact, reason in promises.items():
        if fact not in holding:
            yield f"{table} promises {fact!r} ({reason}), {_why_not(passes, fact, len(passes))}"


def _why_not(passes: Sequence[OrderedPass], fact: str, before: int) -> str:
    """Return the reason why a known fact does not hold before the pass of that number, and a remedy."""
    makers = " or ".join(each.name for each in passes if fact in each.establishes)
    for each in reversed(passes[:before]):
        if fact in each.invalidates:
            again = f"put {makers} between" if makers else "put that later"
            return f"which {each.name}, before it, invalidates ({each.invalidates[fact]}); {again}"
    return f"which {makers} establishes only after it; put that before"
