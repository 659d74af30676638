"""Errors and results of NumPy calls and idioms on a Value: np.exp(x), x.sum(), np.float32(2) * x."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

from prograd_proto.spelling import nearest
from registry.table import OPS, SPELLED
from registry.value import Value

NO_ELEMENTS: Final = "has no elements while the program is built"

_REFLECTED: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "add": Value.__radd__,
    "subtract": Value.__rsub__,
    "multiply": Value.__rmul__,
    "divide": Value.__rtruediv__,
    "floor_divide": Value.__rfloordiv__,
    "remainder": Value.__rmod__,
    "power": Value.__rpow__,
    "matmul": Value.__rmatmul__,
    "less": operator.gt,
    "less_equal": operator.ge,
    "greater": operator.lt,
    "greater_equal": operator.le,
    "equal": operator.is_,
    "not_equal": operator.is_not,
    "bitwise_and": Value.__rand__,
    "bitwise_or": Value.__ror__,
    "bitwise_xor": Value.__rxor__,
    "left_shift": Value.__rlshift__,
    "right_shift": Value.__rrshift__,
}
"""Methods of the right operand that Python calls for an operator, by the name of NumPy's function."""


def called(value: Value, name: str, method: str, operands: Sequence[Any]) -> Any:
    """Return `value` combined with the NumPy number on its left; raise TypeError for any other call."""
    if method == "__call__" and name in _REFLECTED and len(operands) == 2 and not isinstance(operands[0], Value):
        number = operands[0][()] if getattr(operands[0], "shape", None) == () else operands[0]  # comparisons wrap it
        return _REFLECTED[name](value, number)
    raise TypeError(refusal(value, name))


def refusal(value: Value, name: str) -> str:
    """Return a sentence that says that NumPy functions take arrays, and which operator to use."""
    return f"np.{name} computes with arrays, and {value!r} {NO_ELEMENTS}{_instead(name, 'x')}"


def no_attribute(value: Value, name: str) -> str:
    """Return the sentence for a method that a Value lacks, with the operator to use instead."""
    if name.startswith("__") or name in Value.__slots__:  # for copying and pickling, even incomplete ones
        return name
    from registry.other_names import OTHER_METHODS

    hint = f"; {OTHER_METHODS[name]}" if name in OTHER_METHODS else _instead(name, "x") or _mistyped(name)
    return f"{value!r} has no attribute {name!r}{hint}"


def _mistyped(name: str) -> str:
    """Return the closest attribute of Value, or the closest operator that array users call as a method."""
    own = [word for word in dir(Value) if not word.startswith("_")]
    near = nearest(name, [*own, *OPS])
    meant = f"x.{near}" if near in own else f"ops.{near}(x)"
    return f"; did you mean {meant}?" if near else ""


def _instead(name: str, operand: str) -> str:
    from registry.other_names import OTHER_NAMES

    if name in OTHER_NAMES:
        return f"; write {OTHER_NAMES[name]}"
    return f"; write ops.{name}({operand})" if name in OPS or name in SPELLED else ""
