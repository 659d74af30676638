"""Calls of a module in both modes that run the same operators on the same tensors: then one graph serves both.

Most transformers without dropout do, and an export takes far longer than a call.
"""

# pyright: basic
# PyTorch is imported by name and has no types here.

from __future__ import annotations

from importlib import import_module
from typing import Any

from compiler.frontends.torch.checks.calls import kept_tensors, results_of
from compiler.frontends.torch.modes import in_evaluation
from compiler.frontends.torch.operators import control


def calls_are_same(torch: Any, module: Any, graph: Any, args: Any, keywords: Any) -> bool:
    """Return True if a call of a module as it is and one in evaluation run the same operators with the same operands.

    Args:
        torch: the package.
        module: the module, which is left as it was.
        graph: its exported graph, as it is.
        args: its positional arguments.
        keywords: its other arguments.
    """
    if any(str(node.target) in control.OPERATORS for node in graph.graph.nodes):
        return False  # PyTorch compiles these, which it cannot while operators are noted
    with kept_tensors(torch, module, graph) as tensors:
        try:
            first = _record(torch, module, args, keywords)
            tensors.restore()
            with in_evaluation(module):
                second = _record(torch, module, args, keywords)
        except Exception:  # of any class; the export tells what is wrong
            return False
    return first == second


def _record(torch: Any, module: Any, args: Any, keywords: Any) -> list[Any]:
    """Return the operators of a call with their operands; a tensor is the number of its result, or its address."""
    numbers = import_module("torch.utils.weak").WeakTensorKeyDictionary()
    found: list[Any] = []
    pytree = torch.utils._pytree

    def told(x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            return (type(x).__name__, str(x))
        return numbers.get(x, ("outside", x.data_ptr(), tuple(x.shape), str(x.dtype)))

    class Recorder(torch.utils._python_dispatch.TorchDispatchMode):
        """Notes each operator that runs."""

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            operands = [told(x) for x in pytree.tree_leaves((args, kwargs or {}))]
            made = func(*args, **(kwargs or {}))
            found.append((str(func), operands))
            for i, x in enumerate(pytree.tree_leaves(made)):
                if isinstance(x, torch.Tensor) and x not in numbers:
                    numbers[x] = (len(found), i)
            return made

    kept: list[Any] = []

    def called() -> Any:
        with Recorder():
            kept.append(module(*args, **keywords))
        return kept[0]

    results_of(torch, called)
    return [*found, [told(x) for x in pytree.tree_leaves(kept[0])]]
