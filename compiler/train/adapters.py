"""Low-rank adapters of weights: W + alpha / r * A @ B, of which only A and B are trained. Hu et al., 2021.

1. A weight of any shape is seen as a matrix: its axes are split in two groups, so that the smaller one is as large as
   possible. A filter of 1x1 windows is the matrix of its channels.
2. The factor on the side of the inputs, A, begins with normal numbers of deviation 1 / sqrt(inputs), and the other one,
   B, with zeros, so that training begins with the weight as it is.
3. A product x @ W becomes x @ W + alpha / r * (x @ A) @ B: no gradient has the size of W, and W may be stored in 16
   bits. All other ops read the sum of W and the product, which is computed once in a step.
4. Both are added to the growing block and to the entries of a file that was opened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from math import prod, sqrt
from typing import Final, NamedTuple

from compiler.build.state_table import StateTable
from compiler.train.initialisers import normal, zeros
from prograd_proto import TensorType, attributes_of
from prograd_proto import program_pb2 as pb
from prograd_proto.dtypes import FLOATS, NAMES, NUMBERS, REALS
from prograd_proto.elements import pack, unpack
from prograd_proto.spelling import closest
from prograd_proto.tensor_types import shape_message, shape_of
from registry import Block, OpError, Value, ops

A: Final = "lora_a"
B: Final = "lora_b"

_LOOK_UPS: Final = ("gather",)
"""Ops that read rows of a weight, and say nothing of the order of its axes."""


class Factors(NamedTuple):
    """The factors of an adapter as tensors of a block: left @ right * scale has the shape of the weight."""

    left: Value
    right: Value
    scale: float

    def scaled(self, block: Block) -> Value:
        """Return the scale as a tensor of the block."""
        number = pb.SmallTensor(dtype=NUMBERS[self.left.dtype], data=pack(self.left.dtype, [self.scale]))
        return ops.constant.on(block)(value=number)


def with_adapters(
    states: StateTable,
    blocks: Sequence[Block],
    state_tensor: Callable[[str], Value],
    patterns: Sequence[str],
    *,
    rank: int,
    alpha: float | None,
) -> list[str]:
    """Add adapters to matching weights, freeze all other parameters, and return the weights.

    `blocks` are the growing block and those of a file's other entries; `state_tensor` gives the tensor of a state in
    the first. Raises OpError for a pattern without matrices, a rank that is too large, and a second adapter.
    """
    descs = [*states.descs.values(), *_coded(states.descs, blocks[0])]
    chosen = list({s.name: s for pattern in patterns for s in matching(descs, pattern, rank)}.values())
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
    shape, dtype = _shape(state), TensorType(NAMES[state.dtype], ()).wide.dtype
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
    weight = state_tensor(state.name) if state.name in states.descs else growing.value(state.name)
    add_to_block(growing, weight, Factors(left, right, scale))
    for block in others:
        for own in _tensors(block, state.name):
            for name, type in zip(names, types, strict=True):
                block.define(name, type)
                block.desc.parameters.add(tensor=name, state=name)
            left, right = (block.value(name) for name in names)
            add_to_block(block, block.value(own), Factors(left, right, scale))


def _coded(states: Mapping[str, pb.StateDesc], block: Block) -> list[pb.StateDesc]:
    """Return descriptions of weights that are codes of few bits, whose tensors `dequantize` makes.

    Those of which a block looks up rows are no weights of products alone, and get no adapters.
    """
    made = {op.outputs[0]: op.inputs[0] for op in block.desc.ops if op.type == "dequantize"}
    looked_up = {op.inputs[0] for op in block.desc.ops if op.type == "gather"}
    return [
        pb.StateDesc(
            name=name, dtype=NUMBERS["float32"], shape=shape_message(block.types[name].shape),
            kind=pb.STATE_KIND_PARAMETER,
        )
        for name, codes in made.items() if f"{name}.codes" in states and codes not in looked_up
    ]  # fmt: skip


def _tensors(block: Block, state: str) -> list[str]:
    """Return the tensor that stands for a weight in a block; none if the block does not read it."""
    if any(op.type == "dequantize" and op.outputs[0] == state for op in block.desc.ops):
        return [state]
    return [p.tensor for p in block.desc.parameters if p.WhichOneof("source") == "state" and p.state == state]


def is_adapter(name: str) -> bool:
    """Return True for the name of an adapter's state."""
    return name.endswith((f".{A}", f".{B}"))


