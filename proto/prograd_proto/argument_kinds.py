"""Sentences for arguments of another kind than declared, in place of errors of Python.

A flag is checked before the call, because every value counts as True or False in Python, "no" as True. All others are
looked at when a call has failed by an error of Python, so that functions may say more about them, and lose no time.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from inspect import Parameter, signature
from typing import Any, Final, ParamSpec, TypeAlias, TypeVar

from prograd_proto.errors import ProgramError

P = ParamSpec("P")
R = TypeVar("R")

_Kind: TypeAlias = tuple[Callable[[Any], bool], str]
"""A condition on a value, and the words for values that meet it."""

_UNION: Final = re.compile(r" \| (?![^\[]*\])")
"""What stands between the parts of a union, outside of brackets."""

_OF_PYTHON: Final = (TypeError, AttributeError, ValueError, struct.error)
"""Errors that Python and NumPy raise for values of other kinds."""


def with_kinds(error: type[Exception]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let a function raise this error for an argument that is not of its declared kind."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        flags = flags_of(function)

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            if fault := wrong_flag(flags, kwargs):
                raise error(f"{_name(function)}: {fault}")
            try:
                return function(*args, **kwargs)
            except _OF_PYTHON as found:
                fault = "" if isinstance(found, ProgramError) else wrong_kind(function, args, kwargs)
                if not fault:
                    raise
            raise error(f"{_name(function)}: {fault}")

        return call

    return decorate


def flags_of(function: Callable[..., object]) -> tuple[str, ...]:
    """Return the parameters of a function that are declared `bool`."""
    return tuple(name for name, kind in function.__annotations__.items() if kind == "bool")


def wrong_flag(flags: Sequence[str], given: Mapping[str, object]) -> str:
    """Return the fault of the first of these arguments that is neither True nor False; else ""."""
    for name in flags:
        if not _is_flag(given.get(name, True)):
            return f"{name}={given[name]!r} is not True or False"
    return ""


def _name(function: Callable[..., object]) -> str:
    """Return the name of a function, or the class that `__init__` makes."""
    *_, owner, name = ("", *function.__qualname__.split("."))
    return owner if name == "__init__" else name


def wrong_kind(function: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]) -> str:
    """Return the fault of the first argument of a wrong kind; "" if there is none, or the arguments do not fit."""
    taken = signature(function)
    try:
        given = taken.bind(*args, **kwargs).arguments
    except TypeError:
        return ""
    for name, value in given.items():
        annotation = str(taken.parameters[name].annotation)
        kinds = [_KINDS.get(each) or _KINDS.get(each.partition("[")[0]) for each in _UNION.split(annotation)]
        for shown, each in _each(name, value, taken.parameters[name].kind):
            if not any(kind is None or kind[0](each) for kind in kinds):
                return f"{shown}={each!r} is not {' or '.join(kind[1] for kind in kinds if kind)}"
    return ""


def _each(name: str, value: Any, kind: Any) -> Iterator[tuple[str, object]]:
    """Return the values of a parameter with their names, several for `*args` and `**kwargs`."""
    if kind is Parameter.VAR_POSITIONAL:
        return ((name, each) for each in value)
    return iter(value.items()) if kind is Parameter.VAR_KEYWORD else iter([(name, value)])


def _is_flag(value: object) -> bool:
    return type(value).__name__ in ("bool", "bool_")  # NumPy's have these names


def _is_tensor(value: object) -> bool:
    return type(value).__name__ == "Value"  # a class of the registry, which this package does not import


def _is_number(value: Any) -> bool:
    return hasattr(value, "__float__") and not getattr(value, "shape", ()) and not _is_flag(value)


_KINDS: Final[Mapping[str, _Kind]] = {
    "None": (lambda value: value is None, "None"),
    "bool": (_is_flag, "True or False"),
    **dict.fromkeys(
        ("str", "Literal", "DTypeName", "EngineName", "Layout", "Over", "Padding"),
        (lambda value: isinstance(value, str), "text"),
    ),
    **dict.fromkeys(("Path", "Path_", "os.PathLike"), (lambda value: isinstance(value, str | os.PathLike), "a path")),
    "int": (lambda value: _is_number(value) and hasattr(value, "__index__"), "a whole number"),
    "float": (_is_number, "a number"),
    "Number": (lambda value: _is_number(value) or _is_tensor(value), "a number or a setting"),
    "Mapping": (lambda value: hasattr(value, "items"), "a mapping"),
    "Sequence[str]": (
        lambda value: isinstance(value, Sequence) and all(isinstance(each, str) for each in value),  # pyright: ignore[reportUnknownVariableType]: any
        "a list of texts",
    ),
    **dict.fromkeys(("Sequence", "list", "tuple"), (lambda value: isinstance(value, list | tuple), "a list")),
    "Numbers": (lambda value: isinstance(value, int | list | tuple), "a whole number, or one for each axis"),
    "Value": (_is_tensor, "a tensor of the program"),
    "Callable": (callable, "a function"),
}
"""By annotation; those that are not here allow everything."""
