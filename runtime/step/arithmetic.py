"""The number of operations of an op: a multiply-add counts as two, anything else as one for each element.

The number is for measurements. It leaves out auxiliary work of kernels, and counts an exponential like a sum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, Final

from prograd_proto import TensorType

Types = Sequence[TensorType | None]
Count = Callable[[Types, Types, Mapping[str, Any]], int]


def operations(op_type: str, inputs: Types, outputs: Types, attributes: Mapping[str, Any]) -> int:
    """Return the number of operations of an op with operands and results of these static types.

    None for an absent one.
    """
    return PRODUCTS.get(op_type, _elements)(inputs, outputs, attributes)


def _elements(inputs: Types, outputs: Types, attributes: Mapping[str, Any]) -> int:
    """Return one operation for each element of the largest operand or result."""
    return max((_size(type) for type in (*inputs, *outputs)), default=0)


def _matmul(inputs: Types, outputs: Types, attributes: Mapping[str, Any]) -> int:
    depth = _shape(inputs[0])[-2 if attributes["transpose_a"] else -1]
    return 2 * _size(outputs[0]) * depth


def _outer_sum(inputs: Types, outputs: Types, attributes: Mapping[str, Any]) -> int:
    return 2 * _size(inputs[0]) * _shape(inputs[1])[-1]


def _convolution(results: int, filters: int) -> Count:
    """Return a counter for a convolution.

    `results` is the operand, or -1 the result, that the convolution makes. `filters` is the operand or result of the
    filters, whose axes are rows, columns, channels in, channels out.
    """

    def count(inputs: Types, outputs: Types, attributes: Mapping[str, Any]) -> int:
        made = outputs[0] if results < 0 else inputs[results]
        window = _shape(outputs[0] if filters < 0 else inputs[filters])[:-1]
        return 2 * _size(made) * prod(window)

    return count


def _attention(products: int) -> Count:
    """Return a counter for `products` products of queries and keys."""

    def count(inputs: Types, outputs: Types, attributes: Mapping[str, Any]) -> int:
        return 2 * products * _size(inputs[0]) * _shape(inputs[1])[-2]

    return count


def _recurrent(passes: int) -> Count:
    """Return a counter of the multiply-adds of `passes` recurrent products per time step."""

    def count(inputs: Types, outputs: Types, attributes: Mapping[str, Any]) -> int:
        return 2 * passes * prod(_shape(inputs[0])[:2]) * _size(inputs[1])

    return count


def _shape(type: TensorType | None) -> tuple[int, ...]:
    return () if type is None else type.static_shape


def _size(type: TensorType | None) -> int:
    return prod(_shape(type)) if type is not None else 0


PRODUCTS: Final[dict[str, Count]] = {
    "matmul": _matmul,
    "outer_sum": _outer_sum,
    "conv2d": _convolution(-1, 1),
    "conv2d_input_gradient": _convolution(0, 1),
    "conv2d_filter_gradient": _convolution(1, -1),
    "scaled_dot_product_attention": _attention(2),
    "attention_gradient": _attention(5),
    **{f"{kind}_layer": _recurrent(1) for kind in ("rnn", "gru", "lstm")},
    **{f"{kind}_layer_gradient": _recurrent(2) for kind in ("rnn", "gru", "lstm")},
}
"""Counters by op type, for ops that are products of matrices."""