def matching(states: Sequence[pb.StateDesc], pattern: str, rank: int) -> list[pb.StateDesc]:
    """Return the weights that match a pattern and get adapters; raise OpError if there are none.

    A pattern also matches the name without its last word: "attn.*" and "attn.q" both match "attn.q.w". If no name
    matches, the pattern is for the ends of names: "q_proj" matches "model.layers.0.self_attn.q_proj.weight".
    """
    parameters = [s for s in states if s.kind == pb.STATE_KIND_PARAMETER and not is_adapter(s.name)]
    named = [s for s in parameters if _matches(s.name, pattern)] or [
        s for s in parameters if _matches(s.name, f"*.{pattern}")
    ]
    if not named:
        raise OpError(f"lora: no parameter matches {pattern!r}{closest(pattern, [s.name for s in parameters])}")
    chosen = [s for s in named if NAMES[s.dtype] in REALS and min(matrix_of(_shape(s))) > 1]
    if not chosen:
        raise OpError(f"lora: {pattern!r} matches no matrix, only {', '.join(s.name for s in named)}")
    for state in chosen:
        rows, columns = matrix_of(_shape(state))
        if not 1 <= rank <= min(rows, columns):
            raise OpError(f"lora: r={rank} is not from 1 to {min(rows, columns)}, as {state.name} needs")
    return chosen


def _matches(name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern) or fnmatchcase(name.rpartition(".")[0], pattern)


def matrix_of(shape: Sequence[int]) -> tuple[int, int]:
    """Return rows and columns of a weight as a matrix."""
    splits = [(prod(shape[:k]), prod(shape[k:])) for k in range(1, len(shape))]
    return max(reversed(splits), key=min, default=(prod(shape), 1))


def has_outputs_first(block: pb.BlockDesc, weight: str) -> bool:
    """Return True if the rows of a weight are outputs, as those of PyTorch and ONNX are: its readers transpose it."""
    names = {weight}
    for op in block.ops:
        if names.isdisjoint(op.inputs):
            continue
        if op.type == "cast":
            names.update(op.outputs)
        elif op.type == "matmul" and op.inputs[1] in names:
            return bool(attributes_of(op)["transpose_b"])
        elif op.type == "matmul":
            return not attributes_of(op)["transpose_a"]
        elif op.type not in _LOOK_UPS:
            return op.type == "transpose"
    return False


def deviation_of(shape: Sequence[int], *, outputs_first: bool) -> float:
    """Return the deviation of the first values of A."""
    rows, columns = matrix_of(shape)
    return 1 / sqrt(columns if outputs_first else rows)


def add_to_block(block: Block, weight: Value, factors: Factors) -> None:
    """Let all ops of a block compute with the sum of a weight and its adapter: products on a side path."""
    readers = list(block.desc.ops)
    casts = [op for op in readers if op.type == "cast" and op.inputs[0] == weight.name]
    wide = {weight.name, *(op.outputs[0] for op in casts)}
    aside = [op for op in readers if weight.rank == 2 and _is_product(block, op, wide)]
    mine = {id(op) for op in (*aside, *casts)}
    others = [op for op in readers if id(op) not in mine and not wide.isdisjoint(op.inputs)]
    before = _with_sum(block, weight, wide, factors, others) if others else []
    behind = {id(op): _beside(block, op, wide, factors) for op in aside}
    replace_ops(block.desc, [*before, *(each for op in readers for each in (op, *behind.get(id(op), ())))])


def replace_ops(block: pb.BlockDesc, kept: Sequence[pb.OpDesc]) -> None:
    """Replace the ops of a block by copies of these, which may be its own."""
    copies = [_copy(op) for op in kept]
    del block.ops[:]
    block.ops.extend(copies)


def _is_product(block: Block, op: pb.OpDesc, weights: set[str]) -> bool:
    """Return True for a product of a weight and activations, which have the dtype of adapters."""
    if op.type != "matmul" or len(weights.intersection(op.inputs)) != 1:
        return False
    return all(block.types[name].dtype in FLOATS for name in op.inputs)


