"""The proof that every row of an entry's fetches depends on the same row of its feeds alone.

Then rows that do not fill a step may run in it all the same, with any rows behind them. The proof goes op by op:

1. A feed that has rows has row i at index i of axis 0, and so has every tensor that is *of rows*.
2. An op of this file's table that reads such tensors, as its line says, yields another one.
3. A tensor that depends on no rows is the same for all rows. If it has as many along axis 0 nevertheless, they must be
   equal.
4. Any other result is *mixed*, as random numbers are, and so is every result computed from it. Then the entry is not
   row-wise.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from math import prod
from typing import Any, Final, NamedTuple

from prograd_proto import TensorType, attributes_of, type_of
from prograd_proto import program_pb2 as pb
from runtime.entries import BoundEntry


class _Known(NamedTuple):
    """The facts that hold before an op: static types, the tensors of rows, and those whose rows are all equal.

    `mixed` are the tensors that depend on some row, and that are not of rows; all others are the same for all rows.
    """

    rows: int
    types: Mapping[str, TensorType]
    of_rows: set[str]
    equal: set[str]
    mixed: set[str]


_Rule = Callable[[pb.OpDesc, Mapping[str, Any], _Known], bool]


def is_row_wise(bound: BoundEntry, fetched: Collection[str]) -> bool:
    """Return True if the named tensors, and all that the entry fetches, are of rows; the entry must update nothing."""
    block = bound.block
    if block.updates or bound.rows < 2:
        return False
    types = {tensor.name: type_of(tensor) for tensor in block.tensors}
    fed = {p.tensor for p in block.parameters if p.WhichOneof("source") == "feed" and bound.feeds[p.feed].by_row}
    known = _Known(bound.rows, types, fed, set(), set())
    for op in block.ops:
        _read(op, known)
    names = {fetch.tensor for fetch in block.fetches} | set(fetched)
    named = {fetch.name for fetch in block.fetches} | set(fetched)
    return names <= known.of_rows and named <= bound.row_names


def _read(op: pb.OpDesc, known: _Known) -> None:
    """Note the results of the op."""
    if not known.mixed.isdisjoint(op.inputs) or op.random_stream:
        known.mixed.update(op.outputs)
        return
    if known.of_rows.isdisjoint(op.inputs):
        if op.type == "full" or (op.type == "constant" and _has_equal_rows(op)) or _is_broadcast(op, known):
            known.equal.update(op.outputs)
        return
    rule = _RULES.get(op.type)
    holds = rule is not None and rule(op, attributes_of(op), known)
    for name in op.outputs:
        shape = known.types[name].static_shape
        (known.of_rows if holds and shape and shape[0] == known.rows else known.mixed).add(name)


def _has_equal_rows(op: pb.OpDesc) -> bool:
    value = op.attributes[0].tensor_value
    count = value.shape[0] if value.shape else 1
    size = len(value.data) // max(1, count)
    return value.data == value.data[:size] * count


def _is_broadcast(op: pb.OpDesc, known: _Known) -> bool:
    """Return True if the op repeats a tensor that has one row, or none."""
    if op.type != "broadcast_to":
        return False
    x, y = (known.types[name].static_shape for name in (op.inputs[0], op.outputs[0]))
    return len(x) < len(y) or not y or x[0] == 1


def _of_rows(name: str, known: _Known) -> bool:
    return name in known.of_rows


def _for_all(name: str, known: _Known) -> bool:
    """Return True if a tensor is the same for all rows."""
    return not name or name not in known.of_rows


def _elementwise(op: pb.OpDesc, attributes: Mapping[str, Any], known: _Known) -> bool:
    """Return True if axis 0 of the result is that of all operands of rows; others lack the axis, or have equal rows."""
    rank = known.types[op.outputs[0]].rank
    for name in filter(None, op.inputs):
        shape = known.types[name].static_shape
        if name in known.of_rows:
            fits = len(shape) == rank
        else:
            fits = len(shape) < rank or shape[0] == 1 or name in known.equal
        if not fits:
            return False
    return True


def _first_alone(op: pb.OpDesc, attributes: Mapping[str, Any], known: _Known) -> bool:
    """Return True if the first operand is of rows, and the others are the same for all; the op stays within a row."""
    return _of_rows(op.inputs[0], known) and all(_for_all(name, known) for name in op.inputs[1:])


def _along_others(op: pb.OpDesc, attributes: Mapping[str, Any], known: _Known) -> bool:
    """Return True as `_first_alone` does, if axis 0 is not among the op's axes."""
    rank = known.types[op.inputs[0]].rank
    axes: list[int] = list(attributes["axes"]) if "axes" in attributes else [attributes["axis"]]
    return bool(axes) and all(axis % rank for axis in axes) and _first_alone(op, attributes, known)


def _product(op: pb.OpDesc, attributes: Mapping[str, Any], known: _Known) -> bool:
    """Return True for matrices of rows times one matrix, or stacks of rows times stacks of rows or the same for all."""
    a, b = op.inputs
    rank = known.types[op.outputs[0]].rank
    if not _of_rows(a, known) or known.types[a].rank != rank:
        return False
    if _for_all(b, known):
        stacked = known.types[a].rank > 2
        return known.types[b].rank <= 2 and (stacked or not attributes["transpose_a"])
    return known.types[a].rank > 2 and known.types[b].rank == rank


