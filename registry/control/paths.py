"""The operands along which each output of an op with blocks has a gradient.

A path leads from an operand to an output through float tensors and operators that are differentiable there. A value
that depends on an operand only through a predicate, a number of trips or an integer has no path to it.
"""

from __future__ import annotations

from collections.abc import Sequence

from prograd_proto import attributes_of, type_of
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks.control import COND, SCAN, layout_of
from prograd_proto.dtypes import REALS
from registry.control.control_op import CONTROL
from registry.op import find_op

Bits = int
"""A set of positions as the bits of a number."""


def float_paths(desc: pb.OpDesc, bodies: Sequence[pb.BlockDesc]) -> list[Bits]:
    """Return for each output of an op with blocks the positions of the operands that it has a path to."""
    blocks = [bodies[number] for number in desc.blocks]
    first, carries, _ = layout_of(desc.type, attributes_of(desc))
    if desc.type == COND:
        one, other = (result_paths(block, bodies) for block in blocks)
        return [(a | b) << first for a, b in zip(one, other, strict=True)]
    results = result_paths(blocks[-1], bodies)
    reached = loop_paths(blocks[-1], results, carries)
    found = [bits << first for bits in reached]
    return found if desc.type == SCAN else [*found[:carries], 0, *found[carries:]]


def loop_paths(body: pb.BlockDesc, results: Sequence[Bits], carries: int) -> list[Bits]:
    """Return for each result of a loop's body the arguments that the loop's output has a path to."""
    is_float = {p.argument: _is_float(body, p.tensor) for p in body.parameters}
    floats = [_is_float(body, name) for name in body.results[:carries]]
    last = [(1 << j) if floats[j] and is_float.get(j, True) else 0 for j in range(carries)]
    changed = True
    while changed:
        now = [last[j] | _through(results[j], last, carries) for j in range(carries)]
        changed, last = now != last, now
    return [*last, *(_through(bits, last, carries) for bits in results[carries:])]


def result_paths(body: pb.BlockDesc, bodies: Sequence[pb.BlockDesc]) -> list[Bits]:
    """Return for each result of a block the arguments that it has a path to within one run of the block."""
    types = {tensor.name: type_of(tensor) for tensor in body.tensors}
    paths = {p.tensor: 1 << p.argument for p in body.parameters if types[p.tensor].dtype in REALS}
    for op in body.ops:
        if op.type in CONTROL:
            for name, bits in zip(op.outputs, float_paths(op, bodies), strict=True):
                inputs = [paths.get(x, 0) for i, x in enumerate(op.inputs) if bits >> i & 1]
                _add(paths, name, inputs)
            continue
        definition, inputs = find_op(op.type), op.inputs[:]
        last = len(definition.signature.inputs) - 1
        read = [
            paths.get(x, 0)
            for i, x in enumerate(inputs)
            if not definition.differentiable or definition.signature.inputs[min(i, last)] not in definition.no_gradient
        ]
        for name in op.outputs:
            if types[name].dtype in REALS:
                _add(paths, name, read)
    return [paths.get(name, 0) for name in body.results]


def _add(paths: dict[str, Bits], name: str, inputs: Sequence[Bits]) -> None:
    bits = 0
    for one in inputs:
        bits |= one
    if bits:
        paths[name] = bits


def _through(bits: Bits, last: Sequence[Bits], carries: int) -> Bits:
    """Return the arguments that a result has a path to, those of earlier iterations among them."""
    found = bits & ~((1 << carries) - 1)
    for j in range(carries):
        if bits >> j & 1:
            found |= last[j]
    return found


def _is_float(body: pb.BlockDesc, name: str) -> bool:
    return any(tensor.name == name and type_of(tensor).dtype in REALS for tensor in body.tensors)
