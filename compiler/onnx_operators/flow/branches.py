"""Conditions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from compiler.errors import CompileError
from compiler.frontends.arranged import arranged, plain
from compiler.frontends.onnx.known.constants import Constant
from compiler.frontends.onnx.node import Mapping, Node
from compiler.onnx_operators.flow.bodies import inside, ran
from prograd_proto import ProgramError
from registry import Value, ops


def _if(node: Node) -> tuple[Any, ...]:
    """Return the results of the branch that a constant chooses, or of an op that runs one of both branches."""
    condition = node.operands[0]
    branches = [node.attribute(name) for name in ("then_branch", "else_branch")]
    if isinstance(condition, Constant):
        return tuple(ran(node, branches[0 if bool(condition.array().reshape(())) else 1], []))
    usual = node.walk.by_sizes.get(node.inputs[0])
    if usual is None:
        return _chosen(node, branches)
    problems, updates = len(node.walk.problems), len(node.walk.updates)
    try:
        return _chosen(node, branches)
    except (ProgramError, CompileError):
        del node.walk.problems[problems:], node.walk.updates[updates:]
        node.walk.notes.append(_told_usual(node))
        return tuple(ran(node, branches[0 if bool(usual.array().reshape(())) else 1], []))


def _told_usual(node: Node) -> str:
    """Return the sentence about a branch that is left out because only sizes of 1 reach it."""
    names = ", ".join(node.walk.symbols.names)
    return (
        f"the branch of the If {node.outputs[0]!r} for a size of 1 is left out, as its results have another shape; "
        f"bind {names} by dims= or --dim where such a size is 1"
    )


def _chosen(node: Node, branches: Sequence[Any]) -> tuple[Any, ...]:
    """Return the results of an op that runs one of both branches, as its first operand says."""
    flag = ops.reshape(plain(node.tensor(0)), shape=())
    traced: list[tuple[Value, ...]] = []

    def results(branch: Any) -> tuple[Value, ...]:
        traced.append(inside(node, branch, []))
        return traced[-1]

    try:
        made = ops.cond(flag, *(lambda branch=branch: results(branch) for branch in branches))
    except ProgramError:
        for one, other in zip(*traced, strict=False) if len(traced) == 2 else ():
            if one.type != other.type and node.depends_on_sizes(0):
                raise CompileError(
                    f"its branches make {one.type} and {other.type}, and a result of a program has one type; its "
                    f"condition depends on the symbols {', '.join(node.walk.symbols.names)}, so bind them to numbers"
                ) from None
            if one.type != other.type:
                raise CompileError(
                    f"its branches make {one.type} and {other.type}, and a result of a program has one type; if the "
                    "condition is an input, give it by --constant NAME=VALUE"
                ) from None
        raise
    return tuple(map(arranged, made))


IMPORTS: Final[dict[str, Mapping]] = {"If": _if}
