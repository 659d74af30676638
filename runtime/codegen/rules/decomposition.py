"""Decompositions: rules that replace an op by several others.

    def rms(c, x, *, axis, epsilon):
        square = c.mean(c.elementwise(squared, x), (axis,))
        return c.elementwise(scaled, x, c.elementwise(inverse_root, square, epsilon=epsilon))

The ops of a decomposition are fused like ops of the block, with each other and with the ops around them. Expressions
are functions of a module, not created for each op. Therefore two neighbouring ops that begin alike, such as softmax and
cross entropy, share their common ops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from prograd_proto import TensorType
from prograd_proto.dtypes import DTypeName
from runtime.codegen.ir import Value
from runtime.codegen.rules.reductions import MEAN_OF_BATCH, VARIANCE_OF_BATCH
from runtime.codegen.rules.rule import COMPUTED_DTYPES, RULES, Expression, Pointwise, Reduction


class SymbolicTensor(NamedTuple):
    """A tensor of a decomposition."""

    name: str
    type: TensorType


class DecomposedOp(NamedTuple):
    """One op of a decomposition.

    Attributes:
        number: its position from 1; ops shared with an earlier decomposition are counted too.
        name: name of the reduction, or of the function of a pointwise expression.
        rule: its lowering rule.
        inputs: names of its operands.
        output: its result.
        attributes: attributes by name.
    """

    number: int
    name: str
    rule: Pointwise | Reduction
    inputs: tuple[str, ...]
    output: SymbolicTensor
    attributes: dict[str, Any]


@dataclass
class DecompositionBuilder:
    """The ops of one decomposition under construction.

    Attributes:
        stem: beginning of the names of tensors.
        known: tensors by how they were computed, of this op and of neighbours that may share them.
        steps: ops in order.
        views: names of tensors that are views, and the tensors that they view.
        types: types of all new tensors.
    """

    stem: str
    known: dict[Any, SymbolicTensor]
    steps: list[DecomposedOp] = field(default_factory=list[DecomposedOp])
    views: dict[str, str] = field(default_factory=dict[str, str])
    types: dict[str, TensorType] = field(default_factory=dict[str, TensorType])
    _number: int = 0

    def elementwise(
        self, expression: Expression, *operands: SymbolicTensor, dtype: DTypeName | None = None, **attributes: Any
    ) -> SymbolicTensor:
        """Compute an expression element by element; the result has `dtype`, or the dtype of the first operand."""
        return self.of(Pointwise(expression, COMPUTED_DTYPES), *operands, dtype=dtype, **attributes)

    def of(
        self,
        rule: Pointwise,
        *operands: SymbolicTensor,
        dtype: DTypeName | None = None,
        shape: Sequence[int] | None = None,
        **attributes: Any,
    ) -> SymbolicTensor:
        """Compute a pointwise rule, which may use indices; the result may have another shape."""
        shape = shape or np.broadcast_shapes(*(x.type.static_shape for x in operands))
        type = TensorType(dtype or operands[0].type.dtype, tuple(shape))
        return self._made_by(rule.expression, rule, operands, type, attributes)

    def reduce(self, name: str, x: SymbolicTensor, axes: Sequence[int], *, keepdims: bool = True) -> SymbolicTensor:
        """Reduce along axes by the reduction operator of this name."""
        rule = RULES[name]
        assert isinstance(rule, Reduction), f"{name} joins nothing"
        return self._reduced(name, rule, (x,), axes, keepdims=keepdims)

    def _reduced(
        self, name: str, rule: Reduction, operands: tuple[SymbolicTensor, ...], axes: Sequence[int], *, keepdims: bool
    ) -> SymbolicTensor:
        x = operands[0]
        gone = {axis % x.type.rank for axis in axes}
        shape = tuple(1 if i in gone else n for i, n in enumerate(x.type.static_shape) if keepdims or i not in gone)
        attributes = {"axes": tuple(sorted(gone)), "keepdims": keepdims}
        return self._made_by(name, rule, operands, TensorType(x.type.dtype, shape), attributes)

    def mean(self, x: SymbolicTensor, axes: Sequence[int], *, keepdims: bool = True) -> SymbolicTensor:
        """Return the mean along axes."""
        return self.reduce("mean", x, axes, keepdims=keepdims)

    def moments(self, x: SymbolicTensor, axes: Sequence[int]) -> tuple[SymbolicTensor, SymbolicTensor]:
        """Return the mean and the variance along the first axes, which one pass computes."""
        mean = self._reduced("batch_mean", MEAN_OF_BATCH, (x,), axes, keepdims=False)
        return mean, self._reduced("batch_variance", VARIANCE_OF_BATCH, (x, mean), axes, keepdims=False)

    def view(self, x: SymbolicTensor, shape: Sequence[int]) -> SymbolicTensor:
        """Return the same elements in another shape."""
        key = ("view", x.name, tuple(shape))
        if key not in self.known:
            self.known[key] = self._part(TensorType(x.type.dtype, tuple(shape)))
            self.views[self.known[key].name] = x.name
        return self.known[key]

    def _made_by(
        self,
        what: str | Expression,
        rule: Pointwise | Reduction,
        operands: Sequence[SymbolicTensor],
        type: TensorType,
        more: dict[str, Any],
    ) -> SymbolicTensor:
        inputs = tuple(x.name for x in operands)
        key = (what, inputs, tuple(more.items()), type)
        self._number += 1
        if key not in self.known:
            self.known[key] = self._part(type)
            name = what if isinstance(what, str) else getattr(what, "__name__", "expression").strip("_<>")
            self.steps.append(DecomposedOp(self._number, name, rule, inputs, self.known[key], more))
        return self.known[key]

    def _part(self, type: TensorType) -> SymbolicTensor:
        part = SymbolicTensor(f"{self.stem} part {len(self.types) + 1}", type)
        self.types[part.name] = type
        return part


# Expressions that several decompositions use.


def difference(x: Value, y: Value) -> Value:
    """Subtract the second number from the first."""
    return x - y


def product(x: Value, y: Value) -> Value:
    """Multiply two numbers."""
    return x * y


def total(x: Value, y: Value) -> Value:
    """Add two numbers."""
    return x + y


def squared(x: Value) -> Value:
    """Return the square of a number."""
    return x * x
