"""A program whose products multiply integers of eight bits: the arrays of its weights, and its blocks.

1. The weight is symmetric: its numbers are -127 ... 127 times a scale for each result channel, carried with the zero
   point 128. Ops that read W otherwise get the numbers that the codes stand for.
2. Ranges of operands come from rows, or from a program that learned them. Such a program computes codes and scales out
   of weights and ranges in each entry that does not train; the arrays replace these ops, with equal bits.
3. A program that trained one of the weights loses its training.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from compiler.quantization.products import (
    LARGEST,
    MAX_CODE,
    WEIGHT_ZERO,
    layers_of,
    multiply_codes,
    products_of,
    whole_weights,
)
from compiler.quantization.read_parts import read_parts
from compiler.quantization.recurrent import Layer
from compiler.quantization.weight_names import CODES, INPUT_SCALE, INPUT_ZERO, SCALES
from compiler.train.written_ops import replace_ops, written
from prograd_proto import TensorType
from prograd_proto.states import INPUT_LEAST, INPUT_MOST
from registry import Block, OpError, ops

FORM: Final = "int8"

PARTS: Final = (CODES, SCALES, INPUT_SCALE, INPUT_ZERO)
"""The last words of the names of the arrays that stand for a weight, as a `Layer` has them."""


class Range(NamedTuple):
    """The least and the largest number of an operand, with 0 between them."""

    least: float
    most: float


def codes_of(name: str, array: Any, found: Range, *, is_turned: bool = False) -> dict[str, Any]:
    """Return the arrays that stand for a weight and for the range of its operand, by name.

    Result channels are the last axis, or with `is_turned` the first one: then scales have a second axis of one.

    Raises OpError for a weight or a range without a scale.
    """
    if not np.isfinite(array).all():
        raise OpError(f"quantize: {name} has NaN or infinities; keep={name!r} leaves it as it is")
    others = -1 if is_turned else tuple(range(array.ndim - 1))
    largest = np.abs(array).max(others, keepdims=is_turned).astype(np.float32)
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
    """Return the scale and the zero point of a range; raise OpError if it is not finite or holds 0 alone."""
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
    found = [
        (op.outputs[0], op.inputs[1], is_turned)
        for is_turned in (False, True)
        for products in (products_of(block.desc, is_turned=is_turned), {} if is_turned else layers_of(block.desc))
        for each in products.values()
        for op in each
    ]
    layers = {name: Layer(*parts) for name, parts in read_parts(block, types, PARTS).items()}
    if layers:
        fitting = [each for each in found if each[1] in layers and layers[each[1]].is_turned == each[2]]
        multiply_codes(block, layers, {result for result, _, _ in fitting})
        whole_weights(block, layers)


def store_in(block: Block, types: Mapping[str, Sequence[TensorType]]) -> None:
    """Let a block that computes the codes and scales of weights read them; `types` are theirs, by weight.

    What the block computes them from, the weights and the ranges, becomes dead.
    """
    states = {p.state for p in block.desc.parameters if p.WhichOneof("source") == "state"}
    own = {name: each for name, each in types.items() if name in states}
    computed = {f"{name}.{part}" for name in own for part in PARTS}
    replace_ops(block.desc, [op for op in block.desc.ops if computed.isdisjoint(op.outputs)])
    for name in computed & block.types.keys():
        block.desc.tensors.remove(block.tensors.pop(name))
        del block.types[name]
    whole_weights(block, {name: Layer(*parts) for name, parts in read_parts(block, own, PARTS).items()})
    ranges = {f"{name}.{end}" for name in own for end in (INPUT_LEAST, INPUT_MOST)}
    for parameter in [p for p in block.desc.parameters if p.state in ranges]:
        block.desc.parameters.remove(parameter)
        block.state_tensors.discard(parameter.tensor)
        zero = written(block, parameter.tensor, lambda: ops.full.on(block)(shape=(), value=0.0, dtype="float32"))
        replace_ops(block.desc, [*zero, *block.desc.ops])


def learned(states: Mapping[str, Any]) -> list[str]:
    """Return the weights whose ranges a program learned, from the names of its states."""
    end = f".{INPUT_LEAST}"
    return [name.removesuffix(end) for name in states if name.endswith(end)]


def learned_range(name: str, values: Mapping[str, Any]) -> Range:
    """Return the range of the operand of a weight from the states of a run; raise OpError for one without numbers."""
    found = Range(*(float(values[f"{name}.{end}"]) for end in (INPUT_LEAST, INPUT_MOST)))
    if not found.most > found.least and np.isfinite(found).all():
        raise OpError(
            f"quantize: no step of training reached the range of what {name} multiplies; train the program, or load "
            f"the states of a run that did, or leave the weight out by keep={name!r} when the program is compiled"
        )
    return found
