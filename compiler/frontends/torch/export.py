"""torch.export of a module in both modes, down to the operators that the front end knows."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from compiler.build.mixed import Mixed
from compiler.errors import CompileError
from compiler.frontends.torch.alpha_dropout import kept_in_evaluation
from compiler.frontends.torch.assignments import written_buffers
from compiler.frontends.torch.autocast import without_casts
from compiler.frontends.torch.checks.calls import require_known_changes, require_same_changes
from compiler.frontends.torch.checks.hidden_writes import require_no_hidden_writes
from compiler.frontends.torch.checks.hooks import hooks_of, noted_hooks, require_no_hooks
from compiler.frontends.torch.checks.own_gradients import noted_functions, require_no_own_gradients
from compiler.frontends.torch.checks.same_calls import changes_in_both
from compiler.frontends.torch.checks.signature import require_no_aliases
from compiler.frontends.torch.checks.single_rows import symbols_above_one
from compiler.frontends.torch.experts import all_experts
from compiler.frontends.torch.graph import WITHOUT_OPS
from compiler.frontends.torch.inlined import is_inlined
from compiler.frontends.torch.messages import reason_of, without_messages, without_text
from compiler.frontends.torch.modes import in_evaluation, serves_both
from compiler.frontends.torch.no_gradient import keep_regions
from compiler.frontends.torch.operators import OPERATORS
from compiler.frontends.torch.packed import kept_padded
from compiler.frontends.torch.replaced import replaced_functions
from compiler.frontends.torch.training.losses import TARGET
from compiler.passes.run_passes import no_garbage_collection


def exported(
    torch: Any, module: Any, inputs: Mapping[str, Any], symbols: Mapping[str, Mapping[int, str]]
) -> tuple[Any, Any, list[str], Mixed | None]:
    """Return the graphs of a module that is called with these example tensors, as ExportedPrograms, and symbols.

    The first is that of the module as it is, and the second that of its evaluation, or None if the first serves both.
    The graphs hold for the symbols only if they are 2 or more. The last is the mixed precision of regions of autocast.
    Names of `inputs` are those of the arguments of forward; other names are positions. Raises CompileError if the
    module cannot be exported, or would lose gradients that it defines itself.
    """
    args, keywords = _arguments(module, _without_shared(torch, inputs))
    auto = torch.export.Dim.AUTO

    shapes = None
    if any(symbols.values()):
        leaves = iter([dict.fromkeys(own, auto) or None for own in symbols.values()])
        by_name = [torch.utils._pytree.tree_map(lambda leaf: next(leaves), tree) for tree in inputs.values()]
        shapes = _like_arguments(module, by_name) if args else dict(zip(keywords, by_name, strict=True))
    _require_momentum(torch, module)
    functions, hooks = set[type](), hooks_of(module)
    require_no_hooks(hooks)

    def traced() -> Any:
        with replaced_functions(torch):
            return torch.export.export(module, args, keywords, dynamic_shapes=shapes)

    try:
        with (
            no_garbage_collection(),  # an export makes millions of objects, and keeps nearly all
            without_messages(),
            all_experts(torch, module),
            kept_padded(torch, module),
            kept_in_evaluation(torch),
            noted_functions(torch, functions),
            noted_hooks(torch, hooks),
            written_buffers(torch, module) as forget,
        ):
            training, evaluation = traced(), None
            forget()
            is_training = any(child.training for child in module.modules())
            changes = _changes_in_both(torch, module, training, args, keywords) if is_training else None
            if is_training and changes is None:
                with in_evaluation(module), without_text():
                    evaluation = traced()
                forget()
            with without_text():
                graph = evaluation or training
                above_one = symbols_above_one(torch, module, graph, args, keywords, symbols)
            if evaluation is not None and serves_both(training.graph, evaluation.graph):
                evaluation = None
            requested = [without_casts(each) for each in (training, evaluation) if each is not None]
            require_no_aliases(training)
            training = decomposed(torch, training)
            with without_text():
                if changes is None:
                    require_same_changes(torch, module, args, keywords, training)
                else:
                    require_known_changes(torch, module, changes, training)
            evaluation = None if evaluation is None else decomposed(torch, evaluation)
    except CompileError:
        raise
    except Exception as error:  # torch raises errors of many classes here
        raise CompileError(f"torch.export cannot export {type(module).__name__}: {reason_of(error)}") from error
    require_no_own_gradients(functions)
    require_no_hooks(hooks)
    return training, evaluation, above_one, requested[0]


def _changes_in_both(torch: Any, module: Any, graph: Any, args: Any, keywords: Any) -> list[str] | None:
    """Return the tensors that a call changes; None if evaluation needs a graph of its own, or may need one."""
    with without_text():
        is_alike = serves_both(graph.graph, graph.graph)
        return changes_in_both(torch, module, graph, args, keywords) if is_alike else None


def decomposed(torch: Any, graph: Any) -> Any:
    """Return the graph in functional form, with operators that the table lacks split up where torch can."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        require_no_hidden_writes(graph)
        keep_regions(torch, graph)
        losses = _losses_of_rows(torch, graph)
        if not losses and is_inlined(graph, _is_missing):
            return graph
        graph = graph.run_decompositions(_wanted(torch, graph) | losses)
        wanted = _wanted(torch, graph)  # of ops that wrote in place, and of the ops inside decompositions
        return graph.run_decompositions(wanted) if wanted else graph


