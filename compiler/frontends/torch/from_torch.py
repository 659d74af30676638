"""from_torch: what users call."""

# pyright: basic
# PyTorch is imported by name and has no types here, nor have the lambdas of a table.

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, Literal

from compiler.build.program import Program
from compiler.errors import CompileError
from compiler.frontends.report import told
from compiler.frontends.torch.export import exported
from compiler.frontends.torch.import_module import import_graph
from compiler.frontends.torch.states import aliases


def from_torch(
    module: Any,
    inputs: Mapping[str, Any],
    *,
    batch: str | None = None,
    symbols: Mapping[str, Mapping[int, str]] | None = None,
    layout: Literal["torch", "prograd"] = "torch",
    name: str | None = None,
    seed: int = 0,
) -> Program:
    """Return a program that computes what a module of PyTorch computes, with its parameters as initial values.

    `program["output"]` is the module's result; a module with several has `output0`, `output1` ... or the keys of its
    mapping, which `program.outputs_of_module` lists. The entry `predict` has them all.

    Args:
        module: a torch.nn.Module. It is exported in training mode, and evaluation follows from that.
        inputs: example tensors, by the names of the arguments of `forward` or in their order; they become the
            program's inputs.
        batch: the symbol of axis 0 of every input that has as many elements there as the first. Examples of it have two
            rows or more. Without it, all sizes are those of the examples.
        symbols: by input and axis, further symbols, as in {"tokens": {1: "length"}}.
        layout: "prograd" takes images, of 4 or 5 axes, with channels last, and returns them so; "torch" as the module.
        name: name of the program, by default that of the module's class.
        seed: seed of the program.

    Raises CompileError for a module that torch.export cannot export, or with operators that prograd lacks: all of them
    with their places.
    """
    torch = _torch()
    if not isinstance(module, torch.nn.Module):
        raise CompileError(f"from_torch: {module!r} is not a torch.nn.Module")
    named = _inputs(torch, inputs)
    chosen = _symbols(named, batch, symbols or {})
    graph = exported(torch, module, named, chosen)
    program = Program(name or type(module).__name__.lower(), seed=seed)
    results, problems = import_graph(program, graph, list(named), aliases(module), chosen, layout)
    if problems:
        raise CompileError(f"from_torch: {told(problems)}")
    program.outputs_of_module = list(results)
    program.outputs(**results)
    return program


def _torch() -> Any:
    try:
        return importlib.import_module("torch")
    except ModuleNotFoundError:
        raise CompileError('from_torch needs the package torch: pip install "prograd[torch]"') from None


def _inputs(torch: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(inputs, Mapping) or not inputs:  # pyright: ignore[reportUnnecessaryIsInstance]: users may not check types
        raise CompileError(f"from_torch: inputs={inputs!r} is not a mapping of names to example tensors")
    for name, tensor in inputs.items():
        if not isinstance(tensor, torch.Tensor):
            raise CompileError(f"from_torch: the input {name!r} is {type(tensor).__name__}, not a tensor of PyTorch")
    return dict(inputs)


def _symbols(
    inputs: Mapping[str, Any], batch: str | None, symbols: Mapping[str, Mapping[int, str]]
) -> dict[str, dict[int, str]]:
    """Return for each input the symbols of its axes; raise CompileError for an axis that is not there or too short."""
    rows = next((tensor.shape[0] for tensor in inputs.values() if tensor.ndim), 0)
    made: dict[str, dict[int, str]] = {}
    for name, tensor in inputs.items():
        own = {0: batch} if batch and tensor.ndim and tensor.shape[0] == rows else {}
        made[name] = own | dict(symbols.get(name, {}))
        for axis, symbol in made[name].items():
            if not -tensor.ndim <= axis < tensor.ndim:
                raise CompileError(
                    f"from_torch: {symbols=} names axis {axis} of {name!r}, which has {tensor.ndim} axes"
                )
            if tensor.shape[axis] < 2:
                raise CompileError(
                    f"from_torch: axis {axis} of the example {name!r} has {tensor.shape[axis]} elements; the symbol "
                    f"{symbol!r} needs an example with 2 or more"
                )
    unknown = [name for name in symbols if name not in inputs]
    if unknown:
        raise CompileError(f"from_torch: symbols names the input {unknown[0]!r}, which is not among {list(inputs)}")
    return made
