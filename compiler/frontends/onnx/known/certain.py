"""Which numbers that nodes compute of sizes are known for all sizes, and which for the trial sizes only.

Sums, products and moves of sizes are polynomials, of which the trials see enough. A comparison, a minimum, a quotient
or a remainder is a step function of sizes. It is known if the trials agree in one of these forms, which leave no place
for a step between them:

1. Of a number that rises or falls with each symbol, a step lies between the least sizes and the largest, so the trial
   of ones and the trial of the largest sizes are on its two sides.
2. Two symbols are compared in both orders.
3. `a == b` is known if a lies on one side of b in all trials, as it may be true for one size.
4. A remainder is the same for 1 and 2 only if the divisor divides it for all sizes.

What is not known is computed when the program runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from compiler.errors import CompileError
from compiler.frontends.counted import without_repeats
from compiler.frontends.onnx.known.constants import Constant, are_equal

POLYNOMIAL: Final = frozenset(
    [
        *["Add", "Sub", "Mul", "Neg", "Sum", "Mean", "MatMul", "Gemm", "Einsum", "CumSum"],
        *["ReduceSum", "ReduceMean", "ReduceProd", "ReduceSumSquare"],
        *["Identity", "Concat", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Expand", "Tile", "Split"],
        *["ConstantOfShape", "Range", "EyeLike", "Trilu", "Pad", "Slice", "Constant", "Shape", "Size"],
        *["DepthToSpace", "SpaceToDepth", "ReverseSequence"],
    ]
)
"""Operators whose results are polynomials of their operands, or their operands in other places."""

PICKED_BY: Final = {
    **{"Gather": 1, "GatherElements": 1, "GatherND": 1, "ScatterND": 1, "ScatterElements": 1, "Scatter": 1},
    **{"Where": 0, "Compress": 1},
}
"""Operators that move elements, with the number of the operand that chooses them; it must not depend on sizes."""

ELEMENTWISE: Final = frozenset(
    [
        *["Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal", "Not", "And", "Or", "Xor", "Where"],
        *["Max", "Min"],
        *["Clip", "Mod", "Div", "Pow", "Abs", "Sign", "Relu", "Sqrt", "Exp", "Log", "Reciprocal", "Floor", "Ceil"],
        *["Round", "Cast", "IsNaN", "IsInf", "Sigmoid", "Tanh", "Erf", "Sin", "Cos", "NonZero"],
    ]
)
"""Operators that need only one element of an operand whose elements are equal; NonZero makes a range of it."""


def is_certain(node: Any, operands: Sequence[Constant | None], results: Sequence[Constant | None]) -> bool:
    """Return True if results that were computed for the trial sizes are those of all sizes.

    Args:
        node: the node.
        operands: its operands.
        results: its results.
    """
    varying = [x is not None and not _is_one(x.trials) for x in operands]
    if not any(varying) or node.op_type in POLYNOMIAL:
        return True
    if node.op_type in PICKED_BY:
        at = PICKED_BY[node.op_type]
        return not varying[at] or _have_one_element(operands[at].trials) or _agree(results)  # type: ignore[union-attr]
    if node.op_type == "Cast" and all(y is None or _widens(operands[0], y) for y in results):
        return True
    if node.op_type == "Div" and not varying[1] and operands[0].trials[0].dtype.kind == "f":  # type: ignore[union-attr]
        return True
    if node.op_type in ELEMENTWISE and all(x is None or _have_one_element(x.trials) for x in operands):
        return True
    return _agree(results) and (node.op_type != "Equal" or _are_apart(operands))


def without_ones(constant: Constant) -> Constant:
    """Return a constant of sizes, without the trial in which all of them are 1."""
    at = constant.symbols.ones
    if len(constant.trials) <= at:
        return constant
    trials = list(constant.trials)
    trials[at] = trials[0]
    return replace(constant, trials=tuple(trials))


def _is_one(trials: Sequence[Any]) -> bool:
    return all(each is trials[0] for each in trials)


def _have_one_element(trials: Sequence[Any]) -> bool:
    """Return True if arrays of any shapes have the same element everywhere."""
    cut = [without_repeats(each) for each in trials if each.size]
    return bool(cut) and all(each.size == 1 for each in cut) and len({each.reshape(()).item() for each in cut}) == 1


def _widens(x: Any, y: Constant) -> bool:
    """Return True for a cast of integers or booleans to a number that is no narrow one."""
    return x.trials[0].dtype.kind in "iub" and y.dtype in ("int64", "float64", "float32", "int32")


def _agree(results: Sequence[Constant | None]) -> bool:
    """Return True if results were computed in all trials, and each element is one number or one product of symbols."""
    return all(y is None or _agrees(y) for y in results)


def _agrees(y: Constant) -> bool:
    if len(y.trials) < y.symbols.trials:
        return False
    if are_equal(y.trials):
        return True
    if any(each.shape != y.trials[0].shape for each in y.trials) or y.trials[0].dtype.kind not in "iuf":
        return False
    try:
        y.extents()
    except CompileError:
        return False
    return True


def _are_apart(operands: Sequence[Any]) -> bool:
    """Return True if each element of one operand is below, or above, that of the other in all trials."""
    a, b = operands
    if any(x.trials[0].dtype.kind not in "iuf" for x in operands):
        return False
    signs = [np.sign(p.astype(np.float64) - q.astype(np.float64)) for p, q in zip(a.trials, b.trials, strict=False)]
    return all(each.shape == signs[0].shape and np.array_equal(each, signs[0]) for each in signs)
