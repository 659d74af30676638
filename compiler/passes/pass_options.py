"""The options of a pass: the keyword parameters of its function, with their types, defaults and documentation."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import Parameter, getdoc, signature
from typing import Any, get_type_hints

from compiler.errors import CompileError
from prograd_proto.spelling import closest


@dataclass(frozen=True)
class Option:
    """An option of a pass.

    Attributes:
        name: name of the parameter.
        type: its annotation, such as `int | None`.
        value: its default, or its set value.
        meaning: its description in the docstring.
    """

    name: str
    type: Any
    value: object
    meaning: str

    @property
    def type_name(self) -> str:
        """The type as it is written."""
        return self.type.__name__ if isinstance(self.type, type) else str(self.type)


def options_of(function: Callable[..., object]) -> dict[str, Option]:
    """Return the options of a pass, by name."""
    parameters = [p for p in signature(function).parameters.values() if p.kind is Parameter.KEYWORD_ONLY]
    if not parameters:
        return {}
    hints, doc = get_type_hints(function), getdoc(function) or ""
    return {p.name: Option(p.name, hints.get(p.name, object), p.default, _meaning(p.name, doc)) for p in parameters}


def require_fitting(name: str, settings: Mapping[str, object], options: Mapping[str, Option]) -> None:
    """Raise CompileError for a setting that is no option of a pass or has another type."""
    for key, value in settings.items():
        if key not in options:
            known = f"; its options are {', '.join(options)}" if options else "; it has none"
            raise CompileError(f"{name}: there is no option {key!r}{closest(key, options)}{known}")
        if not _fits(value, options[key].type):
            raise CompileError(f"{name}: the option {key} is {value!r}; it takes {options[key].type_name}")


def option_from_text(name: str, option: Option, text: str) -> object:
    """Return the value of an option from text: `true`, `12`, `0.5` or `none`."""
    for known, word in ((True, "true"), (False, "false"), (None, "none")):
        if text == word and _fits(known, option.type):
            return known
    for read in (int, float, str):
        try:
            value = read(text)
        except ValueError:
            continue
        if _fits(value, option.type):
            return value
    raise CompileError(f"{name}: the option {option.name} is {text!r}; it takes {option.type_name}")


def _fits(value: object, type: Any) -> bool:
    types = getattr(type, "__args__", (type,))
    if isinstance(value, bool):  # bool is a subclass of int
        return bool in types
    return isinstance(value, (*types, *((int,) if float in types else ())))


def _meaning(name: str, doc: str) -> str:
    """Return the description of an argument in a docstring in Google's form."""
    found = re.search(rf"^    {name}: (.*(?:\n {{8}}.*)*)", doc, re.MULTILINE)
    return " ".join(found[1].split()) if found else ""
