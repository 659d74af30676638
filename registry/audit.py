"""Checks of all operators, run once when this module is imported.

Every operator has a docstring, and its traits fit its operands. Every rule names only parameters that exist (checked
when it is attached), uses the gradient of every output that may have one, and calls only names that its module defines.
"""

from __future__ import annotations

import builtins
import dis
import sys
from collections.abc import Callable
from typing import Any

from registry.errors import OpError
from registry.op import OPS, Op, rule_names


def audit() -> None:
    """Check every operator. Raise OpError with the first fault."""
    for op in OPS.values():
        audit_op(op)


def audit_op(op: Op[..., Any]) -> None:
    """Check one operator. Raise OpError if it is declared wrongly."""
    if not op.__doc__ and sys.flags.optimize < 2:  # python -OO leaves docstrings out
        raise OpError(f"operator {op.name!r} has no docstring; say in a line what it computes")
    _traits_fit(op)
    for rule in (op.gradient_rule, op.inference_rule):
        if rule is not None:
            _names_are_defined(op, rule)
    if op.gradient_rule is None:
        return
    if not op.differentiable:
        raise OpError(f"operator {op.name!r} is declared non-differentiable and has a gradient rule")
    needed = {f"d{name}" for name in op.signature.outputs if name not in op.no_gradient}
    missing = needed - set(rule_names(op.gradient_rule))
    if missing:
        raise OpError(
            f"the gradient of {op.name!r} ignores {sorted(missing)}; use it or name the output in no_gradient"
        )


def _traits_fit(op: Op[..., Any]) -> None:
    """Raise OpError if a trait requires other operands or attributes than an operator has."""
    one = ("copies", "idempotent", "involution", "keeps_single")
    inputs = dict.fromkeys(one, 1) | {"identity_operand": 2}
    for trait, count in inputs.items():
        if getattr(op.traits, trait) and len(op.signature.inputs) != count:
            raise OpError(f"operator {op.name!r} has the trait {trait!r}, which is for operators of {count} inputs")
    if op.traits.keeps_single and "axes" not in op.signature.attributes:
        raise OpError(f"operator {op.name!r} has the trait 'keeps_single', and no attribute 'axes'")


def _names_are_defined(op: Op[..., Any], rule: Callable[..., Any]) -> None:
    for instruction in dis.get_instructions(rule):
        name = instruction.argval
        if instruction.opname == "LOAD_GLOBAL" and name not in rule.__globals__ and not hasattr(builtins, name):
            raise OpError(f"a rule of {op.name!r} calls {name!r}, which its module does not define")
