"""Options that need or exclude others: every such relation of every table ends a command in its own sentence."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from compiler.commands.verbs.command import COMMAND as COMPILER
from runtime.command_line.calling import require_consistent
from runtime.command_line.parsing import parsed
from runtime.command_line.tables import Command, Either, Option, Verb
from runtime.commands.verbs.command import COMMAND as RUNTIME
from runtime.errors import UsageError

VALUES = {
    "N": "3",
    "K": "3",
    "SIZE": "1KiB",
    "TIME": "2s",
    "X": "0.5",
    "I/N": "1/2",
    "I/K": "1/2",
    "R/N": "0/4",
    "NAME=NUMBER": "a=1",
    "NAME=NUMBER,NUMBER": "a=1,2",
    "OLD=NEW": "a=b",
}
"""Values by their words in help; any other text will do for other words."""

VERBS = [(command, verb) for command in (COMPILER, RUNTIME) for verb in command.verbs.values()]


def words(option: Option) -> list[str]:
    """The words that give an option another value than its default."""
    value = next((word for word in option.words if word != option.default), VALUES.get(option.value, "x"))
    return [*option.flags[-1:], *([] if option.is_switch else [value])]


def cases() -> Iterator[tuple[Command, Verb, list[Option], str]]:
    """Each relation of each verb: the options that break it, and its sentence."""
    for command, verb in VERBS:
        by_flag = {flag: option for option in verb.options for flag in option.flags}
        for option in verb.options:
            for flags, why in option.needs.items():
                if not any(by_flag[flag].required for flag in flags.split() if flag in by_flag):
                    yield command, verb, [option], why
            for flags, why in option.excludes.items():
                yield from ((command, verb, [option, by_flag[flag]], why) for flag in flags.split() if flag in by_flag)


def broken(command: Command, verb: Verb, given: list[Option]) -> str:
    """The sentence about these options of a verb."""
    needed = [each for each in verb.options if (not each.flags or each.required) and each not in given]
    alternatives = {others.split()[-1] for each in needed for others in each.needs}
    needed += [each for each in verb.options if not alternatives.isdisjoint(each.flags)]
    needed += [part.options[0] for part in verb.table if isinstance(part, Either) and part.required]
    arguments = [word for option in (*needed, *given) for word in words(option)]
    with pytest.raises(UsageError) as caught:
        require_consistent(parsed(command, [verb.name, *arguments]))
    return str(caught.value)


def test_every_relation_has_its_sentence():
    found = [(verb.name, given, why, broken(command, verb, given)) for command, verb, given, why in cases()]
    assert len(found) > 90
    others = [(name, [option.usage for option in given], told) for name, given, why, told in found if told != why]
    assert others == []


def test_what_an_option_needs_is_an_option_of_its_verb_and_what_it_excludes_one_of_some_verb():
    every = {flag for _, verb in VERBS for option in verb.options for flag in option.flags}
    for _, verb in VERBS:
        own = {flag for option in verb.options for flag in option.flags}
        for option in verb.options:
            assert [others for others in option.needs if own.isdisjoint(others.split())] == []
            named = {flag for others in (*option.needs, *option.excludes) for flag in others.split()}
            assert named <= every, (verb.name, option.usage)
