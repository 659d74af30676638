"""Low-rank adapters of weights: W + alpha / r * A @ B, of which only A and B are trained. Hu et al., 2021.

1. A weight of any shape is seen as a matrix: its axes are split in two groups, so that the smaller one is as large as
   possible. A filter of 1x1 windows is the matrix of its channels.
2. The factor on the side of the inputs, A, begins with normal numbers of deviation 1 / sqrt(inputs), and the other one,
   B, with zeros, so that training begins with the weight as it is.
3. The sum is computed once in a step, before all ops that read the weight, in the growing block and in the entries of a
   file that was opened. Merging therefore changes no more than where the sum is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from math import prod, sqrt
from typing import Final

from compiler.build.state_table import StateTable
from compiler.train.initialisers import normal, zeros
from prograd_proto import TensorType, attributes_of
from prograd_proto import program_pb2 as pb
from prograd_proto.dtypes import NAMES, NUMBERS
from prograd_proto.elements import pack, unpack
from prograd_proto.spelling import closest
from prograd_proto.tensor_types import shape_of
from registry import Block, OpError, Value, ops

A: Final = "lora_a"
B: Final = "lora_b"


def with_adapters(
    states: StateTable,
    blocks: Sequence[Block],
    state_tensor: Callable[[str], Value],
    pattern: str,
    *,
    rank: int,
    alpha: float | None,
) -> list[str]:
    """Add adapters to matching weights, freeze all other parameters, and return the weights.

    `blocks` are the growing block and those of a file's other entries; `state_tensor` gives the tensor of a state in
    the first. Raises OpError for a pattern without matrices, a rank that is too large, and a second adapter.
    """
    chosen = matching(list(states.descs.values()), pattern, rank)
    for state in chosen:
        if f"{state.name}.{A}" in states.descs:
            raise OpError(f"lora: {state.name} has an adapter already")
    for state in chosen:
        _adapt(states, blocks, state_tensor, state, rank, (rank if alpha is None else alpha) / rank)
    for name, state in states.descs.items():
        if state.kind == pb.STATE_KIND_PARAMETER and not is_adapter(name):
            state.trainable = False
    return [state.name for state in chosen]


def _adapt(
    states: StateTable,
    blocks: Sequence[Block],
    state_tensor: Callable[[str], Value],
    state: pb.StateDesc,
    rank: int,
    scale: float,
) -> None:
    """Add the adapter of one weight to all blocks."""
    shape, dtype = _shape(state), NAMES[state.dtype]
    rows, columns = matrix_of(shape)
    outputs_first = any(has_outputs_first(b.desc, own) for b in blocks for own in _tensors(b, state.name))
    random = normal(0.0, deviation_of(shape, outputs_first=outputs_first))
    initial = (zeros(), random) if outputs_first else (random, zeros())
    names = [f"{state.name}.{word}" for word in ((B, A) if outputs_first else (A, B))]
    types = [TensorType(dtype, (rows, rank)), TensorType(dtype, (rank, columns))]
    for name, type, first in zip(names, types, initial, strict=True):
        added = states.add(name, type, pb.STATE_KIND_PARAMETER, first)
        added.trainable, added.rate_scale, added.decay_scale = True, 1.0, 1.0
    growing, *others = blocks
    left, right = (state_tensor(name) for name in names)
    add_to_block(growing, state_tensor(state.name), left, right, scale)
    for block in others:
        for own in _tensors(block, state.name):
            for name, type in zip(names, types, strict=True):
                block.define(name, type)
                block.desc.parameters.add(tensor=name, state=name)
            left, right = (block.value(name) for name in names)
            add_to_block(block, block.value(own), left, right, scale)


def _tensors(block: Block, state: str) -> list[str]:
    """Return the tensor that stands for a state in a block; none if the block does not read it."""
    return [p.tensor for p in block.desc.parameters if p.WhichOneof("source") == "state" and p.state == state]


def is_adapter(name: str) -> bool:
    """Return True for the name of an adapter's state."""
    return name.endswith((f".{A}", f".{B}"))


