"""Lowering rules of plugins, imported before a step with their operators is lowered.

A plugin that is in use may have an entry point of the group `prograd.lowering`, whose module adds rules to `RULES`. An
operator without a rule runs as its NumPy kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from functools import wraps
from typing import Any

from prograd_proto import PluginError, ProgramError
from prograd_proto import program_pb2 as pb
from prograd_proto.plugins import LOWERING_GROUP, has_plugin, load_plugin, namespace_of, plugin_failed
from runtime.codegen.rules import RULES, Rule
from runtime.operators import CONTRACTS


def use_plugin_rules(blocks: Iterable[pb.BlockDesc]) -> None:
    """Import the lowering rules of the plugins whose operators these blocks have.

    Raises PluginError if a module of rules cannot be imported, or declares wrongly.
    """
    types = {op.type for block in blocks for op in block.ops if op.type in CONTRACTS}
    known = {namespace_of(type) for type in RULES}
    for name in sorted({namespace_of(type) for type in types} - known):
        if has_plugin(LOWERING_GROUP, name):
            _use(name)


def _use(name: str) -> None:
    own = load_plugin(LOWERING_GROUP, name, RULES, _accept)
    unknown = sorted(own.keys() - CONTRACTS.keys())
    for type in unknown:
        del RULES[type]
    if unknown:
        raise PluginError(f"the plugin {name!r} declares a lowering rule of {unknown[0]!r}, which has no kernel")
    for type in own:
        RULES[type] = _guarded(type, RULES[type])


def _accept(declared: object) -> None:
    if not isinstance(declared, Rule):
        raise ProgramError(f"{declared!r} is no lowering rule")


def _guarded(type: str, rule: Rule) -> Rule:
    """Return the rule, whose functions name the plugin if they fail."""

    def guarded(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*arguments: Any, **more: Any) -> Any:
            try:
                return function(*arguments, **more)
            except ProgramError:
                raise
            except Exception as error:
                raise plugin_failed(f"the lowering rule of {type!r}", error) from error

        return call

    functions = {field.name: getattr(rule, field.name) for field in fields(rule)}
    return replace(rule, **{name: guarded(value) for name, value in functions.items() if callable(value)})
