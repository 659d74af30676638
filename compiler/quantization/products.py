"""Products of codes in place of products of floats, in a growing block.

1. A product or a convolution of x and a weight W quantises x by one scale and zero point, multiplies codes exactly, and
   scales the sums to float32 under the name of its result. The native engine fuses these ops with their neighbours.
2. A normalisation by running statistics, or another multiple of each channel behind a product, becomes part of the
   scales of the channels if no other op reads the values in between; no code changes.
3. Maxima of windows before a product are maxima of codes, which take a quarter of the memory.
4. A recurrent layer becomes a loop over time, whose steps multiply the codes of states; see `recurrent`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from compiler.quantization.recurrent import Layer, steps_of_codes
from compiler.quantization.weight_names import matches, parameters_of
from compiler.train.adapters import is_adapter
from compiler.train.written_ops import replace_ops, written
from prograd_proto import attributes_of
from prograd_proto import program_pb2 as pb
from prograd_proto.dtypes import NAMES
from prograd_proto.files import copy_of
from prograd_proto.tensor_types import shape_of
from registry import OPS, Block, OpError, Value, ops
from registry.ops.recurrent import CELLS

MAX_CODE: Final = 255
LARGEST: Final = 127
"""The largest number of a weight, in units of its scale."""

WEIGHT_ZERO: Final = 128

RANKS: Final = {"matmul": 2, "conv2d": 4}
"""The operators that multiply integers, and the axes of their weights."""

MOVES: Final = ("reshape", "transpose")
"""Operators between a pooling and a product, which move elements."""

SHIFTS: Final = ("add", "sub")
"""The operators that may stand behind a product, before or behind its multiple."""


def weights_of(
    states: Mapping[str, pb.StateDesc], read: Collection[str], keep: Sequence[str], what: str = "quantize"
) -> list[str]:
    """Return the weights of products whose operands become integers: parameters but those that `keep` matches.

    `read` are the states that products read as weights.

    Raises OpError, which begins with `what`, for a pattern that matches nothing, and if no weight is left.
    """
    chosen = [
        name
        for name in parameters_of(states, keep, what)
        if name in read
        and NAMES[states[name].dtype] == "float32"
        and not is_adapter(name)
        and not any(matches(name, pattern) for pattern in keep)
    ]
    if not chosen:
        raise OpError(f"{what}: no matmul and no conv2d reads a parameter of float32; there is nothing to do")
    return chosen


def products_of(block: pb.BlockDesc, *, is_turned: bool = False) -> dict[str, list[pb.OpDesc]]:
    """Return the products of a block by the state that is their weight, or whose transpose is, with `is_turned`."""
    states = {p.tensor: p.state for p in block.parameters if p.WhichOneof("source") == "state"}
    ranks = {tensor.name: len(shape_of(tensor.shape)) for tensor in block.tensors}
    made: dict[str, list[pb.OpDesc]] = {}
    for op in block.ops:
        is_product = op.type in RANKS and op.stage <= pb.STAGE_FORWARD
        if is_product and op.inputs[1] in states and ranks[op.inputs[1]] == RANKS[op.type] and _fits(op, is_turned):
            made.setdefault(states[op.inputs[1]], []).append(op)
    return made


def _fits(op: pb.OpDesc, is_turned: bool) -> bool:
    given = attributes_of(op)
    return not given.get("transpose_a") and bool(given.get("transpose_b")) == is_turned


def turned_weights(blocks: Sequence[pb.BlockDesc]) -> set[str]:
    """Return the states whose transposes are the only form that blocks multiply by, such as those of embeddings."""
    plain = {name for block in blocks for name in products_of(block)}
    return {name for block in blocks for name in products_of(block, is_turned=True)} - plain


def layers_of(block: pb.BlockDesc) -> dict[str, list[pb.OpDesc]]:
    """Return the recurrent layers of a block by the state that their states are multiplied by."""
    states = {p.tensor: p.state for p in block.parameters if p.WhichOneof("source") == "state"}
    made: dict[str, list[pb.OpDesc]] = {}
    for op in block.ops:
        if op.type in CELLS and op.stage <= pb.STAGE_FORWARD and op.inputs[1] in states:
            made.setdefault(states[op.inputs[1]], []).append(op)
    return made


def all_products(block: pb.BlockDesc) -> dict[str, list[pb.OpDesc]]:
    """Return the products of a block by their weights; a weight without any has its products by the transpose."""
    return products_of(block, is_turned=True) | products_of(block)


def multiply_codes(block: Block, layers: Mapping[str, Layer], products: set[str]) -> None:
    """Let the products that make some tensors multiply codes; `layers` are those of the tensors of weights.

    Other ops read a weight as it was, under its name.
    """
    makers = {op.outputs[0]: copy_of(op) for op in block.desc.ops if op.outputs and op.outputs[0] in products}
    chains = {result: [] if makers[result].type in CELLS else _scaling(block, result) for result in makers}
    written_at = {[makers[result], *chain][-1].id: result for result, chain in chains.items()}
    absorbed = {op.id: op for result, chain in chains.items() for op in [makers[result], *chain][:-1]}
    pooling = {r: _pooling(block.desc, op.inputs[0]) for r, op in makers.items() if op.type not in CELLS}
    made: list[pb.OpDesc] = []
    for op in [copy_of(op) for op in block.desc.ops]:
        if op.id in written_at:
            result = written_at[op.id]
            layer = layers[makers[result].inputs[1]]
            if op.type in CELLS:
                made += steps_of_codes(block, op, layer, weight_zero)
            else:
                made += _product(block, makers[result], layer, chains[result], pooling[result])
        elif op.id not in absorbed:
            made.append(op)
    replace_ops(block.desc, made)
    for op in absorbed.values():
        block.desc.tensors.remove(block.tensors.pop(op.outputs[0]))
        del block.types[op.outputs[0]]


def _scaling(block: Block, result: str) -> list[pb.OpDesc]:
    """Return the ops after a product that can be merged into its scale; none unless one of them multiplies."""
    width, ends = block.types[result].shape[-1], ends_of(block.desc)
    invariant, readers = _invariant(block.desc), readers_of(block.desc)
    found: list[pb.OpDesc] = []
    name = result
    while name not in ends and len(readers.get(name, ())) == 1:
        op = readers[name][0]
        if not (op.type == "mul" or op.type in SHIFTS) or op.inputs[0] == op.inputs[1]:
            break
        other = op.inputs[1] if op.inputs[0] == name else op.inputs[0]
        if other not in invariant or block.types[other].shape not in ((), (width,)):
            break
        if op.type == "sub" and op.inputs[0] != name:
            break
        found.append(copy_of(op))
        name = op.outputs[0]
    return found if any(op.type == "mul" for op in found) else []


def _pooling(block: pb.BlockDesc, name: str) -> list[pb.OpDesc]:
    """Return the ops that make a tensor by maxima of windows, the first of them a pooling; none unless it is read once.

    Codes have the order of their numbers, so the maximum of codes is the code of the maximum.
    """
    makers, readers = {name: op for op in block.ops for name in op.outputs}, readers_of(block)
    found: list[pb.OpDesc] = []
    while name in makers and len(readers[name]) == 1 and name not in ends_of(block):
        op = makers[name]
        if op.type == "max_pool2d":
            return [copy_of(op), *found]
        if op.type not in MOVES:
            break
        found.insert(0, copy_of(op))
        name = op.inputs[0]
    return []


def readers_of(block: pb.BlockDesc) -> dict[str, list[pb.OpDesc]]:
    """Return the ops that read each tensor."""
    found: dict[str, list[pb.OpDesc]] = {}
    for op in block.ops:
        for name in op.inputs:
            found.setdefault(name, []).append(op)
    return found


def ends_of(block: pb.BlockDesc) -> set[str]:
    """Return the tensors that are read after a block."""
    return {f.tensor for f in block.fetches} | {u.tensor for u in block.updates} | {*block.results}


def _invariant(block: pb.BlockDesc) -> set[str]:
    """Return the tensors that follow from states alone."""
    found = {p.tensor for p in block.parameters if p.WhichOneof("source") == "state"}
    for op in block.ops:
        if not op.random_stream and not op.blocks and found.issuperset(filter(None, op.inputs)):
            found.update(op.outputs)
    return found


def _product(
    block: Block, op: pb.OpDesc, layer: Layer, scaling: Sequence[pb.OpDesc], pooling: Sequence[pb.OpDesc]
) -> list[pb.OpDesc]:
    """Return the ops of a product, the ops merged into its scale, and the ops that pool its operand.

    The last of them makes the last result under its name.
    """
    given, name = attributes_of(op), op.outputs[0]

    def write() -> Value:
        source = pooling[0].inputs[0] if pooling else op.inputs[0]
        x = ops.quantize_linear(block.value(source), layer.scale, layer.zero)
        for each in pooling:
            x = OPS[each.type](x, **attributes_of(each))
        zero = weight_zero(block)
        if op.type == "matmul":
            codes = ops.transpose(layer.codes) if layer.is_turned else layer.codes
            sums = ops.integer_matmul(x, codes, layer.zero, zero)
        else:
            window = {name: given[name] for name in ("stride", "padding", "dilation", "groups")}
            sums = ops.integer_conv2d(x, layer.codes, layer.zero, zero, **window)  # type: ignore[arg-type]
        scales, shift = _affine(block, name, layer.channel_scales, scaling)
        y = ops.cast(sums, dtype="float32") * (layer.scale * scales)
        return y if shift is None else y + shift

    block.at(op.location)
    made = written(block, scaling[-1].outputs[0] if scaling else name, write)
    block.at(None)
    return made


def _affine(block: Block, name: str, scales: Value, scaling: Sequence[pb.OpDesc]) -> tuple[Value, Value | None]:
    """Return the scales of channels, and the bias added after them, for a product whose result has this name."""
    shift: Value | None = None
    for op in scaling:
        other = block.value(op.inputs[1] if op.inputs[0] == name else op.inputs[0])
        name = op.outputs[0]
        if op.type == "mul":
            scales, shift = scales * other, None if shift is None else shift * other
        elif op.type == "add":
            shift = other if shift is None else shift + other
        else:
            shift = -other if shift is None else shift - other
    return scales, shift


def weight_zero(block: Block) -> Value:
    """Return the zero point of weights."""
    return ops.full.on(block)(shape=(), value=WEIGHT_ZERO, dtype="uint8")


def whole_weights(block: Block, layers: Mapping[str, Layer]) -> None:
    """Make the weights that ops still read out of their codes, under their names, before the first reader."""
    missing, made = dict(layers), list[pb.OpDesc]()

    def whole(name: str, layer: Layer) -> list[pb.OpDesc]:
        return written(block, name, lambda: ops.dequantize_linear(layer.codes, layer.scales, weight_zero(block)))

    for op in [copy_of(op) for op in block.desc.ops]:
        for name in [name for name in dict.fromkeys(op.inputs) if name in missing]:
            made += whole(name, missing.pop(name))
        made.append(op)
    ends = ends_of(block.desc)
    for name in [name for name in missing if name in ends]:
        made += whole(name, missing.pop(name))
    replace_ops(block.desc, made)
