"""Ops spelled with others: what a composite form is written with.

    def rms(c, x, *, axis, epsilon):
        square = c.mean(c.each(squared, x), (axis,))
        return c.each(scaled, x, c.each(inverse_root, square, epsilon=epsilon))

The parts are fused as if they stood in the block: what one pass over rows needs is one pass, what comes before or after
may join. Expressions are functions of a module, not made anew for each op: two ops beside each other that begin alike,
as softmax and cross entropy do, share what they have in common.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from prograd_proto import TensorType
from prograd_proto.dtypes import DTypeName
from runtime.codegen.ir import Value
from runtime.codegen.rules.rule import COMPUTED_DTYPES, RULES, Expression, Pointwise, Reduction


class SymbolicTensor(NamedTuple):
    """A tensor of a composition."""

    name: str
    type: TensorType


class DecomposedOp(NamedTuple):
    """One op of a decomposition.

    Attributes:
        number: its number from 1, where ops that are shared with an earlier decomposition count.
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
    """The parts of one op, while they are written.

    Attributes:
        stem: what names of parts begin with.
        known: parts by how they were made, of this op and of those beside it that may be shared.
        steps: ops that were written, in order.
        views: tensors that are others, in another shape perhaps, and those.
        types: of all new tensors.
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
        """Element by element; operands broadcast, and the result is of this dtype or the first operand's."""
        return self.of(Pointwise(expression, COMPUTED_DTYPES), *operands, dtype=dtype, **attributes)

    def of(
        self,
        rule: Pointwise,
        *operands: SymbolicTensor,
        dtype: DTypeName | None = None,
        shape: Sequence[int] | None = None,
        **attributes: Any,
    ) -> SymbolicTensor:
        """Likewise, by a form that asks for more than its operands; the result may be of another shape."""
        shape = shape or np.broadcast_shapes(*(x.type.static_shape for x in operands))
        type = TensorType(dtype or operands[0].type.dtype, tuple(shape))
        return self._made_by(rule.expression, rule, operands, type, attributes)

    def reduce(self, name: str, x: SymbolicTensor, axes: Sequence[int], *, keepdims: bool = True) -> SymbolicTensor:
        """What elements along axes become by the reduction of this name."""
        rule = RULES[name]
        assert isinstance(rule, Reduction), f"{name} joins nothing"
        gone = {axis % x.type.rank for axis in axes}
        shape = tuple(1 if i in gone else n for i, n in enumerate(x.type.static_shape) if keepdims or i not in gone)
        attributes = {"axes": tuple(sorted(gone)), "keepdims": keepdims}
        return self._made_by(name, rule, (x,), TensorType(x.type.dtype, shape), attributes)

    def mean(self, x: SymbolicTensor, axes: Sequence[int], *, keepdims: bool = True) -> SymbolicTensor:
        """The mean along axes."""
        return self.reduce("mean", x, axes, keepdims=keepdims)

    def view(self, x: SymbolicTensor, shape: Sequence[int]) -> SymbolicTensor:
        """The same elements in another shape."""
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


# Expressions that several compositions have.


def difference(x: Value, y: Value) -> Value:
    """One less the other."""
    return x - y


def product(x: Value, y: Value) -> Value:
    """One times the other."""
    return x * y


def total(x: Value, y: Value) -> Value:
    """One and the other."""
    return x + y


def squared(x: Value) -> Value:
    """Times itself."""
    return x * x
