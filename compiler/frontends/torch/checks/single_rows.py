"""One row: torch.export takes sizes with symbols for 2 or more, so the graph may do something else for 1.

Python code may ask for a size of 1, and `squeeze` drops such an axis. So the module and the graph of its evaluation are
called with one row of the examples.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compiler.frontends.torch.checks.calls import is_close, kept_tensors, results_of
from compiler.frontends.torch.modes import in_evaluation


def symbols_above_one(
    torch: Any, module: Any, graph: Any, args: Any, keywords: Any, symbols: Mapping[str, Mapping[int, str]]
) -> list[str]:
    """Return the symbols for which a size of 1 gives other results by the graph, or an error of the module.

    Args:
        torch: the package.
        module: the module, which is left as it was.
        graph: the exported graph of its evaluation.
        args: its positional arguments.
        keywords: its other arguments; the names of `symbols` are those of all arguments in order.
        symbols: by argument and axis, symbols.
    """
    names = dict.fromkeys(symbol for own in symbols.values() for symbol in own.values())
    flat, spec = torch.utils._pytree.tree_flatten((args, keywords))
    axes = list(symbols.values())
    found: list[str] = []
    for name in names:
        cut = [_cut(x, [i for i, symbol in own.items() if symbol == name]) for x, own in zip(flat, axes, strict=True)]
        given, more = torch.utils._pytree.tree_unflatten(cut, spec)
        with kept_tensors(torch, module, graph), in_evaluation(module):
            try:
                wanted = results_of(torch, lambda given=given, more=more: module(*given, **more))
                made = results_of(torch, lambda cut=cut: _called(torch, graph, cut))
                agrees = all(is_close(torch, a, b) for a, b in zip(wanted, made, strict=True))
            except Exception:  # of any class, by the module or by a check of the graph
                agrees = False
        if not agrees:
            found.append(name)
    return found


def _cut(x: Any, axes: list[int]) -> Any:
    for axis in axes:
        x = x.narrow(axis, 0, 1)
    return x.clone() if hasattr(x, "clone") else x


def _called(torch: Any, graph: Any, given: list[Any]) -> Any:
    """Return the results of the module that a graph computes, without its checks of sizes."""
    rows = iter(given)
    operands: list[Any] = []
    for spec in graph.graph_signature.input_specs:
        if spec.kind.name == "USER_INPUT":
            operands.append(next(rows))
        elif spec.kind.name == "PARAMETER" or (spec.kind.name == "BUFFER" and spec.persistent):
            held = graph.state_dict[spec.target].detach()
            operands.append(held if spec.kind.name == "PARAMETER" else held.clone())
        else:
            held = graph.constants[spec.target]
            operands.append(held.clone() if hasattr(held, "clone") else held)
    made = torch.fx.Interpreter(graph.graph_module).run(*operands)
    specs = graph.graph_signature.output_specs
    return [x for x, spec in zip(made, specs, strict=True) if spec.kind.name == "USER_OUTPUT"]
