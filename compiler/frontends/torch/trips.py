"""The number of trips of a counting loop: the operands of its condition are known while the module is imported.

1. The condition is split at its conjunctions: the loop ends when the first part is false.
2. A part is known if it reads only carries that begin as constants and whose next values depend on such carries alone.
3. Such carries are computed by PyTorch, trip by trip, until the part is false: no loop makes more trips.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from compiler.frontends.torch.constants import Constant

MAX_COUNTED: Final = 10_000
"""Trips after which a loop counts as unbounded."""

CONJUNCTIONS: Final = {"aten.logical_and.default", "aten.bitwise_and.Tensor", "aten.__and__.Tensor"}
"""Operators that are true if both of two conditions are."""


def most_trips(condition: Any, body: Any, operands: Sequence[Any], carries: int) -> int | None:
    """Return an upper bound of the trips of a loop; None if nothing known while it is imported ends it.

    Args:
        condition: the graph of the condition.
        body: the graph of a trip.
        operands: the first carries, and what all trips share.
        carries: the number of carries.
    """
    known = {
        i: x.trials[0]
        for i, x in enumerate(operands)
        if isinstance(x, Constant)
        and all(bool((t == x.trials[0]).all()) for t in x.trials if t.shape == x.trials[0].shape)
    }
    [*_, output] = condition.nodes
    parts = _parts(_only(output.args[0]))
    bounds = [_trips(condition, part, body, known, carries) for part in parts]
    return min((bound for bound in bounds if bound is not None), default=None)


def _parts(node: Any) -> list[Any]:
    """Return the conditions that a condition joins."""
    if str(getattr(node, "target", "")) in CONJUNCTIONS:
        return [part for operand in node.args for part in _parts(operand)]
    return [node]


def _trips(condition: Any, part: Any, body: Any, known: Mapping[int, Any], carries: int) -> int | None:
    values = dict(known)
    for trip in range(MAX_COUNTED + 1):
        going = _Evaluation(condition, values).value(part)
        if going is None:
            return None
        if not bool(going):
            return max(trip, 1)
        [*_, output] = body.nodes
        evaluation = _Evaluation(body, values)
        after = [evaluation.value(node) for node in output.args[0]]
        values = {i: x for i, x in enumerate(after) if x is not None} | {
            i: x for i, x in values.items() if i >= carries
        }
    return None


class _Evaluation:
    """The nodes of a graph that depend on known placeholders alone, computed when they are asked for."""

    def __init__(self, graph: Any, known: Mapping[int, Any]) -> None:
        placeholders = [node for node in graph.nodes if node.op == "placeholder"]
        self.values: dict[str, Any] = {node.name: known.get(i) for i, node in enumerate(placeholders)}

    def value(self, node: Any) -> Any:
        """Return the value of a node, None if it is not known; numbers are themselves."""
        if isinstance(node, list | tuple):
            each = [self.value(x) for x in node]
            return None if any(x is None for x in each) else each
        if not hasattr(node, "users"):
            return node
        if node.name not in self.values:
            self.values[node.name] = self._computed(node)
        return self.values[node.name]

    def _computed(self, node: Any) -> Any:
        if node.op != "call_function" or not str(node.target).startswith("aten."):
            return None
        if any("nondeterministic" in str(tag) for tag in node.target.tags):
            return None
        operands = [self.value(x) for x in node.args if x is not None]
        if any(x is None for x in operands):
            return None
        more = {key: self.value(x) for key, x in node.kwargs.items() if x is not None}
        return None if None in more.values() else node.target(*operands, **more)


def _only(node: Any) -> Any:
    return node[0] if isinstance(node, list | tuple) else node