def _with_sum(
    block: Block, weight: Value, wide: set[str], factors: Factors, readers: Sequence[pb.OpDesc]
) -> list[pb.OpDesc]:
    """Let ops read the sum of a weight and the product of its factors; return the ops that compute it."""
    count = len(block.desc.ops)
    with block.appending():
        first = weight if weight.dtype == factors.left.dtype else ops.cast(weight, dtype=factors.left.dtype)
        adapter = ops.reshape(ops.matmul(factors.left, factors.right) * factors.scaled(block), shape=weight.shape)
        total = first + adapter
        stored = total if total.dtype == weight.dtype else ops.cast(total, dtype=weight.dtype)
    for op in readers:
        op.inputs[:] = [(stored if name == weight.name else total).name if name in wide else name for name in op.inputs]
    return _taken(block, count)


def _beside(block: Block, op: pb.OpDesc, weights: set[str], factors: Factors) -> list[pb.OpDesc]:
    """Add the product with the factors to that with the weight, under its name; return the new ops."""
    count = len(block.desc.ops)
    a, b = (bool(attributes_of(op)[name]) for name in ("transpose_a", "transpose_b"))
    with block.appending():
        if op.inputs[1] in weights:
            first, second = (factors.right, factors.left) if b else (factors.left, factors.right)
            inner = ops.matmul(block.value(op.inputs[0]), first, transpose_a=a, transpose_b=b)
            side = ops.matmul(inner, second, transpose_b=b)
        else:  # the weight is on the left, and the activations are its columns
            first, second = (factors.left, factors.right) if a else (factors.right, factors.left)
            inner = ops.matmul(first, block.value(op.inputs[1]), transpose_a=a, transpose_b=b)
            side = ops.matmul(second, inner, transpose_a=a)
        total = block.value(op.outputs[0]) + side * factors.scaled(block)
    new = _taken(block, count)
    name, other = op.outputs[0], total.name
    op.outputs[0], new[-1].outputs[0] = other, name
    new[-1].inputs[:] = [other if each == name else each for each in new[-1].inputs]
    return new


def _taken(block: Block, count: int) -> list[pb.OpDesc]:
    """Remove the ops behind the first `count` from a block, and return copies of them."""
    new = [_copy(op) for op in list(block.desc.ops)[count:]]
    del block.desc.ops[count:]
    return new


class Adapter(NamedTuple):
    """An adapter as a block computes it: the factors with W + scale * left @ right, and the product beside it.

    `beside` is the sum op and the product with the weight, for an adapter on a side path.
    """

    left: str
    right: str
    scale: float
    beside: list[tuple[pb.OpDesc, pb.OpDesc]]


def adapter_of(block: pb.BlockDesc, a: str, b: str) -> Adapter | None:
    """Return the adapter of two tensors of factors, A and B, in a block; None if the block does not multiply them."""
    makers = {name: op for op in block.ops for name in op.outputs}
    found: Adapter | None = None
    for op in block.ops:
        product = makers.get(op.inputs[0]) if op.type == "mul" else None
        if product is None or product.type != "matmul":
            continue
        if {*product.inputs} == {a, b}:
            found = found or Adapter(product.inputs[0], product.inputs[1], _number(makers[op.inputs[1]]), [])
            continue
        inner = makers.get(product.inputs[0])
        if inner is None or inner.type != "matmul" or {inner.inputs[1], product.inputs[1]} != {a, b}:
            continue
        first, second = inner.inputs[1], product.inputs[1]
        left, right = (second, first) if attributes_of(product)["transpose_b"] else (first, second)
        total = next(each for each in block.ops if each.type == "add" and each.inputs[1] == op.outputs[0])
        found = found or Adapter(left, right, _number(makers[op.inputs[1]]), [])
        found.beside.append((total, makers[total.inputs[0]]))
    return found


def _number(op: pb.OpDesc) -> float:
    """Return the number of a constant."""
    tensor = next(a.tensor_value for a in op.attributes if a.name == "value")
    return float(unpack(NAMES[tensor.dtype], tensor.data)[0])


def _copy(op: pb.OpDesc) -> pb.OpDesc:
    made = pb.OpDesc()
    made.CopyFrom(op)
    return made


def _shape(state: pb.StateDesc) -> list[int]:
    return [int(extent) for extent in shape_of(state.shape)]
