"""The kinds of forms, and the table of them by operator.

    of_two("add", lambda a, b: a + b)

A pointwise form is an expression of its operands, vectors of the same lanes or values alone, in the order of the op;
an absent optional one is None. Attributes are keywords. It gives a value, or one for each output.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

from prograd_proto import TensorType
from runtime.codegen.ir import BOOL, DTYPES, Type, Value
from runtime.codegen.kernels.reduction import Reducer
from runtime.codegen.kernels.steps import KernelSteps
from runtime.codegen.machine import Target

Expression = Callable[..., Value | tuple[Value, ...]]

RULES: Final[dict[str, Rule]] = {}
"""Forms by the name of the operator."""

ALL_DTYPES: Final = frozenset(DTYPES)
COMPUTED_DTYPES: Final = ALL_DTYPES - {"float16", "bfloat16"}
"""Those that are computed in."""
FLOAT_DTYPES: Final = frozenset({"float32", "float64"})
NUMERIC_DTYPES: Final = COMPUTED_DTYPES - {"bool"}


@dataclass(frozen=True)
class Pointwise:
    """An op whose results are computed element by element.

    Attributes:
        expression: of the operands, and of what `uniforms` gives and the attributes by name.
        dtypes: of the operands for which there is code.
        uniforms: what is computed once for all elements, by name, from attributes and operands that are alone; others
            are None to it.
        indices: what the expression is given by name as `Indices`: indices of the result's axes, counted from the last
            one, -1; or ALL_AXES, one index for all of them.
        is_random: whether `uniforms` is given the number of the op's random stream, as `stream`.
        is_invalid: of the same as the expression, where there is a number that the op does not take.
    """

    expression: Expression
    dtypes: frozenset[str]
    uniforms: Callable[..., Mapping[str, Any]] | None = None
    indices: Mapping[str, int] = field(default_factory=dict[str, int])
    is_random: bool = False
    is_invalid: Callable[..., Value] | None = None

    def once(
        self, operands: Sequence[Value | None], attributes: Mapping[str, Any], stream: Value | None = None
    ) -> dict[str, Any]:
        """What the expression is given by name besides its operands: to be called outside of the loop."""
        if self.uniforms is None:
            return dict(attributes)
        alone = [x if x is not None and not x.type.lanes else None for x in operands]
        more = {"stream": stream} if self.is_random else {}
        return {**attributes, **self.uniforms(*alone, **attributes, **more)}

    def of(self, operands: Sequence[Value | None], names: Mapping[str, Any]) -> tuple[Value, ...]:
        """The results of these operands, one for each output; `names` is what `once` gave."""
        results = self.expression(*operands, **names)
        return results if isinstance(results, tuple) else (results,)


class Factors(NamedTuple):
    """A product as loops: the sum over the depth of left times right, for every element of the result.

    Attributes:
        depth: how long the sum is.
        left: elements from one place to the next in the first operand, for every axis of the result and the depth.
        right: likewise in the second one.
    """

    depth: int
    left: tuple[int, ...]
    right: tuple[int, ...]


@dataclass(frozen=True)
class Product:
    """A sum over a depth of products of two operands.

    Attributes:
        factors: from how they lie in memory and the attributes by name; None if there is no code for that.
        dtypes: of the operands.
    """

    factors: Callable[..., Factors | None]
    dtypes: frozenset[str] = FLOAT_DTYPES


def as_read(element: Type) -> Type:
    """Joined as it is read; a bool as a byte."""
    return BOOL if element.kind == "mask" else element


@dataclass(frozen=True)
class Reduction:
    """Elements along some axes joined into one.

    Attributes:
        reducer: how two become one.
        dtypes: of the operand.
        finish: the result from what is joined and how many elements it is of.
        accumulator_type: the type in which elements are joined, from that in which an expression has them.
    """

    reducer: Reducer
    dtypes: frozenset[str]
    finish: Callable[[Value, int], Value] = lambda x, count: x
    accumulator_type: Callable[[Type], Type] = as_read


class PlanSteps(Protocol):
    """How an op's work is divided."""

    def __call__(
        self,
        target: Target,
        inputs: Sequence[TensorType | None],
        outputs: Sequence[TensorType],
        attributes: Mapping[str, Any],
    ) -> KernelSteps:
        """The stages for operands and results of these types."""
        ...


@dataclass(frozen=True)
class CustomKernel:
    """An op with loops of its own.

    Attributes:
        plan: how its work is divided and written.
        dtypes: of the operands.
        supports: whether there is code for operands and results of these types and these attributes; else a NumPy
            kernel
            computes it. None of them is without elements.
        takes_epilogue: whether its result, one of channels last, goes through `Work.finish`, so that pointwise ops may
            follow; else no other op joins.
        plan_with_prologue: its stages where its first operand is made as it is copied, see `Work.made`; None if it
            copies nothing.
        variant: what sets it apart from the form of the op, where a pass put it in its place.
        joined: what the kernel computes besides the op, or instead of a part of it, where a pass joined ops with it.
    """

    plan: PlanSteps
    dtypes: frozenset[str] = FLOAT_DTYPES
    supports: Callable[[Sequence[TensorType | None], Sequence[TensorType], Mapping[str, Any]], bool] = (
        lambda inputs, outputs, attributes: True
    )
    takes_epilogue: bool = False
    plan_with_prologue: (
        Callable[[Target, Sequence[TensorType], Sequence[TensorType], Mapping[str, Any]], KernelSteps | None] | None
    ) = None
    variant: str = ""
    joined: tuple[str, ...] = ()


@dataclass(frozen=True)
class Decomposition:
    """An op that is read as others.

    Attributes:
        decompose: writes them: of a Composition, the operands as its parts and the attributes by name; gives the
            results.
        dtypes: of the operands.
        supports: as of Loops.
    """

    decompose: Callable[..., Any]
    dtypes: frozenset[str] = FLOAT_DTYPES
    supports: Callable[[Sequence[TensorType | None], Sequence[TensorType], Mapping[str, Any]], bool] = (
        lambda inputs, outputs, attributes: True
    )


Rule = Pointwise | Product | Reduction | CustomKernel | Decomposition


def pointwise(
    name: str,
    expression: Expression,
    dtypes: Collection[str] = COMPUTED_DTYPES,
    uniforms: Callable[..., Mapping[str, Any]] | None = None,
    indices: Mapping[str, int] | None = None,
    *,
    is_random: bool = False,
) -> None:
    """Declare the form of an operator."""
    RULES[name] = Pointwise(expression, frozenset(dtypes), uniforms, indices or {}, is_random)


def of_one(name: str, expression: Callable[[Value], Value], dtypes: Collection[str] = COMPUTED_DTYPES) -> None:
    """Declare the form of an operator with one operand and no attributes."""
    pointwise(name, expression, dtypes)


def of_two(name: str, expression: Callable[[Value, Value], Value], dtypes: Collection[str] = COMPUTED_DTYPES) -> None:
    """Declare the form of an operator with two operands and no attributes."""
    pointwise(name, expression, dtypes)


def rule_of(operator: str, dtypes: Sequence[str]) -> Rule | None:
    """The form of an operator for operands of these dtypes, if there is one."""
    rule = RULES.get(operator)
    return rule if rule is not None and rule.dtypes.issuperset(dtypes) else None
