"""Regions of `torch.no_grad`, from which no gradient may flow: torch.export drops them when it splits up operators.

1. The operands of a region that it does not write are detached where the region begins.
2. Its results are detached, too: they may come from a buffer that the region writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from compiler.frontends.torch.nodes import REGION, has_fractions, written


def keep_regions(torch: Any, graph: Any) -> None:
    """Detach, in place, the operands and results of all regions of an ExportedProgram that record no gradient."""
    for owner, node in list(_regions(graph)):
        inner = getattr(owner, node.args[1].target)
        for operand in [x for x in inner.graph.nodes if x.op == "placeholder"]:
            if has_fractions(operand) and not any(_writes(user, operand) for user in operand.users):
                _detach(torch, inner.graph, operand, after=operand)
        [*_, output] = inner.graph.nodes
        for result in output.all_input_nodes:
            if has_fractions(result):
                _detach(torch, inner.graph, result, only=output)
        inner.recompile()


def _regions(graph: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each node that runs a region without gradients, with the module of its graph."""
    for module in graph.graph_module.modules():
        for node in getattr(getattr(module, "graph", None), "nodes", ()):
            if str(node.target) == REGION and node.args[0] is False:
                yield module, node


def _writes(user: Any, operand: Any) -> bool:
    """Return True if an operator writes into one of its operands."""
    return any(x is operand for x in written(user.target, user.args, user.kwargs))


def _detach(torch: Any, graph: Any, node: Any, *, after: Any = None, only: Any = None) -> None:
    """Replace a node by its detached value, for all of its users or for one."""
    with graph.inserting_after(after) if after is not None else graph.inserting_before(only):
        made = graph.call_function(torch.ops.aten.detach.default, (node,))
    made.meta.update(node.meta)
    users = [user for user in node.users if user is not made and (only is None or user is only)]
    for user in users:
        user.replace_input_with(node, made)