def _wanted(torch: Any, graph: Any) -> dict[Any, Any]:
    """Return the decompositions of the operators of a graph that the table lacks."""
    missing = {node.target for node in _nodes(graph) if node.op == "call_function" and _is_missing(node)}
    table = torch.export.default_decompositions() if missing else {}
    return {op: table[op] for op in missing if op in table}


def _losses_of_rows(torch: Any, graph: Any) -> dict[Any, Any]:
    """Return the decomposition of unreduced cross entropies, whose shape PyTorch 2.13 states as that of a number."""
    loss = torch.ops.aten.cross_entropy_loss.default
    asked = any(node.target is loss and _reduction(node) == 0 for node in _nodes(graph))

    def of_rows(
        x: Any, target: Any, weight: Any = None, reduction: int = 1, ignored: int = -100, smoothing: float = 0.0
    ) -> Any:
        if reduction:
            return NotImplemented
        axis = 1 if x.ndim > 1 else 0
        logarithms = x.log_softmax(axis)
        if weight is not None:
            weight = weight.reshape([-1 if i == axis else 1 for i in range(x.ndim)])
        weighted = logarithms if weight is None else logarithms * weight
        if target.is_floating_point():
            return -(weighted * (target * (1 - smoothing) + smoothing / x.shape[axis])).sum(axis)
        is_kept = target != ignored
        index = torch.where(is_kept, target, 0).unsqueeze(axis)
        rows = weighted.gather(axis, index).squeeze(axis) * (1 - smoothing)
        rows = rows if not smoothing else rows + weighted.sum(axis) * (smoothing / x.shape[axis])
        return torch.where(is_kept, -rows, 0.0)

    return {loss: of_rows} if asked else {}


def _reduction(node: Any) -> int:
    return node.args[3] if len(node.args) > 3 else node.kwargs.get("reduction", 1)


def _nodes(graph: Any) -> list[Any]:
    """Return the nodes of a graph and of the graphs inside it."""
    return [node for module in graph.graph_module.modules() if hasattr(module, "graph") for node in module.graph.nodes]


def _is_missing(node: Any) -> bool:
    return hasattr(node.target, "namespace") and str(node.target) not in {*OPERATORS, *WITHOUT_OPS}


def _require_momentum(torch: Any, module: Any) -> None:
    """Raise CompileError for statistics that are averages over all steps, whose weights torch.export cannot state."""
    for name, child in module.named_modules():
        is_norm = isinstance(child, torch.nn.modules.batchnorm._NormBase) and child.track_running_stats
        if is_norm and child.momentum is None:
            raise CompileError(
                f"{name or type(child).__name__} has momentum=None, which torch.export cannot export; give it a number"
            )


def _without_shared(torch: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return inputs of which no two share their elements: torch.export would take them for one."""
    seen: set[int] = set()

    def alone(x: Any) -> Any:
        place = x.untyped_storage().data_ptr()
        is_shared = place in seen
        seen.add(place)
        return x.clone() if is_shared else x

    return torch.utils._pytree.tree_map_only(torch.Tensor, alone, dict(inputs))


def _arguments(module: Any, inputs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return positional and keyword arguments: keywords if all names are names of arguments."""
    parameters = inspect.signature(module.forward).parameters
    if all(name in parameters for name in inputs):
        return (), dict(inputs)
    if TARGET in parameters and parameters[TARGET].kind.name == "KEYWORD_ONLY" and TARGET in inputs:
        own = [name for name in parameters if name != TARGET]
        return (), dict(zip([*own[: len(inputs) - 1], TARGET], inputs.values(), strict=True))
    return tuple(inputs.values()), {}


def _like_arguments(module: Any, values: Sequence[Any]) -> tuple[Any, ...]:
    """Return a value for each positional argument, those of `*args` together."""
    kinds = [parameter.kind.name for parameter in inspect.signature(module.forward).parameters.values()]
    if "VAR_POSITIONAL" not in kinds:
        return tuple(values)
    first = kinds.index("VAR_POSITIONAL")
    return (*values[:first], tuple(values[first:]))
