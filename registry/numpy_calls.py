"""Errors and results of NumPy calls and idioms on a Value: np.exp(x), x.sum(), np.float32(2) * x."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from prograd_proto.spelling import nearest
from registry.table import OPS, SPELLED

NO_ELEMENTS: Final = "has no elements while the program is built"

_REFLECTED: Final = {
    "add": "__radd__",
    "subtract": "__rsub__",
    "multiply": "__rmul__",
    "divide": "__rtruediv__",
    "floor_divide": "__rfloordiv__",
    "remainder": "__rmod__",
    "power": "__rpow__",
    "matmul": "__rmatmul__",
    "less": "__gt__",
    "less_equal": "__ge__",
    "greater": "__lt__",
    "greater_equal": "__le__",
    "bitwise_and": "__rand__",
    "bitwise_or": "__ror__",
    "bitwise_xor": "__rxor__",
    "left_shift": "__rlshift__",
    "right_shift": "__rrshift__",
}
"""Methods of the right operand that Python calls for an operator, by the name of NumPy's function."""

_OF_NUMBERS: Final = {"equal": False, "not_equal": True}
"""Results of comparisons with a number, which is never the tensor itself."""


def called(value: Any, name: str, method: str, operands: Sequence[Any]) -> Any:
    """Return a Value combined with the NumPy number on its left; raise TypeError for any other call."""
    if method != "__call__" or len(operands) != 2 or type(operands[0]) is type(value):
        raise TypeError(refusal(value, name))
    if name in _OF_NUMBERS:
        return _OF_NUMBERS[name]
    if name not in _REFLECTED:
        raise TypeError(refusal(value, name))
    number = operands[0][()] if getattr(operands[0], "shape", None) == () else operands[0]  # comparisons wrap it
    return getattr(value, _REFLECTED[name])(number)


def refusal(value: Any, name: str) -> str:
    """Return a sentence that says that NumPy functions take arrays, and which operator to use."""
    return f"np.{name} computes with arrays, and {value!r} {NO_ELEMENTS}{_instead(name)}"


def no_attribute(value: Any, name: str) -> str:
    """Return the sentence for a method that a Value lacks, with the operator to use instead."""
    if name.startswith("__") or name in object.__dir__(value):  # for copying and pickling, even incomplete ones
        return name
    from registry.other_names import OTHER_METHODS

    hint = f"; {OTHER_METHODS[name]}" if name in OTHER_METHODS else _instead(name) or _mistyped(value, name)
    return f"{value!r} has no attribute {name!r}{hint}"


def _mistyped(value: Any, name: str) -> str:
    """Return the closest attribute of Value, or the closest operator that array users call as a method."""
    own = [word for word in dir(value) if not word.startswith("_")]
    near = nearest(name, [*own, *OPS])
    meant = f"x.{near}" if near in own else f"ops.{near}(x)"
    return f"; did you mean {meant}?" if near else ""


def _instead(name: str) -> str:
    from registry.other_names import OTHER_NAMES

    if name in OTHER_NAMES:
        return f"; write {OTHER_NAMES[name]}"
    return f"; write ops.{name}(x)" if name in OPS or name in SPELLED else ""
