"""Pass: train with the numbers that integers of eight bits stand for, and evaluate with the integers.

1. A product or a convolution of x and a parameter W, in the forward pass of training, reads the numbers that the codes
   of x and of W stand for, and so do its gradients. Gradients pass through the rounding unchanged, also at the ends of
   a range: the straight-through estimator of Bengio, Leonard and Courville, 2013.
2. The codes of W are symmetric, -127 ... 127 times a scale for each result channel: for each row, if products multiply
   by the transpose of W. Other forward ops that read W, such as a gather of an embedding, also read the numbers of its
   codes.
3. The range of x is a moving average of the least and the largest numbers of each step, with 0 between them, which
   begins with the first step; both ends are buffers, `W.input_least` and `W.input_most`. Jacob et al., 2018.
4. An entry that does not train computes codes and scales of parameters and ranges, multiplies codes and scales their
   sums, as the program does that `compiler quantize` makes: it has the same bits.
5. Batch normalisation trains with the statistics of the batch, to the end. Its multiple of each channel becomes part of
   the scale of that channel in other entries, as `compiler.quantization.products` does it. The scale of each result
   channel includes this multiple, so no code changes, and weights need not be folded during training.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Final

from compiler.analyses.rows_of_batch import MARK
from compiler.build.state_table import StateTable
from compiler.errors import CompileError
from compiler.quantization.products import (
    LARGEST,
    MAX_CODE,
    Layer,
    all_products,
    multiply_codes,
    products_of,
    turned_weights,
    weight_zero,
    weights_of,
)
from compiler.quantization.weight_names import CODES, INPUT_SCALE, INPUT_ZERO, SCALES, matches
from compiler.train.initialisers import zeros
from compiler.train.written_ops import replace_ops, taken
from prograd_proto import TensorType
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalyses
from prograd_proto.files import copy_of
from prograd_proto.states import INPUT_LEAST, INPUT_MOST, is_range, trains
from registry import Block, OpError, Value, ops
from registry.control.control_op import CONTROL
from registry.op import find_op
from registry.ops.recurrent import CELLS

DTYPE: Final = "int8"

OLD_SHARE: Final = 0.99
"""Weight of the old end of a range at each step."""

END: Final = TensorType("float32", ())


def fake_quantize(program: BlockAnalyses, *, dtype: str = "", keep: str = "") -> None:
    """Train with the numbers that integers of eight bits stand for; off unless `dtype` is given.

    Args:
        program: its source blocks are edited, and it gets states for ranges.
        dtype: int8, or nothing for a program as it was built.
        keep: patterns of parameters, with commas between them, whose products stay in float32, such as head.*
    """
    patterns = [pattern for pattern in keep.split(",") if pattern]
    if not dtype:
        if patterns:
            raise CompileError(f"qat: keep={keep!r} needs quantisation-aware training; give {DTYPE!r} as qat too")
        return
    if any(is_range(state.name) for state in program.desc.states):
        return  # its source blocks have the codes already
    weights = _weights(program, dtype, patterns)
    for entry in program.desc.entries:
        block = program[entry.source_block]
        if trains(program.desc, block.desc):
            _require_quantizable(block.desc, patterns)
        else:
            _require_learned(program.desc, entry, block.desc, weights, patterns)
    table = StateTable(lambda: 0, count())
    for name in (f"{weight}.{end}" for weight in weights for end in (INPUT_LEAST, INPUT_MOST)):
        program.desc.states.append(table.add(name, END, pb.STATE_KIND_BUFFER, zeros()))
    numbers = sorted({entry.source_block for entry in program.desc.entries})
    turned = turned_weights([program[number].desc for number in numbers])
    is_turned = {weight: weight in turned for weight in weights}
    for number in numbers:
        block = program[number]
        rewrite = _learn if trains(program.desc, block.desc) else _compute
        rewrite(Block(block.desc), is_turned)
        _in_order(block.desc)
        block.forget()


def _in_order(block: pb.BlockDesc) -> None:
    """Sort the tensors of a block as it defines them, so that a program compiled again stays as it is."""
    names = [*(p.tensor for p in block.parameters), *(name for op in block.ops for name in op.outputs if name)]
    place = {name: i for i, name in enumerate(names)}
    tensors = sorted(block.tensors, key=lambda tensor: place[tensor.name])
    ordered = pb.BlockDesc(tensors=tensors)
    del block.tensors[:]
    block.tensors.extend(ordered.tensors)


def _weights(program: BlockAnalyses, dtype: str, keep: Sequence[str]) -> list[str]:
    """Return the weights that become codes; raise CompileError for a request that cannot be fulfilled."""
    desc = program.desc
    if dtype != DTYPE:
        raise CompileError(f"qat={dtype!r}: training can prepare for {DTYPE} only; write qat={DTYPE!r}")
    blocks = [program[entry.source_block].desc for entry in desc.entries]
    trained = [block for block in blocks if trains(desc, block)]
    if not trained:
        raise CompileError("qat: this program trains nothing, so no step learns a range; minimize a loss first")
    states = {state.name: state for state in desc.states}
    try:
        return weights_of(states, {name for block in trained for name in all_products(block)}, keep, "qat")
    except OpError as error:
        raise CompileError(str(error)) from None


def _require_quantizable(block: pb.BlockDesc, keep: Sequence[str]) -> None:
    """Raise CompileError if a step has shards, or if another operator multiplies by a parameter."""
    if any(op.type == MARK for op in block.ops):
        raise CompileError("qat: a range is that of all rows of a step, and a shard has some of them; leave shards out")
    products = {op.id for found in all_products(block).values() for op in found}
    states = {p.tensor: p.state for p in block.parameters if p.WhichOneof("source") == "state"}
    for op in block.ops:
        if op.stage > pb.STAGE_FORWARD or op.id in products or op.type in CONTROL:
            continue
        definition = find_op(op.type)
        for name, operand in zip(op.inputs, definition.signature.inputs, strict=False):
            weight = states.get(name, "")
            if operand not in definition.traits.lowered or not weight or any(matches(weight, each) for each in keep):
                continue
            if weight in all_products(block):
                raise CompileError(
                    f"qat: {weight} is multiplied as it is and as its transpose, which have no scales in common; "
                    f"keep={weight!r} leaves it as it is"
                )
            if op.type in CELLS:
                raise CompileError(
                    f"qat: {op.type} multiplies its states by {weight}, and training computes no steps of codes; "
                    f"keep={weight!r} leaves them in float32"
                )
            raise CompileError(
                f"qat: {op.type} multiplies by {weight} in a way that has no integers, unlike matmul and conv2d with a "
                f"parameter of float32 on the right; keep={weight!r} leaves it as it is"
            )


def _require_learned(
    program: pb.ProgramDesc, entry: pb.EntryDesc, block: pb.BlockDesc, weights: Sequence[str], keep: Sequence[str]
) -> None:
    """Raise CompileError if an entry multiplies by a state that no product of training reads."""
    blocks = [program.blocks[each.source_block] for each in program.entries]
    read = {name for each in blocks if trains(program, each) for name in all_products(each)}
    for name in all_products(block):
        if name not in weights and name not in read and not any(matches(name, each) for each in keep):
            remedy = "leave average out, or give it other entries"
            state = next(state for state in program.states if state.name == name)
            if state.kind == pb.STATE_KIND_PARAMETER:
                remedy = f"keep={name!r} leaves it as it is"
            raise CompileError(
                f"qat: the entry {entry.name!r} multiplies by {name}, for which training learns no range; {remedy}"
            )


def _learn(block: Block, is_turned: Mapping[str, bool]) -> None:
    """Let a training step read numbers of codes, and update the ranges."""
    products = _products(block.desc, is_turned)
    weight_of = {op.id: weight for weight, found in products.items() for op in found}
    ends = {weight: _read_ends(block, weight) for weight in products}
    tensors = {found[0].inputs[1]: weight for weight, found in products.items()}
    fakes: dict[str, str] = {}
    now: dict[int, dict[str, str]] = {}
    made: list[pb.OpDesc] = []
    for op in [copy_of(op) for op in block.desc.ops]:
        first, own = len(block.desc.ops), dict[str, str]()
        with block.appending():
            if op.id in weight_of:
                weight, x = weight_of[op.id], block.value(op.inputs[0])
                ends[weight] = _moved(ends[weight], x)
                scale, zero = _scale_and_zero(ends[weight])
                own[x.name] = ops.dequantize_linear(ops.quantize_linear(x, scale, zero), scale, zero).name
            for tensor in dict.fromkeys(op.inputs) if op.stage <= pb.STAGE_FORWARD else ():
                if tensor not in tensors:
                    continue
                if tensor not in fakes:
                    codes, scales = _weight_codes(block, block.value(tensor), is_turned[tensors[tensor]])
                    fakes[tensor] = ops.dequantize_linear(codes, scales, weight_zero(block)).name
                own[tensor] = fakes[tensor]
        made += taken(block, first)
        now[op.id] = own or now.get(op.gradient_of, {})
        op.inputs[:] = [now[op.id].get(name, name) for name in op.inputs]
        made.append(op)
    replace_ops(block.desc, made)
    for weight, new in ends.items():
        for end, value in zip((INPUT_LEAST, INPUT_MOST), new, strict=True):
            block.desc.updates.add(state=f"{weight}.{end}", tensor=value.name)


def _products(block: pb.BlockDesc, is_turned: Mapping[str, bool]) -> dict[str, list[pb.OpDesc]]:
    """Return the products of a block that become products of codes, by weight."""
    found = [products_of(block, is_turned=each) for each in (False, True)]
    return {weight: found[each][weight] for weight, each in is_turned.items() if weight in found[each]}


Ends = tuple[Value, Value]
"""The least and the largest number of a range."""


def _read_ends(block: Block, weight: str) -> Ends:
    """Declare the ends of the range of a weight's operand as states that the block reads."""
    made: list[Value] = []
    for end in (INPUT_LEAST, INPUT_MOST):
        made.append(block.define_free(f"{weight}.{end}", END))
        block.desc.parameters.add(tensor=made[-1].name, state=f"{weight}.{end}")
        block.state_tensors.add(made[-1].name)
    return made[0], made[1]


