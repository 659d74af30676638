"""Patterns of several nodes that one op computes better, found by looking at the nodes before the last one.

1. floor(p + rand()) is a draw of ones with probability p: stochastic depth, which outside training is its mean.
2. 0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3))) and its form 0.797 * x * (1 + 0.044715 * x * x) inside
   are `gelu` with approximate="tanh", and 0.5 * x * (1 + erf(x / sqrt(2))) is `gelu`: Hendrycks and Gimpel, 2016.

The nodes before the last one are imported as well; the compiler removes those that nothing reads.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from compiler.frontends.arranged import Arranged, pointwise
from compiler.frontends.torch.operators.call import Call
from compiler.frontends.torch.operators.random import drawn
from registry import ops

MAX_DIFFERENCES: Final = {"float64": 1e-15}
"""Largest accepted relative error of a rounded constant, such as 0.79788456, for each dtype."""

MAX_DIFFERENCE: Final = 1e-5
"""The relative difference for the other dtypes."""


def folded(node: Any, values: Mapping[str, Any], call: Call) -> Arranged | None:
    """Return the result of a pattern that ends with this node; None if there is none."""
    if str(node.target) == "aten.floor.default":
        chance = _number_of_draw(node.args[0])
        return None if chance is None else drawn(call, chance)
    if _named(node, "mul"):
        most = MAX_DIFFERENCES.get(call.dtype, MAX_DIFFERENCE)
        a, b = node.args[:2]
        found = _gelu(a, b, most) or _gelu(b, a, most)
        x, approximate = (values.get(found[0].name), found[1]) if found else (None, "")
        if isinstance(x, Arranged):
            return pointwise(lambda v: ops.gelu(v, approximate=approximate), x)
    return None


def _number_of_draw(node: Any) -> float | None:
    """Return p of p + rand()."""
    if not _named(node, "add"):
        return None
    draw, chance = node.args[:2]
    if isinstance(draw, int | float):
        draw, chance = chance, draw
    is_draw = isinstance(chance, int | float) and str(getattr(draw, "target", "")) == "aten.rand.default"
    return chance if is_draw else None


def _gelu(half: Any, gate: Any, most: float) -> tuple[Any, str] | None:
    """Return x and the approximation of 0.5 * x times 1 + a function; None if the operands are others."""
    x, inside = _without(half, "mul", 0.5, most), _without(gate, "add", 1.0, most)
    if x is None or inside is None:
        return None
    if _named(inside, "erf") and _is_over_root(inside.args[0], x, most):
        return x, "none"
    return (x, "tanh") if _named(inside, "tanh") and _is_cubic(inside.args[0], x, most) else None


def _is_over_root(node: Any, x: Any, most: float) -> bool:
    """Return True for x / sqrt(2)."""
    return _without(node, "mul", math.sqrt(0.5), most) is x or (
        _named(node, "div") and node.args[0] is x and _is_near(node.args[1], math.sqrt(2.0), most)
    )


def _is_cubic(node: Any, x: Any, most: float) -> bool:
    """Return True for sqrt(2 / pi) * (x + 0.044715 * x ** 3), and for its form with x before the bracket."""
    root = math.sqrt(2.0 / math.pi)
    total = _without(node, "mul", root, most)
    if _named(total, "add") and x in total.args[:2]:
        [*others] = [part for part in total.args[:2] if part is not x]
        cube = _without(others[0], "mul", 0.044715, most) if others else None
        return _named(cube, "pow") and [*cube.args[:2]] == [x, 3]  # pyright: ignore[reportOptionalMemberAccess]: a node
    for scaled, bracket in (node.args[:2], node.args[1::-1]) if _named(node, "mul") else ():
        square = _without(bracket, "add", 1.0, most)
        if _without(scaled, "mul", root, most) is x and _named(square, "mul") and x in square.args[:2]:
            first = square.args[0] if square.args[1] is x else square.args[1]
            return _without(first, "mul", 0.044715, most) is x
    return False


def _without(node: Any, name: str, number: float, most: float) -> Any:
    """Return the other operand of a sum or product with a number; None if the node is no such one."""
    if not _named(node, name):
        return None
    a, b = node.args[:2]
    return a if _is_near(b, number, most) else b if _is_near(a, number, most) else None


def _named(node: Any, name: str) -> bool:
    """Return True if a node calls an operator of this name, in any overload, without further arguments."""
    called = str(getattr(node, "target", "")).split(".")
    return called[:2] == ["aten", name] and not node.kwargs


def _is_near(x: Any, number: float, most: float) -> bool:
    return isinstance(x, int | float) and abs(x - number) <= most * number
