"""from_torch: a module of PyTorch, or an exported program, as a program that trains it."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Mapping
from typing import Any

from compiler.build.mixed import Mixed, require_mixed
from compiler.build.program import Program
from compiler.errors import CompileError
from compiler.frontends.arranged import Arranged
from compiler.frontends.report import Problem, Table, importer, told
from compiler.frontends.torch.autocast import require_no_regions
from compiler.frontends.torch.checks.guards import Limits
from compiler.frontends.torch.checks.hooks import require_optimizer
from compiler.frontends.torch.checks.signature import unread_counters
from compiler.frontends.torch.export import decomposed, exported
from compiler.frontends.torch.import_module import Import, Layout, keys_of, plain
from compiler.frontends.torch.messages import first_line
from compiler.frontends.torch.modes import paired, unlike
from compiler.frontends.torch.states import aliases
from compiler.frontends.torch.training.losses import append_loss
from compiler.frontends.torch.training.optimizers import minimize_by
from compiler.frontends.torch.training.own_losses import inside, loss_of, with_loss
from prograd_proto.wording import install_hint
from registry import Value

_log = logging.getLogger(__name__)

Symbols = Mapping[str, Mapping[int, str]]
"""By input and axis, the symbol of an extent."""


@importer
def from_torch(
    module: Any,
    inputs: Mapping[str, Any] | None = None,
    *,
    batch: str | None = None,
    symbols: Symbols | None = None,
    layout: Layout = "torch",
    loss: Any = None,
    optimizer: Any = None,
    scheduler: Any = None,
    name: str | None = None,
    seed: int = 0,
    mixed: Mixed | str | None = None,
    explain: bool = False,
) -> Program | Table:
    """Return a program that computes what a module of PyTorch computes, with its parameters as initial values.

    `program["output"]` is the module's result; a module with several has `output0`, `output1` ... or the keys of its
    mapping, which `program.outputs_of_module` lists. The entry `predict` has them all.

    Args:
        module: a torch.nn.Module, which trains in the modes of its submodules, and predicts as module.eval() does. Or
            the result of torch.export.export.
        inputs: example tensors, by the names of the arguments of `forward` or in their order; they become the
            program's inputs, and those of a list or a mapping inputs such as `states_0`. Numbers and flags are kept as
            they are. An exported program has its own inputs.
        batch: the symbol of axis 0 of every input that has as many elements there as the first. Examples of it have two
            rows or more. Without it, all sizes are those of the examples.
        symbols: by input and axis, further symbols, as in {"tokens": {1: "length"}}.
        layout: "prograd" takes images, of 4 or 5 axes, with channels last, and returns them so; "torch" as the module.
        loss: a loss of torch.nn, which compares the first result with a new input `target`. If `inputs` has an example
            `target`, which forward does not take, any function or module of the result and the target.
        optimizer: an optimizer of torch.optim, which minimizes `loss`, or else the module's only scalar result.
        scheduler: a scheduler of torch.optim.lr_scheduler for that optimizer, which is stepped after every step.
        name: name of the program, by default that of the module's class.
        seed: seed of the program.
        mixed: mixed precision of `program.compile` where that is given no other: "bfloat16" or `prograd.mixed(…)`.
        explain: return the table of what cannot be imported, and no program.

    Raises CompileError for a module that torch.export cannot export, or with operators that prograd lacks: all of them
    with their places.
    """
    require_mixed(mixed)
    torch, is_inside, is_fixed = _torch(), False, False
    if optimizer is not None:
        require_optimizer(optimizer)
    if layout not in ("torch", "prograd"):
        raise CompileError(f"from_torch: layout={layout!r} is neither 'torch' nor 'prograd'")
    if isinstance(module, torch.export.ExportedProgram):
        graph, names, chosen = _exported_already(torch, module, inputs, batch, symbols or {})
        evaluation, above_one, asked = None, list[str](), None
        owner = module.module()
    elif isinstance(module, torch.nn.Module):
        named = _inputs(torch, inputs)
        is_inside, named = inside(module, named, loss)
        leaves = _leaves(torch, named)
        names, chosen, owner = list(leaves), _symbols(torch, leaves, batch, symbols or {}), module
        is_fixed = not any(child.training for child in module.modules())
        with with_loss(torch, module, loss, is_inside):
            graph, evaluation, above_one, asked = exported(torch, module, named, chosen)
    else:
        raise CompileError(f"from_torch: {module!r} is neither a torch.nn.Module nor an exported program")
    program = Program(name or type(module).__name__.lower(), seed=seed)
    program.mixed_of_import = asked if mixed is None else mixed
    counters = set[str].intersection(*(unread_counters(each) for each in (graph, evaluation) if each is not None))
    imported = Import(program, graph, names, aliases(owner), chosen, layout, counters, in_evaluation=is_fixed)
    made, problems = imported.results(), list(imported.problems)
    _limit(program, imported.limits)
    _limit(program, {symbol: Limits(2, 0) for symbol in above_one})
    predicted = made
    if evaluation is not None:
        other = Import(
            program, evaluation, names, aliases(owner), chosen, layout, counters, imported, in_evaluation=True
        )
        made, predicted = paired(made, other.results())
        problems += unlike(problems, other.problems)
        _limit(program, other.limits)
    if explain:
        return Table(problems)
    _require_complete(problems)
    results = imported.named(made)
    program.outputs_of_module = list(results)
    names = dict(zip(made, results, strict=True))
    predictions = _predictions(imported, made, results, names, predicted)
    _tell_of_names(names)
    if predictions:
        program.outputs(**predictions)
    _append_training(program, imported, results, names, owner, loss_of(loss, is_inside), optimizer, scheduler)
    return program


def _limit(program: Program, limits: Mapping[str, Limits]) -> None:
    """Limit the symbols of a program to sizes that are in these limits, too."""
    for symbol, each in limits.items():
        if symbol in program.limits:
            old = program.limits[symbol]
            each = Limits(old.least, old.most, old.reason).both(each)
        if (each.least, each.most) != (1, 0):
            program.limits[symbol] = each.message(symbol)


def _predictions(
    imported: Import,
    made: Mapping[str, Arranged],
    results: Mapping[str, Value],
    names: dict[str, str],
    predicted: Mapping[str, Arranged],
) -> dict[str, Value]:
    """Return the results of predictions by name: those of evaluation, without losses that training has too.

    `names` has the names of `results` by those of the module; those that evaluation alone has are added.
    """
    found: dict[str, Value] = {}
    for name, x in predicted.items():
        if made.get(name) is not x:
            [(free, value)] = imported.named({name: x}).items()
            found[names.setdefault(name, free)] = value
        elif not _is_number(results[names[name]]):
            found[names[name]] = results[names[name]]
    return found


def _tell_of_names(names: Mapping[str, str]) -> None:
    """Log a warning for each result whose name is another tensor's, so that the program has it under another one."""
    for name, own in names.items():
        if own != plain(name):
            text = "from_torch: the module's result %r is %r in the program, where %r is another tensor"
            _log.warning(text, name, own, plain(name))