def _moved(ends: Ends, x: Value) -> Ends:
    """Return a range after a step with these numbers."""
    old, is_reached = ends, ends[1] > ends[0]
    seen = ops.minimum(ops.min(x), 0.0), ops.maximum(ops.max(x), 0.0)
    least, most = (
        ops.where(is_reached, a * OLD_SHARE + b * (1 - OLD_SHARE), b) for a, b in zip(old, seen, strict=True)
    )
    return least, most


def _scale_and_zero(ends: Ends, weight: str = "") -> tuple[Value, Value]:
    """Return the scale and the zero point of a range, as `compiler.quantization.integers` computes them.

    The scale of a range that no step has reached is 1.
    """
    least, most = ends
    scale = _named(ops.where(most > least, (most - least) / float(MAX_CODE), 1.0), weight, INPUT_SCALE)
    zero = ops.minimum(ops.maximum(ops.round(-least / scale), 0.0), float(MAX_CODE))
    return scale, _named(ops.cast(zero, dtype="uint8"), weight, INPUT_ZERO)


def _weight_codes(block: Block, w: Value, is_turned: bool, weight: str = "") -> tuple[Value, Value]:
    """Return the codes and the scales of a weight, as `compiler.quantization.integers` computes them."""
    largest = ops.max(ops.abs(w), axis=-1 if is_turned else tuple(range(w.rank - 1)), keepdims=is_turned)
    scales = _named(ops.where(largest > 0.0, largest / float(LARGEST), 1.0), weight, SCALES)
    return _named(ops.quantize_linear(w, scales, weight_zero(block)), weight, CODES), scales


