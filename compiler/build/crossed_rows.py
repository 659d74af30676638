"""The check that a loss does not compare each prediction with the labels of all rows.

1. Tensors that depend on trained states are predictions; those that depend on feeds, but on no state, are labels.
2. Broadcasting prepends axes to the operand of lower rank. If this pairs predictions and labels of different ranks so
   that the result has the axis of rows twice, each row meets all others: float32[batch, 1] - float32[batch].

NumPy, Keras and PyTorch compute such a loss, and it trains towards the mean of all labels.
"""

from __future__ import annotations

from collections.abc import Iterator

from prograd_proto import TensorType
from prograd_proto import program_pb2 as pb
from registry import Block, OpError, Value


def require_rows_apart(block: Block, loss: Value) -> None:
    """Raise OpError for an op before the loss that pairs the predictions of each row with the labels of all rows."""
    rows = _row_symbols(block)
    needed = _ops_before(block.desc, loss.name)
    predicted = {p.tensor for p in block.desc.parameters if p.WhichOneof("source") == "state"}
    labels = {p.tensor for p in block.desc.parameters if p.WhichOneof("source") == "feed"}
    for op in needed:
        if predicted.intersection(op.inputs):
            if labels.intersection(op.inputs):
                _require_apart(block, op, rows)
            predicted.update(op.outputs)
        elif labels.intersection(op.inputs):
            labels.update(op.outputs)


def _require_apart(block: Block, op: pb.OpDesc, rows: set[str]) -> None:
    types = [block.types[name] for name in op.inputs if name]
    made = block.types[op.outputs[0]]
    if all(type.rank == made.rank for type in types) or not any(_twice(symbol, made) for symbol in rows):
        return
    if any(_twice(symbol, type) for symbol in rows for type in types):
        return  # an operand has pairs of rows already, so they are meant
    line = block.location_text(op.location)
    shown = ", ".join(f"{type}" for type in types)
    raise OpError(
        f"minimize: {op.type}({shown}){f' in {line}' if line else ''} makes {made}: each row meets the labels of all "
        "rows; give both operands one shape, as by prediction[:, 0], or write label[None, :] if that is meant"
    )


def _twice(symbol: str, type: TensorType) -> bool:
    return type.shape.count(symbol) > 1


def _row_symbols(block: Block) -> set[str]:
    """Return the symbols of the first axes of feeds."""
    fed = [block.types[p.tensor] for p in block.desc.parameters if p.WhichOneof("source") == "feed"]
    return {str(type.shape[0]) for type in fed if type.rank and isinstance(type.shape[0], str)}


def _ops_before(block: pb.BlockDesc, loss: str) -> Iterator[pb.OpDesc]:
    """Return the ops that the loss depends on, in order."""
    wanted, found = {loss}, list[pb.OpDesc]()
    for op in reversed(block.ops):
        if wanted.intersection(op.outputs):
            wanted.update(op.inputs)
            found.append(op)
    return reversed(found)
