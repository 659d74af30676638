"""Products and convolutions between DequantizeLinear and QuantizeLinear, rewritten as nodes that compute in integers.

A node `IntegerConv`, `IntegerMatMul` or `IntegerGemm` of the domain `DOMAIN` has the operands of QLinearConv: x, its
scale and zero point, those of the weight, those of the result, and a bias of int32 or float32. Without a scale of the
result, the result is float32. It has the attributes of the node that computes with floats, and `relu`. An `IntegerMul`
or an `IntegerAverage` has scales and zero points for operands and result in the same way.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from compiler.frontends.onnx.inside import names_needed, names_read
from compiler.frontends.onnx.reading import Tensors

DOMAIN: Final = "prograd"

OPERATORS: Final = {"Conv": "IntegerConv", "MatMul": "IntegerMatMul", "Gemm": "IntegerGemm"}

BETWEEN: Final = {"Mul": "IntegerMul", "GlobalAveragePool": "IntegerAverage"}
"""Operators without weights, which have no integers unless their results are quantised."""

MAX_CONV_RANK: Final = 4
"""Axes of images of two dimensions."""

OF_INTEGERS: Final = ("MatMulInteger", "ConvInteger", "DynamicQuantizeLSTM")
"""Operators of ONNX that compute in integers themselves."""

BIAS_TOLERANCE: Final = 1e-3
"""Relative difference up to which the scale of a bias counts as the product of the other two scales."""


def in_integers(onnx: Any, graph: Any, tensors: Tensors) -> int:
    """Replace nodes of a graph whose operands are quantised to eight bits; return how many compute in integers then."""
    finder = _Finder(onnx, graph, tensors)
    made = [found for node in graph.node if (found := finder.found(node)) is not None]
    replaced = {name for node in made for name in node.output}
    nodes = [*(node for node in graph.node if not replaced.intersection(node.output)), *made]
    needed = names_needed(nodes, (result.name for result in graph.output))
    del graph.node[:]
    graph.node.extend(node for node in nodes if needed.intersection(node.output))
    return len(made) + sum(node.op_type in OF_INTEGERS for node in graph.node)


class _Finder:
    """Patterns of a graph."""

    def __init__(self, onnx: Any, graph: Any, tensors: Tensors) -> None:
        self.onnx, self.tensors = onnx, tensors
        self.stored = {tensor.name: tensor for tensor in graph.initializer}
        self.makers = {name: node for node in graph.node for name in node.output if name}
        self.results = {result.name for result in graph.output}
        self.readers: dict[str, list[Any]] = {}
        for node in graph.node:
            for name in names_read(node):
                self.readers.setdefault(name, []).append(node)

    def found(self, node: Any) -> Any:
        """Return the node that computes the results of this one, or of its QuantizeLinear, in integers; else None."""
        if node.op_type == "QuantizeLinear":
            return self._quantised(node)
        if node.op_type not in OPERATORS or self._is_quantised_later(node):
            return None
        operands = self._operands(node)
        return operands and self._made(node, [*operands[:6], "", "", *operands[6:]], node.output[0], relu=False)

    def _quantised(self, node: Any) -> Any:
        source, relu = self.makers.get(node.input[0]), False
        if source is not None and source.op_type in BETWEEN:
            return self._between(node, source)
        if source is not None and source.op_type == "Relu" and self._is_read_once(source.output[0]):
            source, relu = self.makers.get(source.input[0]), True
        if source is None or source.op_type not in OPERATORS or not self._is_read_once(source.output[0]):
            return None
        operands = self._operands(source)
        if operands is None or not self._is_eight_bit(node) or self._size(node.input[1]) != 1:
            return None
        names = [*operands[:6], node.input[1], node.input[2], *operands[6:]]
        return self._made(source, names, node.output[0], relu=relu)

    def _between(self, node: Any, source: Any) -> Any:
        """Return the node of an operator without weights, if its operands have one scale each; else None."""
        pairs = [self._dequantised(name) for name in source.input]
        if not (self._is_read_once(source.output[0]) and self._is_eight_bit(node) and self._size(node.input[1]) == 1):
            return None
        names = [name for pair in pairs for name in pair or ()]
        if None in pairs or any(self._size(name) != 1 for name in names[1::3]):
            return None
        operator = BETWEEN[source.op_type]
        return self.onnx.helper.make_node(
            operator, [*names, *node.input[1:3]], [node.output[0]], name=source.name, domain=DOMAIN
        )

    def _is_quantised_later(self, node: Any) -> bool:
        """Return True if the result goes to one QuantizeLinear, which then becomes the node of integers."""
        readers = self.readers.get(node.output[0], [])
        if len(readers) == 1 and readers[0].op_type == "Relu":
            readers = self.readers.get(readers[0].output[0], [])
        return len(readers) == 1 and self.found(readers[0]) is not None if readers else False

    def _is_read_once(self, name: str) -> bool:
        return len(self.readers.get(name, [])) == 1 and name not in self.results

    def _made(self, node: Any, names: list[str], result: str, *, relu: bool) -> Any:
        made = self.onnx.helper.make_node(
            OPERATORS[node.op_type], names, [result], name=node.name, domain=DOMAIN, relu=int(relu)
        )
        made.attribute.extend(node.attribute)
        return made

    def _operands(self, node: Any) -> list[str] | None:
        """Return the names of both operands with scales and zero points, and of the bias; None if one is a float."""
        given = {each.name: each for each in node.attribute}
        if any(given[name].f != 1 for name in ("alpha", "beta") if name in given):
            return None
        if "transA" in given and given["transA"].i:
            return None
        x, w = (self._dequantised(name) for name in node.input[:2])
        if x is None or w is None or self._size(x[1]) != 1:
            return None
        is_stored = w[0] in self.stored
        if is_stored and not self._is_weight(node, w):
            return None
        if not is_stored and (node.op_type != "MatMul" or self._size(w[1]) != 1):
            return None
        bias = [""] if len(node.input) < 3 or not node.input[2] else self._bias(node.input[2], x[1], w[1])
        return bias and [*x, *w, *bias]

    def _dequantised(self, name: str) -> list[str] | None:
        """Return tensor, scale and zero point of a DequantizeLinear of eight bits."""
        node = self.makers.get(name)
        if node is None or node.op_type != "DequantizeLinear" or not self._is_eight_bit(node):
            return None
        return list(node.input)

    def _is_eight_bit(self, node: Any) -> bool:
        """Return True if scale and zero point are stored, a float32 and of eight bits, without blocks."""
        if len(node.input) < 3 or any(each.name == "block_size" and each.i for each in node.attribute):
            return False
        scale, zero = (self.stored.get(name) for name in node.input[1:3])
        kinds = self.onnx.TensorProto
        if zero is None or zero.data_type not in (kinds.UINT8, kinds.INT8) or scale is None:
            return False  # the scale may be by DynamicQuantizeLinear
        return scale.data_type == kinds.FLOAT and len(scale.dims) <= 1

    def _is_weight(self, node: Any, w: list[str]) -> bool:
        """Return True for a stored weight with a scale for all or for each result channel."""
        shape, count = list(self.stored[w[0]].dims), self._size(w[1])
        if node.op_type == "Conv":
            return 3 <= len(shape) <= MAX_CONV_RANK and (count == 1 or (count == shape[0] and self._axis(w, 4) == 0))
        if len(shape) != 2:
            return False
        turned = any(each.name == "transB" and each.i for each in node.attribute)
        channel = 0 if turned else 1
        return count == 1 or (count == shape[channel] and self._axis(w, 2) == channel)

    def _axis(self, w: list[str], rank: int) -> int:
        [node] = [node for node in self.readers[w[0]] if list(node.input) == w][:1]
        return next((each.i for each in node.attribute if each.name == "axis"), 1) % rank

    def _bias(self, name: str, x_scale: str, w_scale: str) -> list[str] | None:
        """Return the name of a bias: stored float32, or int32 whose scale is the product of both scales."""
        if name in self.stored:
            return [name] if self.stored[name].data_type == self.onnx.TensorProto.FLOAT else None
        node = self.makers.get(name)
        if node is None or node.op_type != "DequantizeLinear" or node.input[0] not in self.stored:
            return None
        if self.stored[node.input[0]].data_type != self.onnx.TensorProto.INT32 or node.input[1] not in self.stored:
            return None
        if not self._is_zero(node):
            return None
        wanted = self._array(x_scale).reshape(-1) * self._array(w_scale).reshape(-1)
        found = self._array(node.input[1]).reshape(-1)
        if found.size not in (1, wanted.size) or not np.allclose(found, wanted, rtol=BIAS_TOLERANCE, atol=0):
            return None
        return [node.input[0]]

    def _is_zero(self, node: Any) -> bool:
        """Return True if a DequantizeLinear has no zero point but 0."""
        if len(node.input) < len(("x", "scale", "zero")) or not node.input[2]:
            return True
        return node.input[2] in self.stored and not self._array(node.input[2]).any()

    def _array(self, name: str) -> Any:
        return self.tensors.array(self.stored[name])

    def _size(self, name: str) -> int:
        return int(np.prod(self.stored[name].dims)) if name in self.stored else 0
