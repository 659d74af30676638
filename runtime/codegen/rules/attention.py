"""Attention and its gradient, which read operands and write results by strides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from runtime.codegen.kernels.attention import ResultPlace, backward, cached, can_read, forward
from runtime.codegen.kernels.moves import Layout
from runtime.codegen.kernels.op_types import OpTypes
from runtime.codegen.kernels.steps import KernelSteps
from runtime.codegen.machine import Target
from runtime.codegen.rules.rule import FLOAT_DTYPES, RULES, CustomKernel, StridedPlan

PLANS: Final = {"scaled_dot_product_attention": forward, "attention_gradient": backward}
"""The plan of each operator; its last operand is the mask."""

PAIR_DTYPES: Final = frozenset({"bfloat16", "float32", "bool"})
"""Dtypes of operands of bfloat16 and of their masks."""

JOINED_OPS: Final = {False: ("transpose", "concat"), True: ("transpose", "concat", "cast")}
"""Ops whose result attention can write, False for float32 and True for bfloat16; a cast is one to bfloat16."""

OPERANDS: Final = {"scaled_dot_product_attention": 3, "attention_gradient": 4}
"""Number of the operands of each operator before the mask."""

CACHED_OPERANDS: Final = range(1, 5)
"""Numbers of the operands of `cached_attention` that may have gaps: keys and values, new and cached."""


def attention_rule(
    operator: str, places: Sequence[ResultPlace] = (), joined: Sequence[str] = (), *, of_pairs: bool = False
) -> CustomKernel:
    """Return the lowering rule of an operator that writes its results at `places`.

    `joined` are the ops that would move or round them there; `of_pairs` is True for operands of bfloat16.
    """
    plan, operands = PLANS[operator], OPERANDS[operator]
    return CustomKernel(
        plan,
        PAIR_DTYPES if of_pairs else FLOAT_DTYPES | {"bool"},
        strided=_strided(plan, range(operands), places),
        variant=" ".join(f"{place.number}+{place.offset}@{place.layout.strides}" for place in places),
        joined=tuple(joined),
    )


def _strided(plan: Callable[..., KernelSteps], operands: range, *more: Sequence[ResultPlace]) -> StridedPlan:
    """Return the plan that reads the operands of these numbers by strides; `more` is what `plan` takes behind them."""

    def strided(target: Target, op: OpTypes, layouts: Sequence[Layout | None]) -> KernelSteps:
        given = [layout for layout in layouts[operands.start : operands.stop] if layout is not None]
        return plan(target, op, given, *more)

    def reads(number: int, layout: Layout) -> bool:
        return number in operands and can_read(layout)

    return StridedPlan(reads, strided)


for _operator in PLANS:
    RULES[_operator] = attention_rule(_operator)
    RULES[f"{_operator} of bfloat16"] = attention_rule(_operator, of_pairs=True)


RULES["cached_attention"] = CustomKernel(cached, FLOAT_DTYPES | {"int32"}, strided=_strided(cached, CACHED_OPERANDS))
