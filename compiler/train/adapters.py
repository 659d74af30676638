"""Low-rank adapters of weights: W + alpha / r * A @ B, of which only A and B are trained. Hu et al., 2021.

1. A weight of any shape is seen as a matrix: its axes are split in two groups, so that the smaller one is as large as
   possible. A filter of 1x1 windows is the matrix of its channels.
2. A, the factor on the side of the inputs, begins with normal numbers of deviation 1 / sqrt(inputs). B, the other
   factor, begins with zeros, so that training begins with the weight as it is.
3. A product x @ W becomes x @ W + alpha / r * (x @ A) @ B: no gradient has the size of W, and W may be stored in 16
   bits. All other ops read the sum of W and the product, which is computed once in a step.
4. DoRA (Liu et al., 2024) multiplies each output of such a product by m / |W + alpha / r * A @ B|, the norm of the
   output's weights, which is constant in gradients. The magnitudes m are trained, and begin as the norms of W.
5. All is added to the growing block and to the entries of a file that was opened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod, sqrt
from typing import Final, NamedTuple

from compiler.build.state_table import StateTable
from compiler.quantization.weight_names import matches
from compiler.train.initialisers import FromFile, Initialiser, normal, zeros
from compiler.train.written_ops import replace_ops, taken
from prograd_proto import TensorType, attributes_of
from prograd_proto import program_pb2 as pb
from prograd_proto.dtypes import FLOATS, NAMES, NUMBERS, REALS
from prograd_proto.elements import pack, unpack
from prograd_proto.spelling import closest
from prograd_proto.tensor_types import shape_message, shape_of
from registry import Block, OpError, Value, ops

A: Final = "lora_a"
B: Final = "lora_b"
MAGNITUDE: Final = "lora_magnitude"

Norms = Callable[[str, bool], FromFile]
"""A function from a weight, and True if its rows are outputs, to the norms of the weights of each output."""

_LOOK_UPS: Final = ("gather",)
"""Ops that read rows of a weight, and say nothing of the order of its axes."""


class Factors(NamedTuple):
    """The factors of an adapter as tensors of a block: left @ right * scale has the shape of the weight.

    `magnitude` has the norms of the adapted outputs, for DoRA.
    """

    left: Value
    right: Value
    scale: float
    magnitude: Value | None = None

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
    norms: Norms | None = None,
) -> list[str]:
    """Add adapters to matching weights, freeze all other parameters, and return the weights.

    `blocks` are the growing block and those of a file's other entries; `state_tensor` gives the tensor of a state in
    the first. With `norms`, which gives the initial magnitudes, adapters are those of DoRA. Raises OpError for a
    pattern without matrices, a rank that is too large, a second adapter, and for DoRA of what is no weight of products.
    """
    descs = [*states.descs.values(), *_coded(states.descs, blocks[0])]
    chosen = list({s.name: s for pattern in patterns for s in matching(descs, pattern, rank)}.values())
    for state in chosen:
        if f"{state.name}.{A}" in states.descs:
            raise OpError(f"lora: {state.name} has an adapter already")
        if norms is not None:
            _require_products(blocks, state.name)
    magnitudes = {} if norms is None else {s.name: norms(s.name, _outputs_first(blocks, s.name)) for s in chosen}
    for state in chosen:
        scale = (rank if alpha is None else alpha) / rank
        _adapt(states, blocks, state_tensor, state, rank, scale, magnitudes.get(state.name))
    for name, state in states.descs.items():
        if state.kind == pb.STATE_KIND_PARAMETER and not is_adapter(name):
            state.trainable = False
    return [state.name for state in chosen]


def _outputs_first(blocks: Sequence[Block], name: str) -> bool:
    return any(has_outputs_first(b.desc, own) for b in blocks for own in _tensors(b, name))


def _require_products(blocks: Sequence[Block], name: str) -> None:
    """Raise OpError unless all readers of a weight are products of activations with it, in one orientation."""
    turned = _outputs_first(blocks, name)
    for block in blocks:
        for own in _tensors(block, name):
            wide = {own, *(op.outputs[0] for op in block.desc.ops if op.type == "cast" and op.inputs[0] == own)}
            for op in block.desc.ops:
                if wide.isdisjoint(op.inputs) or (op.type == "cast" and op.outputs[0] in wide):
                    continue
                is_product = block.value(own).rank == 2 and _is_product(block, op, wide)
                if not is_product or _has_output_rows(op, wide) != turned:
                    raise OpError(
                        f"lora: DoRA is for weights of two axes that only products read, all in one orientation, and "
                        f"{op.type} reads {name}; leave it out, or add its adapter without dora"
                    )


def _has_output_rows(op: pb.OpDesc, weights: set[str]) -> bool:
    """Return True if the rows of the weight in a product are outputs."""
    attributes = attributes_of(op)
    return bool(attributes["transpose_b"]) if op.inputs[1] in weights else not attributes["transpose_a"]


def _adapt(
    states: StateTable,
    blocks: Sequence[Block],
    state_tensor: Callable[[str], Value],
    state: pb.StateDesc,
    rank: int,
    scale: float,
    magnitudes: FromFile | None,
) -> None:
    """Add the adapter of one weight to all blocks."""
    shape, dtype = _shape(state), TensorType(NAMES[state.dtype], ()).wide.dtype
    rows, columns = matrix_of(shape)
    outputs_first = _outputs_first(blocks, state.name)
    random = normal(0.0, deviation_of(shape, outputs_first=outputs_first))
    initial: list[Initialiser | FromFile] = [zeros(), random] if outputs_first else [random, zeros()]
    names = [f"{state.name}.{word}" for word in ((B, A) if outputs_first else (A, B))]
    types = [TensorType(dtype, (rows, rank)), TensorType(dtype, (rank, columns))]
    if magnitudes is not None:
        names.append(f"{state.name}.{MAGNITUDE}")
        types.append(TensorType(dtype, (rows if outputs_first else columns,)))
        initial.append(magnitudes)
    for name, type, first in zip(names, types, initial, strict=True):
        added = states.add(name, type, pb.STATE_KIND_PARAMETER, first)
        added.trainable, added.rate_scale, added.decay_scale = True, 1.0, 1.0
    growing, *others = blocks
    left, right, *more = (state_tensor(name) for name in names)
    weight = state_tensor(state.name) if state.name in states.descs else growing.value(state.name)
    add_to_block(growing, weight, Factors(left, right, scale, *more))
    for block in others:
        for own in _tensors(block, state.name):
            for name, type in zip(names, types, strict=True):
                block.define(name, type)
                block.desc.parameters.add(tensor=name, state=name)
            left, right, *more = (block.value(name) for name in names)
            add_to_block(block, block.value(own), Factors(left, right, scale, *more))


def _coded(states: Mapping[str, pb.StateDesc], block: Block) -> list[pb.StateDesc]:
    """Return descriptions of weights that are codes of few bits, whose tensors `dequantize` makes.

    Weights whose rows a block looks up get no adapters, because they are not only used in products.
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
    return name.endswith((f".{A}", f".{B}", f".{MAGNITUDE}"))


