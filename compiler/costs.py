"""What an op costs, in operations: an estimate from shapes alone, to compare ways of computing the same.

1. A product counts a multiplication and an addition for each pair of numbers that meet, also where a window reaches
   over the edge, and also what `causal` leaves out.
2. A factorisation counts as the usual algorithm for matrices of its size does.
3. Every other op counts the elements that it reads or writes, whichever are more. A view and a constant cost nothing,
   nor does what only moves to a file or back.

An operation of each kind takes a time of its own, so the ratio of two sums is not the ratio of their times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isqrt, prod

from prograd_proto import TensorType, type_of
from prograd_proto import program_pb2 as pb
from runtime.memory import is_transfer, is_view

Shape = tuple[int, ...]
Estimate = Callable[[Sequence[Shape], Sequence[Shape]], int]


def operations_of(block: pb.BlockDesc) -> list[int]:
    """The operations of each op of a block with static types."""
    types = {tensor.name: type_of(tensor) for tensor in block.tensors}
    return [
        operations(op.type, [types[name] if name else None for name in op.inputs], [types[name] for name in op.outputs])
        for op in block.ops
    ]


def operations(op_type: str, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]) -> int:
    """The operations of one op; `inputs` as in its signature, with None for an absent one, and static types."""
    if is_view(op_type) or is_transfer(op_type) or op_type == "constant":
        return 0
    read = [() if type is None else type.static_shape for type in inputs]
    written = [type.static_shape for type in outputs]
    if op_type in ESTIMATES:
        return ESTIMATES[op_type](read, written)
    present = sum(prod(type.static_shape) for type in inputs if type is not None)
    return max(present, sum(map(prod, written)))


def _matmul(read: Sequence[Shape], written: Sequence[Shape]) -> int:
    a, b, y = (prod(shape[-2:]) for shape in (*read[:2], written[0]))
    return 2 * prod(written[0]) * isqrt(a * b // max(1, y))  # (m k) (k n) / (m n) = k k, transposed or not


def _outer_sum(read: Sequence[Shape], written: Sequence[Shape]) -> int:
    return 2 * prod(read[0]) * written[0][-1]


def _convolution(read: Sequence[Shape], written: Sequence[Shape]) -> int:
    return 2 * prod(written[0]) * prod(read[1][:3])


def _input_gradient(read: Sequence[Shape], written: Sequence[Shape]) -> int:
    return 2 * prod(read[0]) * prod(read[1][:3])


def _filter_gradient(read: Sequence[Shape], written: Sequence[Shape]) -> int:
    return 2 * prod(read[1]) * prod(written[0][:3])


def _attention(read: Sequence[Shape], written: Sequence[Shape]) -> int:
    (n, h, length, d), k, v = read[0], read[1], read[2]
    return 2 * n * h * length * k[2] * (d + v[3])


def _attention_gradient(read: Sequence[Shape], written: Sequence[Shape]) -> int:
    (n, h, length, d), k, v = read[0], read[1], read[2]
    return 2 * n * h * length * k[2] * (3 * d + 2 * v[3])  # weights, and the gradients of all operands and weights


def _recurrence(products: int) -> Estimate:
    """A layer over x [n, t, c] that multiplies with its matrix, the second operand, so many times a step."""

    def estimate(read: Sequence[Shape], written: Sequence[Shape]) -> int:
        return 2 * products * prod(read[0][:2]) * prod(read[1]) + prod(read[0])

    return estimate


def _factorisation(read: Sequence[Shape], written: Sequence[Shape]) -> int:
    return prod(read[0]) * read[0][-1]


def _solution(read: Sequence[Shape], written: Sequence[Shape]) -> int:
    return prod(read[0]) * read[0][-1] + 2 * prod(written[0]) * read[0][-1]


ESTIMATES: dict[str, Estimate] = {
    "matmul": _matmul,
    "outer_sum": _outer_sum,
    "conv2d": _convolution,
    "conv2d_input_gradient": _input_gradient,
    "conv2d_filter_gradient": _filter_gradient,
    "scaled_dot_product_attention": _attention,
    "attention_gradient": _attention_gradient,
    "rnn_layer": _recurrence(1),
    "gru_layer": _recurrence(1),
    "lstm_layer": _recurrence(1),
    "rnn_layer_gradient": _recurrence(1),
    "gru_layer_gradient": _recurrence(2),
    "lstm_layer_gradient": _recurrence(2),
    "cholesky": _factorisation,
    "inverse": _factorisation,
    "determinant": _factorisation,
    "log_determinant": _factorisation,
    "solve": _solution,
    "triangular_solve": _solution,
}