def _compute(block: Block, is_turned: Mapping[str, bool]) -> None:
    """Let the products of an entry that does not train multiply codes.

    The ops that make codes and scales come first; their tensors have the names of the states of `quantize`.
    """
    products, first = _products(block.desc, is_turned), len(block.desc.ops)
    results = {op.outputs[0] for found in products.values() for op in found}
    with block.appending():
        layers = {
            found[0].inputs[1]: _layer(block, weight, found[0].inputs[1], is_turned[weight])
            for weight, found in products.items()
        }
        others = [op for op in block.desc.ops[:first] if results.isdisjoint(op.outputs)]
        read = {name for op in others for name in op.inputs} | {fetch.tensor for fetch in block.desc.fetches}
        whole = {
            tensor: ops.dequantize_linear(layer.codes, layer.scales, weight_zero(block)).name
            for tensor, layer in layers.items()
            if tensor in read
        }
    computed = taken(block, first)
    for op in block.desc.ops:
        op.inputs[:] = [name if op.outputs[0] in results else whole.get(name, name) for name in op.inputs]
    for fetch in block.desc.fetches:
        fetch.tensor = whole.get(fetch.tensor, fetch.tensor)
    multiply_codes(block, layers, results)
    replace_ops(block.desc, [*computed, *block.desc.ops])


def _layer(block: Block, weight: str, tensor: str, is_turned: bool) -> Layer:
    codes, scales = _weight_codes(block, block.value(tensor), is_turned, weight)
    return Layer(codes, scales, *_scale_and_zero(_read_ends(block, weight), weight))


def _named(value: Value, weight: str, part: str) -> Value:
    """Return the result of the last op under the name of a part of a weight, if that is given."""
    return value.block.named(value, f"{weight}.{part}") if weight else value
