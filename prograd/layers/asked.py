"""Checks of a layer's arguments: known names, and a tensor x of floats with known channels."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Final, NoReturn, ParamSpec, TypeVar

from prograd import OpError, Program, Value, initialisers
from prograd.layers.other_names import no_argument
from prograd_proto.argument_kinds import with_kinds

PROGRAM_FIRST: Final = "the program is that of the tensor, which comes first, as in layers.dense(x, 'hidden', 32)"
NAME_FIRST: Final = "the tensor comes first and then the name, as in layers.dense(x, 'hidden', 32)"

P = ParamSpec("P")
R = TypeVar("R")

Initial = initialisers.Initialiser | initialisers.FromFile | None
"""The initial value of weights; None for the layer's default."""


def layer(function: Callable[P, R]) -> Callable[P, R]:
    """Let a layer raise OpError, in one sentence, for unknown and missing arguments."""
    taken = signature(function)
    known = list(taken.parameters)
    checked = with_kinds(OpError)(function)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if args and isinstance(args[0], Program):
            raise OpError(f"{function.__name__}: {PROGRAM_FIRST}")
        if len(args) > 1 and isinstance(args[0], str) and isinstance(args[1], Value):
            raise OpError(f"{function.__name__}: {NAME_FIRST}")
        for name in kwargs:
            if name not in taken.parameters:
                raise OpError(f"{function.__name__}: {no_argument(name, known)}")
        try:
            taken.bind(*args, **kwargs)
        except TypeError as error:
            raise OpError(
                f"{function.__name__}: {error}; its arguments are {_form(taken, function.__name__)}"
            ) from None
        return checked(*args, **kwargs)

    return call


def _form(taken: Signature, name: str) -> str:
    """Return a call with the names of all arguments, in which `*` stands before those that go by name."""
    by_name = [p.name for p in taken.parameters.values() if p.kind is Parameter.KEYWORD_ONLY]
    names = [f"*, {p}" if p in by_name[:1] else p for p in taken.parameters]
    return f"{name}({', '.join(names)})"


def program_of(what: str, x: Value) -> Program:
    """Return the program of a tensor, in which its layer declares states; raise OpError unless x has one."""
    if not isinstance(x, Value):  # pyright: ignore[reportUnnecessaryIsInstance]: users may not check types
        raise OpError(f"{what}: x is a {type(x).__name__} and not a tensor of a program; feed it as an input")
    program = x.block.program
    if not isinstance(program, Program):
        raise OpError(f"{what}: {x!r} belongs to a block without a program, so there is no place for states")
    return program


def channels(what: str, x: Value, rank: int = 2) -> int:
    """Return the extent of the last axis of x; raise OpError unless x is a float tensor of at least `rank` axes."""
    program_of(what, x)
    if x.dtype not in ("float32", "float64"):
        refuse(x, f"{what}: x is {x.type}, and a layer computes with floats; cast it first")
    if x.rank < rank:
        refuse(x, f"{what}: x is {x.type} and has {x.rank} axes, not {rank} or more: rows first, channels last")
    size = x.shape[-1]
    if isinstance(size, str):
        refuse(x, f"{what}: x is {x.type}, whose last extent is the symbol {size!r}; states have known sizes")
    return size


def require_beside(what: str, x: Value, other: Value) -> None:
    """Raise OpError unless `other` is a tensor of the program of x."""
    if program_of(what, other) is not program_of(what, x):
        refuse(x, f"{what}: {other!r} belongs to another program; build both in one")


def refuse(x: Value, message: str) -> NoReturn:
    """Raise OpError with the user's line before the message."""
    line = x.block.line()
    raise OpError(f"{line}: {message}" if line else message)
