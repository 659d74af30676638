"""Chains of pointwise ops of one tensor of codes, whose results are gathered from tables of 256 elements."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Final, NamedTuple

from compiler.passes.compute_on_codes.new_ops import NewOps
from prograd_proto import TensorType
from prograd_proto import program_pb2 as pb
from prograd_proto.attributes import attribute_message
from prograd_proto.blocks import BlockAnalysis
from prograd_proto.dtypes import NUMBERS
from registry.op import find_op
from runtime.step import effects_of
from runtime.step.arithmetic import is_pointwise

CODES: Final = 256

MIN_ELEMENTS: Final = 2048
"""Least number of elements that are gathered from a table."""

DIVISIONS: Final = ("div", "quantize_linear")
"""Operators that divide."""

CLIPPING: Final = ("relu", "relu6")
"""Operators that take an instruction or two, though their bits depend on the CPU."""

PLAIN_INSTRUCTIONS, DIVISION_INSTRUCTIONS, OTHER_INSTRUCTIONS = 1, 14, 25
"""Vector instructions of an operator, about: of arithmetic, of a division with its rounding, of an exponential."""

MIN_INSTRUCTIONS: Final = 28
"""Least instructions of a chain that becomes a table: one that only quantises again is cheaper in registers."""


class _Chain(NamedTuple):
    """The tensor of codes that a tensor is computed from, and the ops on the way, by position."""

    root: str
    ops: frozenset[int] = frozenset()


def tabulate(block: BlockAnalysis) -> None:
    """Edit a block: the results of long chains are gathered from tables."""
    chains = _chains(block)
    chosen = _chosen(block, chains)
    if not chosen:
        return
    new = NewOps(block)
    for i, op in enumerate(block.ops):
        if i in chosen:
            _gather(new, op, chosen[i])
        else:
            new.ops.append(op)
    new.write()


def _chains(block: BlockAnalysis) -> dict[str, _Chain]:
    """Return the chain of each tensor that depends, element by element, on one tensor of codes."""
    kept = {tensor.name for tensor in block.tensors if tensor.lifespan}
    chains = {name: _Chain(name) for name in block.parameter_names if block.types[name].dtype == "uint8"}
    for i, outputs in enumerate(block.outputs):
        found = _chain_of(block, i, chains) if kept.isdisjoint((*outputs, *block.inputs[i])) else None
        for name in outputs:
            if found is not None:
                chains[name] = found
            elif block.types[name].dtype == "uint8":
                chains[name] = _Chain(name)
    return chains


def _chain_of(block: BlockAnalysis, i: int, chains: Mapping[str, _Chain]) -> _Chain | None:
    op, [*outputs] = block.ops[i], block.outputs[i]
    if len(outputs) != 1 or block.blocks[i] or op.random_stream or not is_pointwise(op.type) or effects_of(op.type):
        return None
    if any(isinstance(value, tuple) for value in block.kinds[i].attributes.values()):
        return None
    shape = block.types[outputs[0]].shape
    wide = [name for name in block.inputs[i] if name and block.types[name].shape not in ((), (1,))]
    if not wide or any(name not in chains or block.types[name].shape != shape for name in wide):
        return None
    roots = {chains[name].root for name in wide}
    if len(roots) != 1:
        return None
    return _Chain(roots.pop(), frozenset({i}).union(*(chains[name].ops for name in wide)))


def _chosen(block: BlockAnalysis, chains: Mapping[str, _Chain]) -> dict[int, _Chain]:
    """Return the chains that become tables, by the position of their last op."""
    chosen: dict[int, _Chain] = {}
    needed = {*block.ends}
    for i in reversed(range(len(block.ops))):
        outputs = block.outputs[i]
        if needed.isdisjoint(outputs):
            continue
        chain = chains.get(outputs[0]) if len(outputs) == 1 else None
        if chain is not None and block.op_types[i] != "dequantize_linear" and _is_worth(block, outputs[0], chain):
            chosen[i] = chain
            needed.add(chain.root)
        else:
            needed.update(block.inputs[i])
    return chosen


def _is_worth(block: BlockAnalysis, name: str, chain: _Chain) -> bool:
    shape = block.types[name].shape
    if any(isinstance(extent, str) for extent in shape) or prod(block.types[name].static_shape) < MIN_ELEMENTS:
        return False
    return sum(_instructions(block.op_types[i]) for i in chain.ops) >= MIN_INSTRUCTIONS


def _instructions(op_type: str) -> int:
    if op_type in DIVISIONS:
        return DIVISION_INSTRUCTIONS
    is_plain = op_type in CLIPPING or find_op(op_type).traits.exact
    return PLAIN_INSTRUCTIONS if is_plain else OTHER_INSTRUCTIONS


def _gather(new: NewOps, op: pb.OpDesc, chain: _Chain) -> None:
    """Append the ops of a table, and the gather in place of the last op of the chain."""
    codes = pb.SmallTensor(dtype=NUMBERS["uint8"], shape=[CODES], data=bytes(range(CODES)))
    table = {chain.root: _table(new, chain.root, "uint8")}
    value = attribute_message("value", "tensor", codes)
    new.add(op, "constant", [], [table[chain.root]], [value])
    for i in sorted(chain.ops):
        each, [result] = new.block.ops[i], new.block.outputs[i]
        table[result] = _table(new, result, new.block.types[result].dtype)
        names = [table.get(name, name) for name in new.block.inputs[i]]
        new.add(op, each.type, names, [table[result]], each.attributes)
    axis = attribute_message("axis", "int", 0)
    new.add(op, "gather", [table[op.outputs[0]], chain.root], op.outputs, [axis])


def _table(new: NewOps, name: str, dtype: str) -> str:
    """Describe a table of an element for each code, and return its name."""
    return new.tensor(f"{name}.table", TensorType(dtype, (CODES,)))
