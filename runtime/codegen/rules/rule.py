"""The kinds of lowering rules, and the table of rules by operator.

    of_two("add", lambda a, b: a + b)

A pointwise rule is a function from the op's operands, in their order, to the result, or to a tuple of results. An
operand is a scalar or a vector, all vectors with equal lanes; an absent optional operand is None. Attributes are
keywords.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from runtime.codegen.ir import BOOL, DTYPES, Index, Type, Value
from runtime.codegen.kernels.moves import Layout
from runtime.codegen.kernels.op_types import OpTypes
from runtime.codegen.kernels.reduction import Reducer
from runtime.codegen.kernels.steps import KernelContext, KernelSteps, Read
from runtime.codegen.machine import Target

Expression = Callable[..., Value | tuple[Value, ...]]

RULES: Final[dict[str, Rule]] = {}
"""Lowering rules by the name of the operator; "NAME of bfloat16" is the rule for a first operand of bfloat16."""

ALL_DTYPES: Final = frozenset(DTYPES)
COMPUTED_DTYPES: Final = ALL_DTYPES - {"float16", "bfloat16"}
"""Dtypes of arithmetic."""
FLOAT_DTYPES: Final = frozenset({"float32", "float64"})
NUMERIC_DTYPES: Final = COMPUTED_DTYPES - {"bool"}


@dataclass(frozen=True)
class Pointwise:
    """An op whose results are computed element by element.

    Attributes:
        expression: function from the operands to the results; attributes and results of `uniforms` are its keywords.
        dtypes: supported dtypes of the operands.
        uniforms: function from scalar operands, None for others, and attributes to values by name, which all elements
            share and which are computed once, before the loop.
        indices: keywords of the expression that receive `Indices`: for each, an axis of the result from the end, as -1,
            or ALL_AXES for the row-major index.
        is_random: True if `uniforms` gets the number of the op's random stream, as `stream`.
        is_invalid: function of the arguments of the expression; returns a mask of the elements that the op refuses.
    """

    expression: Expression
    dtypes: frozenset[str]
    uniforms: Callable[..., Mapping[str, Any]] | None = None
    indices: Mapping[str, int] = field(default_factory=dict[str, int])
    is_random: bool = False
    is_invalid: Callable[..., Value] | None = None

    def named_values(
        self, operands: Sequence[Value | None], attributes: Mapping[str, Any], stream: Value | None = None
    ) -> dict[str, Any]:
        """Return the keyword arguments of the expression; call this outside of the loop."""
        if self.uniforms is None:
            return dict(attributes)
        alone = [x if x is not None and not x.type.lanes else None for x in operands]
        more = {"stream": stream} if self.is_random else {}
        return {**attributes, **self.uniforms(*alone, **attributes, **more)}

    def evaluate(self, operands: Sequence[Value | None], names: Mapping[str, Any]) -> tuple[Value, ...]:
        """Return the results for these operands, one for each output; `names` is the result of `named_values`."""
        results = self.expression(*operands, **names)
        return results if isinstance(results, tuple) else (results,)


def numbers(operands: Sequence[Value | None], count: int) -> list[Value]:
    """Return the last `count` of a rule's operands, which have one element each."""
    found = [x for x in operands[-count:] if x is not None]
    assert len(found) == count, "they are scalars that the op has"
    return found


class Factors(NamedTuple):
    """A product as loops: a sum over the depth of left times right, for every element of the result.

    Attributes:
        depth: length of the sum.
        left: strides of the first operand, in elements, for every axis of the result and the depth.
        right: strides of the second operand.
    """

    depth: int
    left: tuple[int, ...]
    right: tuple[int, ...]


@dataclass(frozen=True)
class Product:
    """A sum over a depth of products of two operands.

    Attributes:
        factors: function from layouts and attributes by name to the loops; None if there is no code for these layouts.
        dtypes: supported dtypes of the operands.
    """

    factors: Callable[..., Factors | None]
    dtypes: frozenset[str] = FLOAT_DTYPES


def as_read(element: Type) -> Type:
    """Return the type of an accumulator: that of the operand, and a byte for a bool."""
    return BOOL if element.kind == "mask" else element


@dataclass(frozen=True)
class Reduction:
    """A reduction along some axes.

    Attributes:
        reducer: the function that combines two elements, and its identity.
        dtypes: supported dtypes of the operand.
        finish: function from the reduced value and the number of elements to the result.
        accumulator_type: function from the type of an element in an expression to that of the accumulator.
    """

    reducer: Reducer
    dtypes: frozenset[str]
    finish: Callable[[Value, int], Value] = lambda x, count: x
    accumulator_type: Callable[[Type], Type] = as_read


@dataclass(frozen=True)
class Moment(Reduction):
    """The mean or the variance of the elements along the first axes, both of which one pass computes.

    The first operand has the elements. The second operand of a variance is their mean, for the order of nodes alone.
    A group has moments of one tensor, or no moments.

    Attributes:
        is_variance: True for the variance, divided by the number of elements.
    """

    is_variance: bool = False


PlanSteps = Callable[[Target, OpTypes], KernelSteps]
"""Plans the kernel steps of an op."""