def _is_number(value: Value) -> bool:
    return value.rank == 0 and value.dtype.startswith("float")


def _append_training(
    program: Program,
    imported: Import,
    results: Mapping[str, Value],
    names: Mapping[str, str],
    module: Any,
    loss: Any,
    optimizer: Any,
    scheduler: Any,
) -> None:
    """Append the training by a loss: one that is appended, or a result; `names` is that of `_predictions`."""
    scalars = [name for name, value in results.items() if _is_number(value)]
    if scheduler is not None and optimizer is None:
        raise CompileError("from_torch: scheduler= changes the rate of optimizer=; give both")
    number: Value | None = results[scalars[0]] if len(scalars) == 1 else None
    if isinstance(loss, str):
        if loss not in names:
            raise CompileError(f"from_torch: loss={loss!r} names no result of the module; it has {', '.join(names)}")
        number = results[names[loss]]
    elif loss is not None:
        first = next(iter(results))
        number = append_loss(program, loss, imported.tensors[first], imported.buffer)
    if loss is not None and optimizer is None:
        raise CompileError("from_torch: loss= is minimized by optimizer=; give both, or build the loss with ops")
    if optimizer is None:
        return
    if number is None:
        raise CompileError(
            f"from_torch: optimizer= needs a loss; the module has {len(scalars)} scalar results, so give loss="
        )
    minimize_by(program, number, optimizer, imported.states_of(module), scheduler, imported.store)


def _require_complete(problems: list[Problem]) -> None:
    if problems:
        raise CompileError(f"from_torch: {told(problems)}")


