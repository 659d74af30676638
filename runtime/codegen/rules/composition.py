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
from runtime.codegen.rules.form import ALL, FORMS, Expression, Pointwise, Reduction


class Part(NamedTuple):
    """A tensor of a composition."""

    name: str
    type: TensorType


class Spelled(NamedTuple):
    """One op of a composition, and the how many'th it is, those that are shared included."""

    number: int
    form: Pointwise | Reduction
    inputs: tuple[str, ...]
    output: Part
    attributes: dict[str, Any]


@dataclass
class Composition:
    """The parts of one op, while they are written.

    Attributes:
        stem: what names of parts begin with.
        known: parts by how they were made, of this op and of those beside it that may be shared.
        steps: ops that were written, in order.
        views: tensors that are others, in another shape perhaps, and those.
        types: of all new tensors.
    """

    stem: str
    known: dict[Any, Part]
    steps: list[Spelled] = field(default_factory=list[Spelled])
    views: dict[str, str] = field(default_factory=dict[str, str])
    types: dict[str, TensorType] = field(default_factory=dict[str, TensorType])
    _number: int = 0

    def each(self, expression: Expression, *operands: Part, dtype: DTypeName | None = None, **attributes: Any) -> Part:
        """Element by element; operands broadcast, and the result is of this dtype or the first operand's."""
        return self.of(Pointwise(expression, ALL), *operands, dtype=dtype, **attributes)

    def of(
        self,
        form: Pointwise,
        *operands: Part,
        dtype: DTypeName | None = None,
        shape: Sequence[int] | None = None,
        **attributes: Any,
    ) -> Part:
        """Likewise, by a form that asks for more than its operands; the result may be of another shape."""
        shape = shape or np.broadcast_shapes(*(x.type.static_shape for x in operands))
        type = TensorType(dtype or operands[0].type.dtype, tuple(shape))
        return self._made_by(form.expression, form, operands, type, attributes)

    def join(self, name: str, x: Part, axes: Sequence[int], *, keepdims: bool = True) -> Part:
        """What elements along axes become by the reduction of this name."""
        form = FORMS[name]
        assert isinstance(form, Reduction), f"{name} joins nothing"
        gone = {axis % x.type.rank for axis in axes}
        shape = tuple(1 if i in gone else n for i, n in enumerate(x.type.static_shape) if keepdims or i not in gone)
        attributes = {"axes": tuple(sorted(gone)), "keepdims": keepdims}
        return self._made_by(name, form, (x,), TensorType(x.type.dtype, shape), attributes)

    def mean(self, x: Part, axes: Sequence[int], *, keepdims: bool = True) -> Part:
        """The mean along axes."""
        return self.join("mean", x, axes, keepdims=keepdims)

    def view(self, x: Part, shape: Sequence[int]) -> Part:
        """The same elements in another shape."""
        key = ("view", x.name, tuple(shape))
        if key not in self.known:
            self.known[key] = self._part(TensorType(x.type.dtype, tuple(shape)))
            self.views[self.known[key].name] = x.name
        return self.known[key]

    def _made_by(
        self,
        what: object,
        form: Pointwise | Reduction,
        operands: Sequence[Part],
        type: TensorType,
        more: dict[str, Any],
    ) -> Part:
        inputs = tuple(x.name for x in operands)
        key = (what, inputs, tuple(more.items()), type)
        self._number += 1
        if key not in self.known:
            self.known[key] = self._part(type)
            self.steps.append(Spelled(self._number, form, inputs, self.known[key], more))
        return self.known[key]

    def _part(self, type: TensorType) -> Part:
        part = Part(f"{self.stem} part {len(self.types) + 1}", type)
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
