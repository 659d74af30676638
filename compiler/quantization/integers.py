"""A program whose products multiply integers of eight bits; all other ops compute with floats.

1. A product or a convolution of x and a weight W quantises x by one scale and zero point, multiplies codes exactly, and
   scales the sums to float32 under the name of its result. The native engine fuses these ops with their neighbours.
2. The weight is symmetric: its numbers are -127 ... 127 times a scale for each result channel, carried with the zero
   point 128. Ops that read W otherwise get the numbers that the codes stand for.
3. A program that trains one of the weights trains no longer.
"""

# pyright: basic
# arrays have no types here.

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from compiler.quantization.quantized import CODES, SCALES, matches, read_parts
from compiler.train.adapters import is_adapter
from compiler.train.written_ops import copied, replace_ops, written
from prograd_proto import TensorType, attributes_of
from prograd_proto import program_pb2 as pb
from prograd_proto.dtypes import NAMES
from prograd_proto.spelling import closest
from prograd_proto.tensor_types import shape_of
from registry import Block, OpError, Value, ops

FORM: Final = "int8"

INPUT_SCALE: Final = "input_scale"
INPUT_ZERO: Final = "input_zero"

MAX_CODE: Final = 255
LARGEST: Final = 127
"""The largest number of a weight, in units of its scale."""

WEIGHT_ZERO: Final = 128

RANKS: Final = {"matmul": 2, "conv2d": 4}
"""The operators that multiply integers, and the axes of their weights."""


class Range(NamedTuple):
    """The least and the largest number of an operand, with 0 between them."""

    least: float
    most: float


def weights_of(states: Mapping[str, pb.StateDesc], blocks: Sequence[pb.BlockDesc], keep: Sequence[str]) -> list[str]:
    """Return the weights of products whose operands become integers: parameters but those that `keep` matches.

    Raises OpError for a pattern that matches nothing, and if no weight is left.
    """
    parameters = [name for name, state in states.items() if state.kind == pb.STATE_KIND_PARAMETER]
    for pattern in keep:
        if not any(matches(name, pattern) for name in parameters):
            raise OpError(f"quantize: keep={pattern!r} matches no parameter{closest(pattern, parameters)}")
    read = {name for block in blocks for name in products_of(block)}
    chosen = [
        name
        for name in parameters
        if name in read
        and NAMES[states[name].dtype] == "float32"
        and not is_adapter(name)
        and not any(matches(name, pattern) for pattern in keep)
    ]
    if not chosen:
        raise OpError("quantize: no matmul and no conv2d reads a parameter of float32; there is nothing to do")
    return chosen


def products_of(block: pb.BlockDesc) -> dict[str, list[pb.OpDesc]]:
    """Return the products of a block by the state that is their weight."""
    states = {p.tensor: p.state for p in block.parameters if p.WhichOneof("source") == "state"}
    ranks = {tensor.name: len(shape_of(tensor.shape)) for tensor in block.tensors}
    made: dict[str, list[pb.OpDesc]] = {}
    for op in block.ops:
        if op.type in RANKS and op.inputs[1] in states and ranks[op.inputs[1]] == RANKS[op.type] and _is_plain(op):
            made.setdefault(states[op.inputs[1]], []).append(op)
    return made


def _is_plain(op: pb.OpDesc) -> bool:
    given = attributes_of(op)
    return not given.get("transpose_a") and not given.get("transpose_b")


def codes_of(name: str, array: Any, found: Range) -> dict[str, Any]:
    """Return the arrays that stand for a weight and for the range of its operand, by name.

    Raises OpError for a weight or a range without a scale.
    """
    if not np.isfinite(array).all():
        raise OpError(f"quantize: {name} has NaN or infinities; keep={name!r} leaves it as it is")
    largest = np.abs(array).reshape(-1, array.shape[-1]).max(0).astype(np.float32)
    scales = np.where(largest > 0, largest / np.float32(LARGEST), np.float32(1)).astype(np.float32)
    codes = (np.clip(np.rint(array / scales), -LARGEST, LARGEST) + WEIGHT_ZERO).astype(np.uint8)
    scale, zero = scale_and_zero(name, found)
    return {
        f"{name}.{CODES}": codes,
        f"{name}.{SCALES}": scales,
        f"{name}.{INPUT_SCALE}": np.asarray(scale, np.float32),
        f"{name}.{INPUT_ZERO}": np.asarray(zero, np.uint8),
    }


def scale_and_zero(name: str, found: Range) -> tuple[Any, int]:
    """Return the scale and the zero point of a range; raise OpError for one that has none."""
    if not np.isfinite(found).all():
        raise OpError(
            f"quantize: the operand that {name} multiplies has NaN or infinities in these rows; keep={name!r} leaves "
            "it as it is"
        )
    scale = (np.float32(found.most) - np.float32(found.least)) / np.float32(MAX_CODE)
    if not scale > 0:
        raise OpError(
            f"quantize: the operand that {name} multiplies is 0 in all of these rows, so its scale would be 0; give "
            f"rows that reach it, or leave it as it is by keep={name!r}"
        )
    return scale, int(np.clip(np.rint(-np.float32(found.least) / scale), 0, MAX_CODE))


def multiply_in(block: Block, types: Mapping[str, Sequence[TensorType]]) -> None:
    """Let the products of a block multiply codes; `types` are those of the arrays of `codes_of`, by weight."""
    products = {op.outputs[0] for found in products_of(block.desc).values() for op in found}
    layers = read_parts(block, types, (CODES, SCALES, INPUT_SCALE, INPUT_ZERO))
    if layers:
        _rewrite(block, layers, products)


def _rewrite(block: Block, layers: Mapping[str, list[Value]], products: set[str]) -> None:
    """Write the ops anew: products of codes, and weights whole for ops that read them otherwise."""
    old, made, missing = [copied(op) for op in block.desc.ops], list[pb.OpDesc](), dict(layers)
    ends = {f.tensor for f in block.desc.fetches} | {u.tensor for u in block.desc.updates}

    def whole(tensor: str) -> list[pb.OpDesc]:
        codes, scales, *_ = missing.pop(tensor)
        return written(block, tensor, lambda: ops.dequantize_linear(codes, scales, _weight_zero(block)))

    for op in old:
        if op.type in RANKS and op.inputs[1] in layers and op.outputs[0] in products:
            made += _product(block, op, layers[op.inputs[1]])
            continue
        for name in dict.fromkeys(op.inputs):
            made += whole(name) if name in missing else []
        made.append(op)
    for tensor in [tensor for tensor in missing if tensor in ends]:
        made += whole(tensor)
    replace_ops(block.desc, made)


def _product(block: Block, op: pb.OpDesc, layer: Sequence[Value]) -> list[pb.OpDesc]:
    """Return the ops of a product, under the name of its result."""
    codes, scales, scale, zero = layer
    given = attributes_of(op)

    def write() -> Value:
        x = ops.quantize_linear(block.value(op.inputs[0]), scale, zero)
        if op.type == "matmul":
            sums = ops.integer_matmul(x, codes, zero, _weight_zero(block))
        else:
            window = {name: given[name] for name in ("stride", "padding", "dilation", "groups")}
            sums = ops.integer_conv2d(x, codes, zero, _weight_zero(block), **window)  # type: ignore[arg-type]
        return ops.cast(sums, dtype="float32") * (scale * scales)

    return written(block, op.outputs[0], write)


def _weight_zero(block: Block) -> Value:
    return ops.full.on(block)(shape=(), value=WEIGHT_ZERO, dtype="uint8")
