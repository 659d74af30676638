"""What a layer asks of the tensor that it is given: that it is one, of floats, with a number of channels."""

from __future__ import annotations

from typing import NoReturn

from prograd import OpError, Program, Value, initialisers

Initial = initialisers.Initialiser | initialisers.FromFile | None
"""The initial value of weights; None for the layer's own choice."""


def channels(program: Program, what: str, x: Value, rank: int = 2) -> int:
    """The extent of the last axis of x; raises OpError unless x has floats, so many axes or more, and that is known."""
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
