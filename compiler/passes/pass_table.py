"""The passes of the compiler, with their options, and tables of them; a table with a wrong order cannot be made."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace

from compiler.errors import CompileError
from compiler.passes.pass_options import Option, options_of, require_fitting
from prograd_proto.pass_order import OrderedPass, OrderedPasses, facts_after, order_fault
from prograd_proto.spelling import closest


@dataclass(frozen=True)
class Pass(OrderedPass):
    """A function that edits a program in place, called with the program and with its options as keywords.

    Attributes:
        settings: options whose value differs from the default in the function's signature.
    """

    settings: Mapping[str, object] = field(default_factory=dict[str, object])

    @property
    def options(self) -> dict[str, Option]:
        """The options, with their current values."""
        return {
            name: replace(option, value=self.settings.get(name, option.value))
            for name, option in options_of(self.function).items()
        }

    def not_asking(self, facts: Container[str]) -> Pass:
        """Return the pass without its requirements of these facts."""
        requires = {fact: why for fact, why in self.requires.items() if fact not in facts}
        invalidates = {fact: why for fact, why in self.invalidates.items() if fact not in facts}
        return replace(self, requires=requires, invalidates=invalidates)

    def with_settings(self, settings: Mapping[str, object]) -> Pass:
        """Return the pass with these options set; raise CompileError for an unknown one or a wrong type."""
        require_fitting(self.name, settings, options_of(self.function))
        return replace(self, settings={**self.settings, **settings})


@dataclass(frozen=True)
class PassTable(OrderedPasses[Pass]):
    """The passes of a verb. Raises CompileError if the order is wrong."""

    def __post_init__(self) -> None:
        if fault := order_fault(self.name, self.passes, self.given, self.promises):
            raise CompileError(fault)

    @property
    def facts(self) -> dict[str, str]:
        """The facts that hold after the last pass, with their meaning."""
        facts = dict(self.given)
        for each in self.passes:
            facts = facts_after(each, facts)
        return facts

    def only(self, *names: str) -> tuple[Pass, ...]:
        """Return the passes of these names, in the order of the names."""
        return tuple(self.passes[self.position(name)] for name in names)

    def without(self, *names: str) -> PassTable:
        """Return the table without these passes; the others no longer require facts that only those established.

        Raises CompileError if the result lacks a promised fact.
        """
        left_out = self.only(*names)
        passes = [each for each in self.passes if each not in left_out]
        gone = {fact: each.name for each in left_out for fact in each.establishes}
        for fact in (fact for each in passes for fact in each.establishes):
            gone.pop(fact, None)
        for fact, reason in self.promises.items():
            if fact in gone:
                raise CompileError(f"{gone[fact]} cannot be left out: {self.name} promises {fact!r} ({reason})")
        return replace(self, passes=tuple(each.not_asking(gone) for each in passes))

    def before(self, name: str) -> tuple[Pass, ...]:
        """Return the passes before the one of that name."""
        return tuple(self.passes[: self.position(name)])

    def since(self, name: str) -> tuple[Pass, ...]:
        """Return the pass of that name and those after it."""
        return tuple(self.passes[self.position(name) :])

    def with_pass(self, new: Pass, *, before: str) -> PassTable:
        """Return the table with one more pass, right before the one of that name."""
        return replace(self, passes=(*self.before(before), new, *self.since(before)))

    def with_settings(self, settings: Mapping[str, Mapping[str, object]]) -> PassTable:
        """Return the table with options set, by the name of the pass and that of the option."""
        passes = list(self.passes)
        for name, given in settings.items():
            i = self.position(name)
            passes[i] = passes[i].with_settings(given)
        return replace(self, passes=passes)

    def position(self, name: str) -> int:
        """Return the position of the pass of that name; raise CompileError if there is none."""
        names = self.names
        if name not in names:
            raise CompileError(f"there is no pass {name!r}{closest(name, names)}; the passes are {', '.join(names)}")
        return names.index(name)
