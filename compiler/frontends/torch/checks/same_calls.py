"""Calls of a module in both modes that run the same operators on the same tensors: then one graph serves both.

Most transformers without dropout do, and an export takes far longer than a call.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from compiler.frontends.torch.checks.calls import is_close, kept_tensors, results_of
from compiler.frontends.torch.modes import in_evaluation
from compiler.frontends.torch.operators import control


def changes_in_both(torch: Any, module: Any, graph: Any, args: Any, keywords: Any) -> list[str] | None:
    """Return the tensors that a call changes, if a call in evaluation runs the same operators with equal results.

    Return None if the two calls differ in anything.

    Args:
        torch: the package.
        module: the module, which is left as it was.
        graph: its exported graph, as it is.
        args: its positional arguments.
        keywords: its other arguments.
    """
    if any(str(node.target) in control.OPERATORS for node in graph.graph.nodes):
        return None  # PyTorch compiles these, which it cannot while operators are noted
    args, keywords = torch.utils._pytree.tree_map_only(torch.Tensor, lambda x: x.clone(), (args, keywords))
    with kept_tensors(torch, module, graph) as tensors:
        try:
            first, results = _record(torch, module, args, keywords)
            changed = tensors.changed()
            tensors.restore()
            with in_evaluation(module):
                second, others = _record(torch, module, args, keywords)
        except Exception:  # of any class; the export reports the fault
            return None
    is_same = first == second and all(is_close(torch, *pair) for pair in zip(results, others, strict=True))
    return changed if is_same else None


def _record(torch: Any, module: Any, args: Any, keywords: Any) -> tuple[list[Any], list[Any]]:
    """Return the operators of a call with their operands, and the tensors that it returns.

    An operand is described by the number of the result that it is, or else by its address.
    """
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

    results = results_of(torch, called)
    return [*found, [told(x) for x in pytree.tree_leaves(kept[0])]], results
