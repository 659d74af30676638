"""An op of a block while it is exported, with its operands, and mappings made of functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from compiler.exporters.onnx.graph import Graph
from compiler.exporters.onnx.graph import Unmapped as Unmapped
from compiler.exporters.onnx.tensors import Tensor, identity_order
from compiler.frontends.onnx.dtypes import DTYPES
from prograd_proto import TensorType

Export = Callable[["Call"], Any]
"""A function of a call, which appends nodes and returns its result: a name, a Tensor, None, or a list of these.

A name stands for a tensor with the axes in the program's order. None says that the function does not apply.
"""


@dataclass(frozen=True, eq=False)
class Call:
    """An op whose operands are in the graph.

    Attributes:
        op_type: name of the operator.
        inputs: names of the operands in the program.
        outputs: names of the results in the program.
        operands: the operands; None for one that is left out.
        types: types of the results.
        attributes: attributes by name.
        graph: the graph that nodes are appended to.
        walk: the walk over the block, for patterns and blocks inside the op.
        blocks: numbers of the blocks inside the op.
    """

    op_type: str
    inputs: Sequence[str]
    outputs: Sequence[str]
    operands: Sequence[Tensor | None]
    types: Sequence[TensorType]
    attributes: dict[str, Any]
    graph: Graph
    walk: Any
    blocks: Sequence[int]

    @property
    def opset(self) -> int:
        """The version of ONNX's operators."""
        return self.graph.model.opset

    @property
    def type(self) -> TensorType:
        """The type of the first result."""
        return self.types[0]

    def has(self, number: int) -> bool:
        """Return True if an operand is given."""
        return number < len(self.operands) and self.operands[number] is not None

    def tensor(self, number: int) -> Tensor:
        """Return an operand."""
        x = self.operands[number]
        assert x is not None
        return x

    def plain(self, number: int) -> str:
        """Return the name of an operand with its axes in the program's order; "" if it is left out."""
        return self.graph.plain(self.tensor(number)) if self.has(number) else ""

    def ordered(self, number: int, order: Sequence[int]) -> str:
        """Return the name of an operand with its axes in this order."""
        return self.graph.ordered(self.tensor(number), order)

    def add(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        """Append a node of one result; return the name of that."""
        hint = attributes.pop("hint", "") or (self.outputs[0] if self.outputs else "")
        return self.graph.add(op_type, *inputs, hint=hint, **attributes)

    def number(self, value: float, dtype: str | None = None) -> str:
        """Return the name of a constant of rank 0, by default of the dtype of the first operand."""
        return self.graph.constant(value, dtype or (self.tensor(0).dtype if self.operands else self.type.dtype))

    def integers(self, *values: int) -> str:
        """Return the name of a constant vector, as axes and sizes are given."""
        return self.graph.constant(np.array(values, dtype=np.int64))

    def cast(self, name: str, dtype: str, own: str = "") -> str:
        """Return a tensor in another dtype; itself if that is its `own` one."""
        return name if dtype == own else self.add("Cast", name, to=DTYPES[dtype])

    def plain_in(self, number: int, dtype: str) -> str:
        """Return the name of an operand in a dtype, with its axes in the program's order."""
        return self.cast(self.plain(number), dtype, self.tensor(number).dtype)

    def result(self, name: str, order: Sequence[int], number: int = 0) -> Tensor:
        """Return a tensor of the graph whose axes are in this order, as a result."""
        return self.graph.result(name, self.types[number], order)

    def producer(self, number: int) -> Call | None:
        """Return the op that makes an operand; None if no op of this block does."""
        return self.walk.calls.get(self.inputs[number])

    def made_by(self, number: int, *op_types: str) -> Call | None:
        """Return the op that makes an operand, if it is one of these."""
        made = self.producer(number)
        return made if made is not None and made.op_type in op_types else None


def exported(function: Callable[..., str]) -> Export:
    """Return the mapping of a function of a call and of names, which are broadcast; axes keep their order."""

    def mapped(call: Call) -> Tensor:
        names, order = aligned(call)
        return call.result(function(call, *names), order)

    return mapped


def exporting(op_type: str, *, since: int = 0, **words: str) -> Export:
    """Return the mapping of an op that is a node; `words` are ONNX's names of attributes, with ours."""

    def mapped(call: Call) -> Tensor | None:
        if call.opset < since:
            return None
        names, order = aligned(call)
        return call.result(call.add(op_type, *names, **{k: call.attributes[v] for k, v in words.items()}), order)

    return mapped


def arithmetic(export: Export) -> Export:
    """Return the mapping of an op as Add, Sub, Mul or Div, which take bytes since opset 14."""

    def mapped(call: Call) -> Any:
        if call.type.dtype == "uint8" and call.opset < 14:
            raise Unmapped("computes uint8, which opset 14 brought")
        return export(call)

    return mapped


def either(*exports: Export) -> Export:
    """Return the mapping that is the first of these that applies."""

    def mapped(call: Call) -> Any:
        return next((made for export in exports if (made := export(call)) is not None), None)

    return mapped


def named(function: Callable[..., Any]) -> Export:
    """Return the mapping of a function of a call and the names of its operands in the program's order."""
    return lambda call: function(call, *(call.plain(i) for i in range(len(call.operands))))


def missing(reason: str) -> Export:
    """Return the mapping of an op that ONNX lacks, with the reason."""

    def mapped(call: Call) -> Any:
        raise Unmapped(reason)

    return mapped


def aligned(call: Call) -> tuple[list[str], tuple[int, ...]]:
    """Return names of the operands of a pointwise op that broadcast in the graph, and the order of the result."""
    rank = len(call.type.shape)
    given = [x for x in call.operands if x is not None]
    lead = next((x for x in given if x.array is None and x.rank == rank and x.order != identity_order(rank)), None)
    order = identity_order(rank) if lead is None else lead.order
    return [_placed(call.graph, x, order) for x in given], order


def _placed(graph: Graph, x: Tensor, order: tuple[int, ...]) -> str:
    rank = len(order)
    if order == identity_order(rank) or x.rank == 0:
        return graph.plain(x)
    if x.rank == rank:
        return graph.ordered(x, order)
    wide: list[Any] = [1] * (rank - x.rank) + list(x.shape)
    shape = [wide[axis] for axis in order]
    while shape and shape[0] == 1:
        shape = shape[1:]
    if x.array is not None and not x.origins:
        return graph.constant(np.transpose(x.array.reshape(wide), order).reshape(shape))
    name = graph.plain(x)
    if sum(extent != 1 for extent in wide) <= 1:  # one axis moves past others of extent 1
        return graph.reshaped(name, shape)
    if rank > x.rank:
        name = graph.add("Unsqueeze", name, graph.constant(np.arange(rank - x.rank)))
    return graph.add("Transpose", name, perm=list(order))
