"""The signature of an exported graph: each entry is understood or refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from compiler.errors import CompileError
from compiler.frontends.torch.places import source_line

INPUTS: Final = {"USER_INPUT", "PARAMETER", "BUFFER", "CONSTANT_TENSOR", "TOKEN"}
"""Kinds of inputs that an import gives values; a token orders effects and has none."""

OUTPUTS: Final = {"USER_OUTPUT", "BUFFER_MUTATION", "USER_INPUT_MUTATION", "TOKEN"}
"""Kinds of outputs that an import understands; writes of inputs are seen by nobody but the module."""

COUNTER: Final = "num_batches_tracked"
"""Last word of the name of a counter of batches, which only normalisation without a momentum needs."""


def require_known(graph: Any, *, in_evaluation: bool) -> None:
    """Raise CompileError for an entry of the signature that no program states."""
    nodes = {node.name: node for node in graph.graph.nodes}
    for spec in graph.graph_signature.input_specs:
        if spec.kind.name not in INPUTS:
            raise CompileError(f"from_torch: the input {spec.target} is an object of Python, which no program holds")
    for spec in graph.graph_signature.output_specs:
        if spec.kind.name == "PARAMETER_MUTATION":
            raise CompileError(
                f"from_torch: forward writes the parameter {spec.target}{_place(nodes, spec)}, which an optimizer "
                f"writes too; change its value where it is used, as in self.{spec.target.rpartition('.')[2]}.clamp(0, "
                "1), or make it a buffer"
            )
        if spec.kind.name not in OUTPUTS:
            raise CompileError(
                f"from_torch: the exported program has the output {spec.arg.name} of kind {spec.kind.name}; export "
                "the module without its loss and gradients"
            )
    if in_evaluation:
        _require_no_memory(graph, nodes)


def require_no_aliases(graph: Any) -> None:
    """Raise CompileError for a constant that shares its elements with a tensor of the module that training changes.

    torch.export takes a parameter for a constant that forward reads from a list, say, and not by its own name. The
    graph is that of torch.export, before decompositions.
    """
    nodes = {node.name: node for node in graph.graph.nodes}
    changing = {
        tensor.untyped_storage().data_ptr(): spec.target
        for spec in graph.graph_signature.input_specs
        if (tensor := graph.state_dict.get(spec.target, graph.constants.get(spec.target))) is not None
        and (tensor.requires_grad if spec.kind.name == "PARAMETER" else _is_written(nodes[spec.arg.name]))
    }
    for spec in graph.graph_signature.input_specs:
        tensor = graph.constants.get(spec.target) if spec.kind.name == "CONSTANT_TENSOR" else None
        name = None if tensor is None else changing.get(tensor.untyped_storage().data_ptr())
        if name is not None and nodes[spec.arg.name].users:
            raise CompileError(
                f"from_torch: forward reads {name} from a list or another object that keeps it"
                f"{_line(next(iter(nodes[spec.arg.name].users)))}, so torch.export takes it for a constant; read it as "
                f"self.{name}, or keep it in an nn.ParameterList"
            )


def _is_written(node: Any) -> bool:
    """Return True if an operator may write a tensor, as normalisation does with its statistics."""
    return any(
        getattr(getattr(user.target, "_schema", None), "is_mutable", False) or "_norm" in str(user.target)
        for user in node.users
    )


def unread_counters(graph: Any) -> set[str]:
    """Return the names of the counters of batches that nothing reads but their next value."""
    nodes = {node.name: node for node in graph.graph.nodes}
    written = {spec.target: spec.arg.name for spec in graph.graph_signature.output_specs}
    results = {spec.arg.name for spec in graph.graph_signature.output_specs if spec.kind.name == "USER_OUTPUT"}
    return {
        spec.target
        for spec in graph.graph_signature.input_specs
        if str(spec.target).endswith(COUNTER)
        and _followers(nodes[spec.arg.name]) - {spec.arg.name, "output"} <= {written.get(spec.target)} - results
    }


def _require_no_memory(graph: Any, nodes: Mapping[str, Any]) -> None:
    """Raise CompileError if results of evaluation follow from a buffer that evaluation writes."""
    inputs = {spec.target: spec.arg.name for spec in graph.graph_signature.input_specs}
    results = {spec.arg.name for spec in graph.graph_signature.output_specs if spec.kind.name == "USER_OUTPUT"}
    for spec in graph.graph_signature.output_specs:
        if spec.kind.name == "BUFFER_MUTATION" and _followers(nodes[inputs[spec.target]]) & results:
            raise CompileError(
                f"from_torch: in evaluation, forward writes the buffer {spec.target}{_place(nodes, spec)}, and its "
                "results follow from the value before; predictions write no states, so write it `if self.training`"
            )


def _followers(node: Any) -> set[str]:
    """Return the names of the nodes that depend on a node."""
    found, queue = {node.name}, [node]
    while queue:
        for user in queue.pop().users:
            if user.name not in found:
                found.add(user.name)
                queue.append(user)
    return found


def _place(nodes: Mapping[str, Any], spec: Any) -> str:
    return _line(nodes[spec.arg.name]) if spec.arg.name in nodes else ""


def _line(node: Any) -> str:
    path, line = source_line(node)
    return f" ({Path(path).name}:{line})" if path else ""