def matching(states: Sequence[pb.StateDesc], pattern: str, rank: int) -> list[pb.StateDesc]:
    """Return the weights that match a pattern and get adapters; raise OpError if there are none.

    A pattern also matches the name without its last word: "attn.*" and "attn.q" both match "attn.q.w". If no name
    matches, the pattern is for the ends of names: "q_proj" matches "model.layers.0.self_attn.q_proj.weight".
    """
    parameters = [s for s in states if s.kind == pb.STATE_KIND_PARAMETER and not is_adapter(s.name)]
    named = [s for s in parameters if matches(s.name, pattern)] or [
        s for s in parameters if matches(s.name, f"*.{pattern}")
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


def matrix_of(shape: Sequence[int]) -> tuple[int, int]:
    """Return rows and columns of a weight as a matrix."""
    splits = [(prod(shape[:k]), prod(shape[k:])) for k in range(1, len(shape))]
    return max(reversed(splits), key=min, default=(prod(shape), 1))


def has_outputs_first(block: pb.BlockDesc, weight: str) -> bool:
    """Return True if the rows of a weight are outputs, as in PyTorch and ONNX: its readers transpose it."""
    names = {weight}
    for op in block.ops:
        if names.isdisjoint(op.inputs):
            continue
        if op.type == "cast":
            names.update(op.outputs)
        elif op.type == "matmul":
            return _has_output_rows(op, names)
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
    stretch, share = _stretch(block, weight, wide, factors, aside)
    first = {id(op): stretch for op in aside[:1]}
    behind = {id(op): _beside(block, op, wide, factors, share) for op in aside}
    made = [each for op in readers for each in (*first.get(id(op), ()), op, *behind.get(id(op), ()))]
    replace_ops(block.desc, [*before, *made])


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
    return taken(block, count)


def _stretch(
    block: Block, weight: Value, wide: set[str], factors: Factors, products: Sequence[pb.OpDesc]
) -> tuple[list[pb.OpDesc], Value | None]:
    """Return the factors of DoRA by which the outputs of products are multiplied, and the ops that compute them."""
    if factors.magnitude is None or not products:
        return [], None
    count, outputs_first = len(block.desc.ops), _has_output_rows(products[0], wide)
    with block.appending():
        first = weight if weight.dtype == factors.left.dtype else ops.cast(weight, dtype=factors.left.dtype)
        total = first + ops.matmul(factors.left, factors.right) * factors.scaled(block)
        norm = ops.sqrt(ops.sum(total * total, axis=(1 if outputs_first else 0,)))
        share = factors.magnitude / ops.stop_gradient(norm)
    return taken(block, count), share


def _beside(block: Block, op: pb.OpDesc, weights: set[str], factors: Factors, share: Value | None) -> list[pb.OpDesc]:
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
        if share is not None:  # a weight on the left has its outputs in rows
            total = total * (share if op.inputs[1] in weights else ops.unsqueeze(share, axis=(1,)))
    new = taken(block, count)
    name, other = op.outputs[0], total.name
    op.outputs[0], new[-1].outputs[0] = other, name
    for each in new:
        each.inputs[:] = [other if one == name else one for one in each.inputs]
    return new


class Adapter(NamedTuple):
    """An adapter as a block computes it: the factors with W + scale * left @ right, and the product beside it.

    `beside` has, for each product with the weight, that product and the ops after it; the last of them makes the
    result.
    """

    left: str
    right: str
    scale: float
    beside: list[tuple[list[pb.OpDesc], pb.OpDesc]]


def adapter_of(block: pb.BlockDesc, a: str, b: str, magnitude: str | None) -> Adapter | None:
    """Return the adapter of the tensors A, B and magnitudes in a block; None if the block does not multiply them."""
    makers = {name: op for op in block.ops for name in op.outputs}
    found: Adapter | None = None
    for op in block.ops:
        product = makers.get(op.inputs[0]) if op.type == "mul" else None
        if product is None or product.type != "matmul":
            continue
        if {*product.inputs} == {a, b} and magnitude is None:
            found = found or Adapter(product.inputs[0], product.inputs[1], _number(makers[op.inputs[1]]), [])
            continue
        pair = _side_factors(product, makers, {a, b})
        if pair is None:
            continue
        total = next(each for each in block.ops if each.type == "add" and each.inputs[1] == op.outputs[0])
        found = found or Adapter(*pair, _number(makers[op.inputs[1]]), [])
        behind = [total]
        if magnitude is not None:
            behind.append(next(each for each in block.ops if each.type == "mul" and each.inputs[0] == total.outputs[0]))
        found.beside.append((behind, makers[total.inputs[0]]))
    return found


def _side_factors(product: pb.OpDesc, makers: Mapping[str, pb.OpDesc], factors: set[str]) -> tuple[str, str] | None:
    """Return the left and the right factor of a product that `_beside` made; None for another one."""
    for at in (0, 1):  # the position of activations: the weight is on the right, or on the left
        inner, second = makers.get(product.inputs[at]), product.inputs[1 - at]
        if inner is None or inner.type != "matmul" or {inner.inputs[1 - at], second} != factors:
            continue
        first, turned = inner.inputs[1 - at], attributes_of(product)["transpose_a" if at else "transpose_b"]
        return (first, second) if turned == bool(at) else (second, first)
    return None


def _number(op: pb.OpDesc) -> float:
    """Return the number of a constant."""
    tensor = next(a.tensor_value for a in op.attributes if a.name == "value")
    return float(unpack(NAMES[tensor.dtype], tensor.data)[0])


def _shape(state: pb.StateDesc) -> list[int]:
    return [int(extent) for extent in shape_of(state.shape)]
