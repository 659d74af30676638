"""Functions that are composed of operators: they append existing ops, have no kernel and are not stored in a file.

They belong to a family of `registry/ops` like operators. Tensors are positional, and attributes are keyword-only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from prograd_proto.argument_kinds import with_kinds
from prograd_proto.result_types import Parameters, parameters_of
from registry.arrays import is_array
from registry.errors import OpError
from registry.other_names import attribute_by_name, no_attribute, too_many_tensors
from registry.table import SPELLED
from registry.value import Value

P = ParamSpec("P")
R = TypeVar("R")


def spelled(function: Callable[P, R]) -> Callable[P, R]:
    """Declare a function that is composed of operators, and describe its errors."""
    SPELLED[function.__name__] = described(function)
    return SPELLED[function.__name__]


def described(function: Callable[P, R]) -> Callable[P, R]:
    """Let the errors of a function of tensors begin with the user's line, its name and its operands."""
    taken = parameters_of(function)
    weights = {name for name, annotation in function.__annotations__.items() if annotation == "Weights | None"}
    checked = with_kinds(OpError, named=False)(function)
    optional = {name for name, default in taken.defaults.items() if default is None}

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        named = [
            (name, x) for name, x in _named(function, taken, args, kwargs) if x is not None or name not in optional
        ]
        for name, operand in named:
            if not isinstance(operand, Value) and not (is_array(operand) and name in weights):
                by_name = attribute_by_name(operand, taken.attributes) if name in optional or "[" in name else ""
                raise OpError(f"{function.__name__}: {name}={operand!r} is not a tensor of a program{by_name}")
        try:
            _require_call(taken, args, kwargs)
            return checked(*args, **kwargs)
        except OpError as error:
            raise OpError(_described(function.__name__, named, str(error))) from None

    return call


def _require_call(taken: Parameters, args: Sequence[Any], keywords: Mapping[str, Any]) -> None:
    """Raise OpError for an unknown attribute, a missing one, and one given without its name."""
    for name in keywords:
        if name not in (*taken.inputs, *taken.attributes):
            raise OpError(no_attribute(name, taken.attributes))
    if len(args) > len(taken.single) and not taken.variadic:
        raise OpError(too_many_tensors(taken.inputs, len(args), taken.attributes))
    given = {*keywords, *taken.single[: len(args)], *taken.defaults}
    for name in (*taken.single, *taken.attributes):
        if name not in given:
            if name in taken.attributes:
                raise OpError(f"the attribute {name!r} is missing; give it by name, as {name}=…")
            raise OpError(f"the operand {name!r} is missing")


def _named(
    function: Callable[..., Any], taken: Parameters, args: tuple[Any, ...], keywords: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    """Return the tensors of a call with their names, xs[0], xs[1] ... for variadic ones; text is no tensor."""
    for name, operand in zip(taken.single, args, strict=False):
        if function.__annotations__.get(name) != "str":
            yield name, operand
    for i, operand in enumerate(args[len(taken.single) :] if taken.variadic else ()):
        yield f"{taken.inputs[-1]}[{i}]", operand
    for name, operand in keywords.items():
        if name in taken.single and function.__annotations__.get(name) in ("Value", "Weights | None"):
            yield name, operand


def _described(name: str, operands: Sequence[tuple[str, Any]], message: str) -> str:
    operands = [(operand, value) for operand, value in operands if isinstance(value, Value)]
    shown = ", ".join(f"{operand}: {value.type}" for operand, value in operands)
    if not operands:
        return f"{name}: {message}"
    block = operands[0][1].block
    line = block.location_text(block.location())
    line = f"{line}: " if line else ""
    return f"{line}{name}({shown}): {message.removeprefix(line)}"