def _torch() -> Any:
    try:
        return importlib.import_module("torch")
    except ModuleNotFoundError:
        raise CompileError(f"from_torch needs the package torch: {install_hint('torch')}") from None


def _inputs(torch: Any, inputs: Mapping[str, Any] | None) -> dict[str, Any]:
    if not isinstance(inputs, Mapping) or not inputs:
        raise CompileError(f"from_torch: inputs={inputs!r} is not a mapping of names to example tensors, as {{'x': x}}")
    leaves = _leaves(torch, inputs)
    for name, leaf in leaves.items():
        if not isinstance(leaf, torch.Tensor | bool | int | float | str | None):
            raise CompileError(
                f"from_torch: the input {name!r} is {type(leaf).__name__}; inputs are tensors of PyTorch, lists and "
                "mappings of these, and numbers and flags, which the program keeps"
            )
    if not any(isinstance(leaf, torch.Tensor) for leaf in leaves.values()):
        raise CompileError(f"from_torch: none of the inputs {', '.join(leaves)} is a tensor of PyTorch")
    return dict(inputs)


def _leaves(torch: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tensors and numbers of the inputs; those inside of lists and mappings have their place in the name."""
    made: dict[str, Any] = {}
    for name, tree in inputs.items():
        for path, leaf in torch.utils._pytree.tree_flatten_with_path(tree)[0]:
            whole = "_".join([name, *keys_of(path)])
            if whole in made:
                raise CompileError(f"from_torch: two inputs are named {whole!r}; name one of them otherwise")
            made[whole] = leaf
    return made


def _symbols(torch: Any, inputs: Mapping[str, Any], batch: str | None, symbols: Symbols) -> dict[str, dict[int, str]]:
    """Return for each input the symbols of its axes; raise CompileError for an axis that is not there or too short."""
    tensors = {name: x for name, x in inputs.items() if isinstance(x, torch.Tensor)}
    rows = next((tensor.shape[0] for tensor in tensors.values() if tensor.ndim), 0)
    made: dict[str, dict[int, str]] = {name: {} for name in inputs}
    for name, tensor in tensors.items():
        own = {0: batch} if batch and tensor.ndim and tensor.shape[0] == rows else {}
        made[name] = own | dict(symbols.get(name, {}))
        for axis, symbol in made[name].items():
            if not -tensor.ndim <= axis < tensor.ndim:
                raise CompileError(
                    f"from_torch: axis {axis} of {name!r} has a symbol, and the example has {tensor.ndim} axes"
                )
            if tensor.shape[axis] < 2:
                raise CompileError(
                    f"from_torch: axis {axis} of the example {name!r} has {tensor.shape[axis]} elements; the symbol "
                    f"{symbol!r} needs an example with 2 or more"
                )
    _require_inputs(symbols, list(tensors))
    return made


def _exported_already(
    torch: Any, graph: Any, inputs: Mapping[str, Any] | None, batch: str | None, symbols: Symbols
) -> tuple[Any, list[str], dict[str, dict[int, str]]]:
    """Return the graph in the form that is walked, the names of its inputs, and the symbols of those it keeps open."""
    if inputs is not None:
        raise CompileError("from_torch: an exported program has its own inputs; leave out inputs=")
    require_no_regions(graph)
    try:
        graph = decomposed(torch, graph)
    except Exception as error:  # torch raises errors of many classes here
        raise CompileError(f"from_torch: the exported program cannot be read: {first_line(error)}") from error
    signature = graph.graph_signature
    fed = [spec.arg.name for spec in signature.input_specs if spec.kind.name == "USER_INPUT"]
    values = {node.name: node.meta.get("val") for node in graph.graph.nodes if node.op == "placeholder"}
    _require_inputs(symbols, fed)
    made: dict[str, dict[int, str]] = {}
    for name in fed:
        sizes: Any = getattr(values.get(name), "shape", ())
        made[name] = dict(symbols.get(name, {}))
        for axis, size in enumerate(sizes):
            if not isinstance(size, int) and axis not in made[name]:
                made[name][axis] = batch if batch and axis == 0 else str(size)
    return graph, fed, made


def _require_inputs(symbols: Symbols, inputs: list[str]) -> None:
    unknown = [name for name in symbols if name not in inputs]
    if unknown:
        raise CompileError(f"from_torch: symbols names the input {unknown[0]!r}, which is not among {inputs}")
