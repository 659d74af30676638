"""The states of a program with low-rank adapters: with the adapters added to their weights, or the adapters alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compiler.errors import CompileError
from compiler.quantization.block_codes import wide
from compiler.quantization.weight_names import CODES, SCALES
from compiler.train.adapters import MAGNITUDE, A, Adapter, B, adapter_of, is_adapter
from compiler.train.written_ops import replace_ops
from prograd_proto import program_pb2 as pb
from prograd_proto.files import copy_of
from runtime.conversion import converted
from runtime.dtypes import array_type


def adapters_alone(program: pb.ProgramDesc, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arrays of the adapters; raise CompileError if the program has none."""
    _require_adapters(program)
    return {state.name: arrays[state.name] for state in program.states if is_adapter(state.name)}


def merged_states(program: pb.ProgramDesc, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters and buffers without adapters, which are added to their weights.

    They fit the program that the adapters were added to. Raises CompileError if the program has no adapters.
    """
    _require_adapters(program)
    plain = plain_states(program, arrays)
    return {name: _merged(program, {**arrays, **plain}, name) for name in plain if not is_adapter(name)}


def plain_states(program: pb.ProgramDesc, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters and permanent buffers; codes of few bits become the numbers that they stand for."""
    kinds = (pb.STATE_KIND_PARAMETER, pb.STATE_KIND_BUFFER)
    lasting = [s for s in program.states if s.kind in kinds and s.lifespan == pb.LIFESPAN_ALWAYS]
    found = {state.name: arrays[state.name] for state in lasting}
    for name in [name.removesuffix(f".{CODES}") for name in found if name.endswith(f".{CODES}")]:
        if f"{name}.{SCALES}" in found:
            found[name] = wide(found.pop(f"{name}.{CODES}"), found.pop(f"{name}.{SCALES}"))
    return found


def _require_adapters(program: pb.ProgramDesc) -> None:
    if not any(is_adapter(state.name) for state in program.states):
        raise CompileError("merge: the program has no adapters; compiler import --lora, or Program.lora, adds them")


def without_side_paths(
    program: pb.ProgramDesc, number: int, arrays: Mapping[str, Any]
) -> tuple[pb.ProgramDesc, Mapping[str, Any]]:
    """Return a program whose block multiplies with merged weights, where it has adapters on side paths, and these."""
    block = program.blocks[number]
    tensors = _tensors(block)
    found = {name: _adapter(block, tensors, name) for name in arrays if f"{name}.{A}" in arrays}
    beside = {name: adapter for name, adapter in found.items() if adapter is not None and adapter.beside}
    if not beside:
        return program, arrays
    made = copy_of(program)
    ops = {op.outputs[0]: op for op in made.blocks[number].ops if op.outputs}
    gone: set[tuple[str, str]] = set()
    for adapter in beside.values():
        for behind, product in adapter.beside:
            gone.update((op.type, op.outputs[0]) for op in behind)
            ops[product.outputs[0]].outputs[0] = behind[-1].outputs[0]
    block = made.blocks[number]
    replace_ops(block, [op for op in block.ops if not op.outputs or (op.type, op.outputs[0]) not in gone])
    return made, {**arrays, **{name: _merged(program, arrays, name) for name in beside}}


def _tensors(block: pb.BlockDesc) -> dict[str, str]:
    return {p.state: p.tensor for p in block.parameters if p.WhichOneof("source") == "state"}


def _adapter(block: pb.BlockDesc, tensors: Mapping[str, str], weight: str) -> Adapter | None:
    a, b = tensors.get(f"{weight}.{A}"), tensors.get(f"{weight}.{B}")
    return None if a is None or b is None else adapter_of(block, a, b, tensors.get(f"{weight}.{MAGNITUDE}"))


def _merged(program: pb.ProgramDesc, arrays: Mapping[str, Any], name: str) -> Any:
    """Return a weight with its adapter in float64, rounded once."""
    weight = arrays[name]
    if f"{name}.{A}" not in arrays:
        return weight
    left, right, scale = factors_of(program, name)
    added = arrays[left].astype("float64") @ arrays[right].astype("float64") * scale
    total = converted(weight, "float64") + added.reshape(weight.shape)
    magnitude = arrays.get(f"{name}.{MAGNITUDE}")
    if magnitude is not None:
        inputs = 1 if left == f"{name}.{B}" else 0
        norms = (total * total).sum(inputs, keepdims=True) ** 0.5
        total *= magnitude.astype("float64").reshape(norms.shape) / norms
    return converted(total, array_type(weight).dtype)


def factors_of(program: pb.ProgramDesc, weight: str) -> tuple[str, str, float]:
    """Return the states of a weight's left and right factor, and the number that their product is multiplied by."""
    for entry in program.entries:
        block = program.blocks[entry.source_block]
        tensors = _tensors(block)
        found = _adapter(block, tensors, weight)
        if found is not None:
            states = {tensor: state for state, tensor in tensors.items()}
            return states[found.left], states[found.right], found.scale
    raise CompileError(f"merge: no entry multiplies {weight}.{A} and {weight}.{B}")
