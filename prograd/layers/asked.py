"""Checks of a layer's arguments: known names, and a tensor x of floats with known channels."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import NoReturn, ParamSpec, TypeVar

from prograd import OpError, Program, Value, initialisers
from prograd.layers.other_names import no_argument

P = ParamSpec("P")
R = TypeVar("R")

Initial = initialisers.Initialiser | initialisers.FromFile | None
"""The initial value of weights; None for the layer's default."""


def layer(function: Callable[P, R]) -> Callable[P, R]:
    """Let a layer raise OpError, in one sentence, for unknown and missing arguments."""
    taken = signature(function)
    known = list(taken.parameters)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        for name in kwargs:
            if name not in taken.parameters:
                raise OpError(f"{function.__name__}: {no_argument(name, known)}")
        try:
            taken.bind(*args, **kwargs)
        except TypeError as error:
            form = f"{function.__name__}({', '.join(known)})"
            raise OpError(f"{function.__name__}: {error}; its arguments are {form}") from None
        return function(*args, **kwargs)

    return call


def channels(program: Program, what: str, x: Value, rank: int = 2) -> int:
    """Return the extent of the last axis of x; raise OpError unless x is a float tensor of at least `rank` axes."""
    tensor(program, what, x)
    if x.dtype not in ("float32", "float64"):
        refuse(program, f"{what}: x is {x.type}, and a layer computes with floats; cast it first")
    if x.rank < rank:
        refuse(program, f"{what}: x is {x.type} and has {x.rank} axes, not {rank} or more: rows first, channels last")
    size = x.shape[-1]
    if isinstance(size, str):
        refuse(program, f"{what}: x is {x.type}, whose last extent is the symbol {size!r}; states have known sizes")
    return size


def tensor(program: Program, what: str, x: Value) -> None:
    """Raise OpError unless x is a tensor of that program."""
    if not isinstance(program, Program):  # pyright: ignore[reportUnnecessaryIsInstance]: users may not check types
        raise OpError(f"a layer is given the program, a name and a tensor, in this order; {program!r} is no program")
    if not isinstance(x, Value):  # pyright: ignore[reportUnnecessaryIsInstance]: users may not check types
        refuse(program, f"{what}: x is a {type(x).__name__} and not a tensor of the program; feed it as an input")
    if x.block is not program.block:
        refuse(program, f"{what}: {x!r} belongs to another program")


def refuse(program: Program, message: str) -> NoReturn:
    """Raise OpError with the user's line before the message."""
    line = program.block.line()
    raise OpError(f"{line}: {message}" if line else message)
