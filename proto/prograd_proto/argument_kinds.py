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
"""The separator between the parts of a union; one within brackets belongs to a part."""

_OF_PYTHON: Final = (TypeError, AttributeError, ValueError, struct.error)
"""Errors that Python and NumPy raise for values of other kinds."""


def with_kinds(
    error: type[Exception], *, strictly: bool = False, named: bool = True
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let a function raise this error for an argument that is not of its declared kind.

    Args:
        error: the class of the error.
        strictly: look at the arguments of a call that succeeds, too, as they are used later.
        named: begin with the name of the function.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        flags = [name for name, kind in function.__annotations__.items() if kind == "bool"]

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            for name in flags:
                if not _is_flag(kwargs.get(name, True)):
                    raise error(f"{start}{name}={kwargs[name]!r} is not True or False")
            try:
                made = function(*args, **kwargs)
                fault = wrong_kind(function, args, kwargs) if strictly else ""
                if not fault:
                    return made
            except _OF_PYTHON as found:
                fault = "" if isinstance(found, ProgramError) else wrong_kind(function, args, kwargs)
                if not fault:
                    raise
            raise error(f"{start}{fault}")

        *_, owner, name = ("", *function.__qualname__.split("."))
        start = f"{owner if name == '__init__' else name}: " if named else ""
        return call

    return decorate


def wrong_kind(function: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]) -> str:
    """Return the fault of the first argument of a wrong kind; "" if there is none, or the arguments do not fit."""
    taken = signature(function)
    try:
        given = taken.bind(*args, **kwargs).arguments
    except TypeError:
        return ""
    for name, value in given.items():
        parameter = taken.parameters[name]
        for shown, each in _each(name, value, parameter.kind):
            if fault := _fault(shown, each, str(parameter.annotation)):
                return fault
    return ""


def _each(name: str, value: Any, kind: Any) -> Iterator[tuple[str, object]]:
    """Return the values of a parameter with their names, several for `*args` and `**kwargs`."""
    if kind is Parameter.VAR_POSITIONAL:
        return ((name, each) for each in value)
    return iter(value.items()) if kind is Parameter.VAR_KEYWORD else iter([(name, value)])


def _fault(name: str, value: Any, annotation: str) -> str:
    """Return how a value, or an element of a list, does not fit an annotation; "" if it does."""
    parts = [part.partition("[") for part in _UNION.split(annotation)]
    kinds = [_KINDS.get(outer) for outer, *_ in parts]
    fitting = [part for part, kind in zip(parts, kinds, strict=True) if kind is None or kind[0](value)]
    if not fitting:
        return f"{name}={value!r} is not {' or '.join(kind[1] for kind in kinds if kind)}"
    outer, _, inner = fitting[0]
    elements = enumerate(value) if outer == "Sequence" else ()
    faults = (_fault(f"{name}[{i}]", each, inner.removesuffix("]")) for i, each in elements)
    return next(filter(None, faults), "")


def _is_flag(value: object) -> bool:
    return type(value).__name__ in ("bool", "bool_")  # NumPy's have these names


def _is_tensor(value: object) -> bool:
    return type(value).__name__ == "Value"  # a class of the registry, which this package does not import


def _is_number(value: Any) -> bool:
    return hasattr(value, "__float__") and not getattr(value, "shape", ()) and not _is_flag(value)


def _is_list(value: object) -> bool:
    return hasattr(value, "__iter__") and not isinstance(value, str | bytes | Mapping)


_TEXTS: Final = "str", "Literal", "DTypeName", "EngineName", "Layout", "Over", "Padding"
_PATHS: Final = "Path", "Path_", "os.PathLike"

_KINDS: Final[Mapping[str, _Kind]] = {
    "None": (lambda value: value is None, "None"),
    "bool": (_is_flag, "True or False"),
    **dict.fromkeys(_TEXTS, (lambda value: isinstance(value, str), "text")),
    **dict.fromkeys(_PATHS, (lambda value: isinstance(value, str | os.PathLike), "a path")),
    "int": (lambda value: _is_number(value) and hasattr(value, "__index__"), "a whole number"),
    "float": (_is_number, "a number"),
    "Number": (lambda value: _is_number(value) or _is_tensor(value), "a number or a setting"),
    "Numbers": (lambda value: isinstance(value, int | list | tuple), "a whole number, or one for each axis"),
    **dict.fromkeys(("Mapping", "Symbols", "Inputs"), (lambda value: hasattr(value, "items"), "a mapping")),
    **dict.fromkeys(("Sequence", "list", "tuple"), (_is_list, "a list")),
    "Value": (_is_tensor, "a tensor of the program"),
    "Callable": (callable, "a function"),
}
"""Each annotation with the kind that it declares; an argument with another annotation may have any value."""