def _reshaped(op: pb.OpDesc, attributes: Mapping[str, Any], known: _Known) -> bool:
    """Return True if axis 0 stays, so that a row keeps its elements."""
    x, y = known.types[op.inputs[0]].static_shape, known.types[op.outputs[0]].static_shape
    return bool(x and y) and x[0] == y[0] and prod(x[1:]) == prod(y[1:])


def _transposed(op: pb.OpDesc, attributes: Mapping[str, Any], known: _Known) -> bool:
    return attributes["axes"][0] == 0


def _gathered(op: pb.OpDesc, attributes: Mapping[str, Any], known: _Known) -> bool:
    """Return True if rows of indices index one table, or if indices within rows are the same for all."""
    x, indices = op.inputs
    if _of_rows(indices, known):
        return _for_all(x, known) and attributes["axis"] == 0
    return _along_others(op, attributes, known)


def _joined(op: pb.OpDesc, attributes: Mapping[str, Any], known: _Known) -> bool:
    rank = known.types[op.outputs[0]].rank
    whole = all(name in known.of_rows or name in known.equal for name in op.inputs)
    return attributes["axis"] % rank != 0 and whole


def _padded(op: pb.OpDesc, attributes: Mapping[str, Any], known: _Known) -> bool:
    return attributes["before"][0] == attributes["after"][0] == 0 and _of_rows(op.inputs[0], known)


def _attention(op: pb.OpDesc, attributes: Mapping[str, Any], known: _Known) -> bool:
    """Return True if queries, keys and values are of rows, and the mask is so too, or the same for all."""
    q, k, v, *mask = op.inputs
    if not all(_of_rows(name, known) for name in (q, k, v)):
        return False
    shapes = [(name, known.types[name].static_shape) for name in mask if name]
    if any(name in known.of_rows for name, _ in shapes):
        return all(len(shape) == known.types[q].rank for _, shape in shapes)
    return all(len(shape) < known.types[q].rank or shape[0] == 1 or name in known.equal for name, shape in shapes)


def _each(op: pb.OpDesc, attributes: Mapping[str, Any], known: _Known) -> bool:
    """Return True if every operand is of rows, has equal rows, or is absent: the op does the same for each."""
    return all(not name or name in known.of_rows or name in known.equal for name in op.inputs)


def _recurrent(op: pb.OpDesc, attributes: Mapping[str, Any], known: _Known) -> bool:
    """Return True if sequences, first states and the mask are of rows, and weights are the same for all."""
    weights = {"lstm_layer": 2, "rnn_layer": 2, "gru_layer": 3}[op.type]
    rest = [op.inputs[0], *op.inputs[weights:]]
    fits = all(not name or name in known.of_rows or name in known.equal for name in rest)
    return fits and all(_for_all(name, known) for name in op.inputs[1:weights])


def _per_row(op: pb.OpDesc, attributes: Mapping[str, Any], known: _Known) -> bool:
    """Return True for a loss that is not reduced."""
    return attributes.get("reduction", "none") == "none" and _each(op, attributes, known)


_WORDS: Final = """
    abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_not bitwise_or bitwise_xor broadcast_to cast
    ceil celu clip cos cosh digamma div elu equal erf erfc exp exp2 expm1 floor floor_div fmod gelu greater
    greater_equal hard_sigmoid hard_swish hard_tanh identity isfinite isinf isnan leaky_relu left_shift lerp less
    less_equal lgamma log log1p log2 log_sigmoid logical_and logical_not logical_or logical_xor maximum minimum mish
    mul neg not_equal polygamma pow prelu reciprocal relu relu6 remainder right_shift round rsqrt selu sigmoid sign
    silu sin sinh softplus softsign sqrt square stop_gradient sub tan tanh threshold trunc where
"""

_RULES: Final[Mapping[str, _Rule]] = {
    **dict.fromkeys(_WORDS.split(), _elementwise),
    **dict.fromkeys(("all", "any", "logsumexp", "max", "mean", "min", "norm", "prod"), _along_others),
    **dict.fromkeys(("standard_deviation", "sum", "variance", "slice", "argmax", "argmin", "argsort"), _along_others),
    **dict.fromkeys(("cumprod", "cumsum", "glu", "log_softmax", "softmax", "layer_norm", "rms_norm"), _along_others),
    **dict.fromkeys(("sort", "split", "topk"), _along_others),
    **dict.fromkeys(("conv2d", "avg_pool2d", "max_pool2d", "group_norm", "one_hot"), _first_alone),
    **dict.fromkeys(("lstm_layer", "gru_layer", "rnn_layer"), _recurrent),
    **dict.fromkeys(("squared_error", "softmax_cross_entropy"), _per_row),
    "scaled_dot_product_attention": _attention,
    "matmul": _product,
    "reshape": _reshaped,
    "transpose": _transposed,
    "gather": _gathered,
    "concat": _joined,
    "pad": _padded,
}
"""Functions that decide by operator whether rows stay independent."""
