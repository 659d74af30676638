"""The call of a verb: a check of its options against each other, then its function."""

from __future__ import annotations

import argparse
from importlib import import_module

from runtime.command_line.tables import Verb
from runtime.errors import UsageError


def call_verb(options: argparse.Namespace) -> int | None:
    """Import the function of the parsed verb, call it, and return its exit code; None stands for success."""
    verb: Verb = options.verb
    path = verb.function or f"{options.command.package}.{verb.name}.{verb.name}"
    module, _, function = path.rpartition(".")
    return getattr(import_module(module), function)(options)


def require_consistent(options: argparse.Namespace) -> None:
    """Raise UsageError for an option that excludes another one, or that lacks one that it needs."""
    verb: Verb = options.verb
    given = [option for option in verb.options if option.is_given(options)]
    flags = {flag for option in given for flag in option.flags}
    for option in given:
        for others, why in option.excludes.items():
            if not flags.isdisjoint(others.split()):
                raise UsageError(why)
    for option in given:
        for others, why in option.needs.items():
            if flags.isdisjoint(others.split()):
                raise UsageError(why)