class StridedPlan(NamedTuple):
    """The plan of a kernel that reads operands and writes results by strides, so that no op has to copy them.

    Attributes:
        can_read: function from the number of an operand and its layout; returns True if the kernel can read it in
            place.
        plan: like that of the rule, with the layouts of all operands, None for absent ones.
    """

    can_read: Callable[[int, Layout], bool]
    plan: Callable[[Target, OpTypes, Sequence[Layout | None]], KernelSteps]


class RowReader(NamedTuple):
    """The rows of the result of a kernel, for a product that computes them where it packs them; rows are last axes.

    Attributes:
        applies: function that returns True if rows of the result of these operands can be read.
        reader: function from the addresses of the operands, in order, to the function that computes vectors of rows.
        instructions: instructions for a vector; None if the rows are selected from a table, such as by `gather`: they
            are read only once, and no more of the table than the result has.
        few_rows: function from those arguments, a row and a number of rows to the function that computes vectors of
            these rows, faster than that of `reader` as it prepares them; None if there is nothing to prepare.
    """

    applies: Callable[[OpTypes], bool]
    reader: Callable[[KernelContext, OpTypes, Sequence[Value]], Read]
    instructions: int | None = None
    few_rows: Callable[[KernelContext, OpTypes, Sequence[Value], Index, int], Read] | None = None


@dataclass(frozen=True)
class CustomKernel:
    """An op with loops of its own.

    Attributes:
        plan: function that returns the kernel steps.
        dtypes: supported dtypes of the operands.
        supports: function that returns True if there is code for operands and results of these types and these
            attributes; otherwise a NumPy kernel computes the op. All types are non-empty.
        takes_epilogue: True if its result, with channels last, goes through `KernelContext.finish`, so that pointwise
            ops may follow; otherwise no other op joins the group.
        plan_with_prologue: function that returns kernel steps that compute the first operand while they copy it, see
            `KernelContext.computed_operand`; None if the kernel copies nothing.
        row_reader: how the op fills the producer slot of a product, if vectors of its rows can be computed alone.
        overwrites_first: True if the result may lie in the memory of the first operand: work items read rows of it that
            they write themselves, before they write them.
        is_random: True if the kernel reads the number of the op's random stream, as `KernelContext.stream`.
        strided: the plan for operands of other layouts; None if the kernel reads contiguous operands only.
        variant: name of the variant, if a pass replaced the rule of the op.
        rounds_results: True if the kernel rounds results whose type is bfloat16, where the operator has float32.
        joined: descriptions of ops that the kernel computes in addition, or of parts of the op that it leaves out, as
            `compiler show` prints them.
    """

    plan: PlanSteps
    dtypes: frozenset[str] = FLOAT_DTYPES
    supports: Callable[[OpTypes], bool] = lambda op: True
    takes_epilogue: bool = False
    plan_with_prologue: Callable[[Target, OpTypes], KernelSteps | None] | None = None
    row_reader: RowReader | None = None
    overwrites_first: bool = False
    is_random: bool = False
    strided: StridedPlan | None = None
    variant: str = ""
    rounds_results: bool = False
    joined: tuple[str, ...] = ()


@dataclass(frozen=True)
class Decomposition:
    """An op that is replaced by others.

    Attributes:
        decompose: function of a `DecompositionBuilder`, the operands as symbolic tensors and the attributes by name;
            returns the results.
        dtypes: supported dtypes of the operands.
        supports: as in `CustomKernel`.
    """

    decompose: Callable[..., Any]
    dtypes: frozenset[str] = FLOAT_DTYPES
    supports: Callable[[OpTypes], bool] = lambda op: True


Rule = Pointwise | Product | Reduction | CustomKernel | Decomposition


def is_random(rule: Rule | None) -> bool:
    """Return True if an op with this rule draws from its random stream."""
    return isinstance(rule, Pointwise | CustomKernel) and rule.is_random


def pointwise(
    name: str,
    expression: Expression,
    dtypes: Collection[str] = COMPUTED_DTYPES,
    uniforms: Callable[..., Mapping[str, Any]] | None = None,
    indices: Mapping[str, int] | None = None,
    *,
    is_random: bool = False,
) -> None:
    """Declare the lowering rule of an operator."""
    RULES[name] = Pointwise(expression, frozenset(dtypes), uniforms, indices or {}, is_random)


def of_one(name: str, expression: Callable[[Value], Value], dtypes: Collection[str] = COMPUTED_DTYPES) -> None:
    """Declare the lowering rule of an operator with one operand and no attributes."""
    pointwise(name, expression, dtypes)


def of_two(name: str, expression: Callable[[Value, Value], Value], dtypes: Collection[str] = COMPUTED_DTYPES) -> None:
    """Declare the lowering rule of an operator with two operands and no attributes."""
    pointwise(name, expression, dtypes)


def rule_of(operator: str, dtypes: Sequence[str]) -> Rule | None:
    """Return the lowering rule of an operator for operands of these dtypes; None if there is none."""
    of_bfloat16 = RULES.get(f"{operator} of bfloat16") if dtypes and dtypes[0] == "bfloat16" else None
    rule = of_bfloat16 or RULES.get(operator)
    return rule if rule is not None and rule.dtypes.issuperset(dtypes) else None
