"""The nodes of a graph while it is exported, and its tensors in the order of axes that a node asks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from compiler.exporters.onnx.model import Model
from compiler.exporters.onnx.tensors import Tensor, identity_order, moved
from prograd_proto import TensorType


class Unmapped(Exception):
    """An op that ONNX cannot express; the message says why."""


class Graph:
    """The nodes of a graph.

    Attributes:
        model: what it shares with the other graphs.
        nodes: its nodes.
        outer: the graph whose node this one is a branch or body of; None for the graph of the model.
        feeds: for each symbol of the program a feed and its axis of that size.
    """

    def __init__(self, model: Model, outer: Graph | None = None) -> None:
        self.model, self.outer = model, outer
        self.nodes: list[Any] = []
        self.feeds: dict[str, tuple[str, int]] = {}
        self.place = ""
        self._moved: dict[tuple[Any, ...], str] = {}
        self._sizes: dict[str, str] = {}

    @property
    def main(self) -> Graph:
        """The graph of the model."""
        return self if self.outer is None else self.outer.main

    def node(
        self, op_type: str, inputs: Sequence[str], outputs: Sequence[str], *, domain: str = "", **attributes: Any
    ) -> None:
        """Append a node; attributes that are None are left out."""
        known = {name: value for name, value in attributes.items() if value is not None}
        node = self.model.onnx.helper.make_node(op_type, list(inputs), list(outputs), domain=domain, **known)
        node.name = self.model.free(f"node_{outputs[0]}" if outputs else f"node_{op_type}")
        if self.place:
            node.doc_string = self.place
        self.nodes.append(node)

    def add(self, op_type: str, *inputs: str, domain: str = "", hint: str = "", **attributes: Any) -> str:
        """Append a node of one result; return the name of that."""
        [name] = self.several(op_type, *inputs, count=1, domain=domain, hint=hint, **attributes)
        return name

    def several(
        self, op_type: str, *inputs: str, count: int, domain: str = "", hint: str = "", **attributes: Any
    ) -> list[str]:
        """Append a node of several results; return their names."""
        names = [self.model.free(hint or op_type.lower()) for _ in range(count)]
        self.node(op_type, inputs, names, domain=domain, **attributes)
        return names

    def constant(self, array: Any, dtype: str | None = None) -> str:
        """Return the name of a constant."""
        return self.model.initializer(np.asarray(array, dtype=dtype))

    def plain(self, x: Tensor) -> str:
        """Return the name of a tensor with the axes in the program's order."""
        return self.ordered(x, identity_order(x.rank))

    def ordered(self, x: Tensor, order: Sequence[int]) -> str:
        """Return the name of a tensor whose axis j is axis `order[j]` of the program's tensor."""
        order = tuple(order)
        if x.state:
            name, held = self.model.state(x.state, order)
            return self._transposed(name, moved(held, order))
        if x.array is not None:
            array = np.transpose(x.array, order)
            whole = self.model.whole_state(array, x.origins)
            if whole is not None:  # all elements of a weight in another shape: the weight keeps its name
                return self.reshaped(self.plain(whole), array.shape)
            return self.model.initializer(array, x.origins)
        held, wanted = ([axis for axis in each if x.shape[axis] != 1] for each in (x.order, order))
        if x.order != order and held == wanted:  # only axes of extent 1 move
            return self.reshaped(x.name, [x.shape[axis] for axis in order])
        return self._transposed(x.name, moved(x.order, order))

    def _transposed(self, name: str, permutation: tuple[int, ...]) -> str:
        if permutation == identity_order(len(permutation)):
            return name
        graph: Graph | None = self
        while graph is not None:
            if (name, permutation) in graph._moved:
                return graph._moved[name, permutation]
            graph = graph.outer
        made = self.add("Transpose", name, hint=f"{name}_transposed", perm=list(permutation))
        self._moved[name, permutation] = made
        return made

    def size_of(self, symbol: str) -> str:
        """Return the name of a vector of one element, the size of a symbol."""
        main = self.main
        if symbol not in main._sizes:
            feed, axis = main.feeds[symbol]
            shape = main.add("Shape", feed)
            main._sizes[symbol] = main.add("Gather", shape, main.constant([axis], "int64"), hint=symbol, axis=0)
        return main._sizes[symbol]

    def shape(self, extents: Sequence[int | str]) -> str:
        """Return the name of a vector of these extents."""
        if all(isinstance(extent, int) for extent in extents):
            return self.constant(list(extents), "int64")
        parts = [self.size_of(e) if isinstance(e, str) else self.constant([e], "int64") for e in extents]
        return self.add("Concat", *parts, axis=0) if len(parts) > 1 else parts[0]

    def reshaped(self, name: str, extents: Sequence[int | str]) -> str:
        """Return a tensor in another shape; one extent that is a symbol needs no computation."""
        symbols = [extent for extent in extents if isinstance(extent, str)]
        if len(symbols) <= 1 and 0 not in extents:
            extents = [-1 if isinstance(extent, str) else extent for extent in extents]
        if 0 in extents and self.model.opset < 14:
            raise Unmapped("reshapes a tensor without elements, which opset 14 brought")
        return self.add("Reshape", name, self.shape(extents), allowzero=1 if 0 in extents else None)

    def result(self, name: str, type: TensorType, order: Sequence[int] | None = None) -> Tensor:
        """Return a tensor of the graph as one of the program."""
        return Tensor(type, identity_order(len(type.shape)) if order is None else tuple(order), name)
