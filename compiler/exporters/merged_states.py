"""The states of a program with low-rank adapters: with the adapters added to their weights, or the adapters alone."""

# pyright: basic
# arrays have no types here.

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compiler.errors import CompileError
from compiler.train.adapters import A, B, is_adapter, scale_of
from prograd_proto import program_pb2 as pb


def adapters_alone(program: pb.ProgramDesc, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arrays of the adapters; raise CompileError if the program has none."""
    _require_adapters(program)
    return {state.name: arrays[state.name] for state in program.states if is_adapter(state.name)}


def merged_states(program: pb.ProgramDesc, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters and buffers without adapters, which are added to their weights.

    They fit the program that the adapters were added to. Raises CompileError if the program has no adapters.
    """
    _require_adapters(program)
    kinds = (pb.STATE_KIND_PARAMETER, pb.STATE_KIND_BUFFER)
    kept = [state.name for state in program.states if state.kind in kinds and not is_adapter(state.name)]
    return {name: _merged(program, arrays, name) for name in kept}


def _require_adapters(program: pb.ProgramDesc) -> None:
    if not any(is_adapter(state.name) for state in program.states):
        raise CompileError("merge: the program has no adapters; compiler import --lora, or Program.lora, adds them")


def _merged(program: pb.ProgramDesc, arrays: Mapping[str, Any], name: str) -> Any:
    """Return a weight with its adapter in float64, rounded once."""
    weight = arrays[name]
    a, b = f"{name}.{A}", f"{name}.{B}"
    if a not in arrays:
        return weight
    left, right, scale = _factors(program, a, b)
    added = arrays[left].astype("float64") @ arrays[right].astype("float64") * scale
    return (weight.astype("float64") + added.reshape(weight.shape)).astype(weight.dtype)


def _factors(program: pb.ProgramDesc, a: str, b: str) -> tuple[str, str, float]:
    """Return the left and the right factor and the number that their product is multiplied by."""
    for entry in program.entries:
        block = program.blocks[entry.source_block]
        tensors = {p.state: p.tensor for p in block.parameters if p.WhichOneof("source") == "state"}
        if a in tensors and b in tensors:
            for left, right in ((a, b), (b, a)):
                scale = scale_of(block, tensors[left], tensors[right])
                if scale is not None:
                    return left, right, scale
    raise CompileError(f"merge: no entry multiplies {a} and {b}")