def matching(states: Sequence[pb.StateDesc], pattern: str, rank: int) -> list[pb.StateDesc]:
    """Return the weights that match a pattern and get adapters; raise OpError if there are none.

    A pattern also matches the name without its last word: "attn.*" and "attn.q" both match "attn.q.w".
    """
    parameters = [s for s in states if s.kind == pb.STATE_KIND_PARAMETER and not is_adapter(s.name)]
    named = [s for s in parameters if fnmatchcase(s.name, pattern) or fnmatchcase(s.name.rpartition(".")[0], pattern)]
    if not named:
        raise OpError(f"lora: no parameter matches {pattern!r}{closest(pattern, [s.name for s in parameters])}")
    chosen = [s for s in named if NAMES[s.dtype] in ("float32", "float64") and min(matrix_of(_shape(s))) > 1]
    if not chosen:
        raise OpError(f"lora: {pattern!r} matches no matrix, only {', '.join(s.name for s in named)}")
    for state in chosen:
        rows, columns = matrix_of(_shape(state))
        if not 1 <= rank <= min(rows, columns):
            raise OpError(f"lora: r={rank} is not from 1 to {min(rows, columns)}, as {state.name} needs")
    return chosen


def matrix_of(shape: Sequence[int]) -> tuple[int, int]:
    """Return rows and columns of a weight as a matrix."""
    splits = [(prod(shape[:k]), prod(shape[k:])) for k in range(1, len(shape))]
    return max(reversed(splits), key=min, default=(prod(shape), 1))


def has_outputs_first(block: pb.BlockDesc, weight: str) -> bool:
    """Return True if the rows of a weight are outputs, as those of PyTorch and ONNX are: its readers transpose it."""
    for op in block.ops:
        if weight not in op.inputs:
            continue
        if op.type == "matmul" and list(op.inputs).index(weight) == 1:
            return bool(attributes_of(op)["transpose_b"])
        return op.type == "transpose"
    return False


def deviation_of(shape: Sequence[int], *, outputs_first: bool) -> float:
    """Return the deviation of the first values of A."""
    rows, columns = matrix_of(shape)
    return 1 / sqrt(columns if outputs_first else rows)


def add_to_block(block: Block, weight: Value, left: Value, right: Value, scale: float) -> None:
    """Let all ops of a block read the sum of a weight and its adapter."""
    readers = list(block.desc.ops)
    with block.appending():
        number = pb.SmallTensor(dtype=NUMBERS[weight.dtype], data=pack(weight.dtype, [scale]))
        factor = ops.constant.on(block)(value=number)
        adapter = ops.reshape(ops.matmul(left, right) * factor, shape=weight.shape)
        total = weight + adapter
    new = list(block.desc.ops)[len(readers) :]
    for op in readers:
        op.inputs[:] = [total.name if name == weight.name else name for name in op.inputs]
    kept = [_copy(op) for op in (*new, *readers)]
    del block.desc.ops[:]
    block.desc.ops.extend(kept)


def scale_of(block: pb.BlockDesc, left: str, right: str) -> float | None:
    """Return the factor alpha / r of an adapter, from the op that multiplies the product; None if there is none."""
    makers = {name: op for op in block.ops for name in op.outputs}
    products = {op.outputs[0] for op in block.ops if op.type == "matmul" and list(op.inputs) == [left, right]}
    scaled = next((op for op in block.ops if op.type == "mul" and op.inputs[0] in products), None)
    if scaled is None:
        return None
    tensor = next(a.tensor_value for a in makers[scaled.inputs[1]].attributes if a.name == "value")
    return float(unpack(NAMES[tensor.dtype], tensor.data)[0])


def _copy(op: pb.OpDesc) -> pb.OpDesc:
    made = pb.OpDesc()
    made.CopyFrom(op)
    return made


def _shape(state: pb.StateDesc) -> list[int]:
    return [int(extent) for extent in shape_of(state.shape)]
