"""One tensor for several operands of an op, and one loss that reads several of its outputs: derivatives by differences.

The gradient of an op goes to its operands one by one, whatever tensors these are. Tried is every operator: each pair of
operands that may be one tensor, and all of them; outputs of one type with one gradient; and operands as gradients.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from samples import SAMPLES
from samples.operands import Operand, Sample, distinct, regular, sample
from subjects.values import check_orders, define

from compiler import gradients
from prograd_proto import TensorType
from registry import OPS, Block, Value, ops
from registry.gradients import carries_gradient, emits_gradient

SQUARE = (2, 2, 2, 2)
"""The shape with which queries, keys, values and mask of attention, or images and filters, have one type."""

MORE = [
    *(sample(op, distinct((2, 3)), distinct((2, 3))) for op in ("maximum", "minimum")),
    sample("clip", (2, 3), (2, 3), (2, 3)),
    sample("prelu", distinct((3,)), distinct((3,))),
    sample("outer_sum", (2, 3, 3), (2, 3, 3)),
    sample("scaled_dot_product_attention", *[SQUARE] * 4, causal=True),
    sample("attention_gradient", *[SQUARE] * 5, scale=0.6),
    sample("conv2d", SQUARE, SQUARE, padding=(1, 1)),
    sample("conv2d_input_gradient", (2, 3, 3, 2), (2, 3, 3, 2), shape=(2, 4, 5, 3)),
    sample("scatter_add", (3, 2), Operand((3,), "int64", "below", 3), (3, 2)),
    sample("scatter_nd", (3, 2), Operand((3, 1), "int64", "below", 3), (3, 2)),
    sample("solve", regular((3, 3)), (3, 3)),
    sample("triangular_solve", regular((3, 3)), (3, 3)),
    sample("rms_norm", (4,), (4,), axis=0),
    sample("layer_norm", (4,), (4,), (4,), axis=0),
    sample("rnn_layer", (3, 2, 3), (3, 3), (3, 3)),
]
"""Samples with shapes that give one type to more operands than the registered samples do."""


def slots(case: Sample) -> list[list[int]]:
    """The operands that a gradient flows into, those of one type together."""
    op, block = OPS[case.op], Block()
    names = [
        "" if x is None else block.define(f"x{i}", TensorType(x.dtype, x.shape)).name
        for i, x in enumerate(case.operands)
    ]
    found: dict[tuple[str, tuple[int, ...]], list[int]] = {}
    for i, x in enumerate(case.operands):
        if x is not None and carries_gradient(op, names, i, block):
            found.setdefault((x.dtype, x.shape), []).append(i)
    return list(found.values())


def ways() -> list[tuple[Sample, tuple[int, ...]]]:
    """Samples with each set of operands that may be one: pairs, all of one type; and none, for several outputs.

    Of the samples of an operator for one set the first two that are not empty.
    """
    found: dict[tuple[str, tuple[int, ...]], list[Sample]] = {}
    for case in [*MORE, *SAMPLES]:
        if case.order and all(0 not in x.shape for x in case.operands if x is not None):
            none = [()] if len(OPS[case.op].signature.outputs) > 1 else []
            pairs = [pair for alike in slots(case) for pair in combinations(alike, 2)]
            whole = [tuple(alike) for alike in slots(case) if len(alike) > 1]
            for together in dict.fromkeys([*none, *pairs, *whole]):
                found.setdefault((case.op, together), []).append(case)
    return [(case, together) for (_, together), cases in found.items() for case in cases[:2]]


each_way = pytest.mark.parametrize(
    ("sample", "together"),
    ways(),
    ids=lambda part: "=".join(map(str, part)) if isinstance(part, tuple) else str(part),
)


def applied(sample: Sample, together: tuple[int, ...]) -> tuple[list[Value], list[Value], dict[str, np.ndarray]]:
    """The outputs that gradients flow through, the operands that they flow into, and what to feed."""
    block, op, rng = Block(), OPS[sample.op], np.random.default_rng(0)
    values: list[Value | None] = []
    feeds: dict[str, np.ndarray] = {}
    special = [i for i in together if sample.operands[i].kind != "normal"]
    for i, operand in enumerate(sample.operands):
        if operand is None:
            values.append(None)
        elif i in together[1:]:
            values.append(values[together[0]])
        else:
            made = sample.operands[special[0]] if i in together and special else operand
            values.append(define(block, f"x{i}", made.shape, made.dtype))
            feeds[f"x{i}"] = made.make(rng)
    result = op(*values, **op.signature.spelled(sample.attributes))
    outputs = [result] if isinstance(result, Value) else list(result)
    desc = block.desc.ops[-1]
    flows = [i for i, x in enumerate(values) if x is not None and carries_gradient(op, desc.inputs, i, block)]
    inputs = list({values[i].name: values[i] for i in flows}.values())
    return [y for i, y in enumerate(outputs) if emits_gradient(op, desc, i, block)], inputs, feeds


def total(values: list[Value], feeds: dict[str, np.ndarray]) -> Value:
    """The sum of all elements, weighted; values of one type have one tensor of weights, which is their gradient."""
    block, rng = values[0].block, np.random.default_rng(1)
    parts: list[Value] = []
    for type in dict.fromkeys(value.type for value in values):
        weights = define(block, f"weights_{len(block.desc.tensors)}", type.shape, type.dtype)
        feeds[weights.name] = rng.normal(size=type.static_shape)
        alike = [value for value in values if value.type == type]
        joined = alike[0]
        for value in alike[1:]:
            joined = joined + value
        parts.append(ops.sum(ops.sin(joined) * weights))
    whole = parts[0]
    for part in parts[1:]:
        whole = whole + part
    return whole


@pytest.mark.sampled(12)
@each_way
def test_derivatives_where_one_tensor_stands_for_several_operands(sample: Sample, together: tuple[int, ...]):
    outputs, inputs, feeds = applied(sample, together)
    check_orders(total(outputs, feeds), inputs, feeds, sample.order)


@pytest.mark.sampled(4)
@each_way
def test_derivatives_where_an_operand_is_the_gradient_of_an_output_too(sample: Sample, together: tuple[int, ...]):
    outputs, inputs, feeds = applied(sample, together)
    seeds = [next((x for x in inputs if x.type == y.type), None) for y in outputs]
    if any(seed is not None for seed in seeds):
        grads = [grad for grad in gradients(outputs, inputs, seeds) if grad is not None]
        check_orders(total(grads, feeds), inputs, feeds, 2)
