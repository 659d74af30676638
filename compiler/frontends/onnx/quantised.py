"""Operators that compute with quantised numbers, rewritten as operators of floats between quantisations.

1. `QLinearConv`, `QLinearMatMul` and those of `com.microsoft` dequantise what they read, compute with floats, and
   quantise the result. So do here the nodes that replace them.
2. A dynamically quantised product is a `MatMulInteger`, or `ConvInteger`, behind a `DynamicQuantizeLinear`, then a
   cast, and a product with both scales. The last of these nodes is replaced.
3. Weights that the file stores come from a DequantizeLinear of their own, under their names without `_quantized`. So
   they are parameters, as in files that have these nodes already.
4. Nodes whose weights are no initialisers stay as they are, and are computed exactly and without gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from compiler.errors import CompileError
from compiler.frontends.onnx.inside import names_read
from compiler.frontends.onnx.reading import Tensors

MICROSOFT: Final = "com.microsoft"

ELEMENTWISE: Final = {
    "QLinearSigmoid": "Sigmoid", "QLinearLeakyRelu": "LeakyRelu", "QLinearAveragePool": "AveragePool",
    "QLinearGlobalAveragePool": "GlobalAveragePool", "QLinearSoftmax": "Softmax",
}  # fmt: skip
"""Operators of one quantised tensor, and what they compute."""

PAIRS: Final = {"QLinearAdd": "Add", "QLinearMul": "Mul"}
"""Operators of two quantised tensors, and what they compute."""

NEWER_SOFTMAX: Final = 13
"""Opset since which Softmax normalises one axis; before it, all axes from one on."""

OWN_ATTRIBUTES: Final = ("channels_last", "opset")
"""Attributes of quantised operators that those of floats lack."""


def in_floats(onnx: Any, graph: Any, tensors: Tensors, *, keeps_dynamic: bool) -> None:
    """Replace nodes of a graph that compute with quantised weights.

    With `keeps_dynamic`, products of integers behind DynamicQuantizeLinear, and recurrent layers of such products, stay
    products of integers.
    """
    rewriting = _Rewriting(onnx, graph, tensors, keeps_dynamic=keeps_dynamic)
    made: list[Any] = []
    for node in graph.node:
        before = len(rewriting.nodes)
        made += rewriting.nodes[before:] if rewriting.replaced(node) else [node]
    if rewriting.nodes:
        kept = _read(made, {result.name for result in graph.output})
        del graph.node[:]
        graph.node.extend(kept)


def is_quantised(graph: Any) -> bool:
    """Return True for a graph with operators that compute with quantised numbers."""
    words = ("QLinear", "QGemm", "Integer", "DynamicQuantizeMatMul", "DynamicQuantizeLSTM")
    return any(word in node.op_type for node in graph.node for word in words)


def _read(nodes: Sequence[Any], wanted: set[str]) -> list[Any]:
    """Return the nodes without products of integers that nothing reads any more."""
    kept: list[Any] = []
    needed = set(wanted)
    for node in reversed(nodes):
        is_integer = node.op_type in ("MatMulInteger", "ConvInteger", "Cast", "Mul")
        if is_integer and not needed.intersection(node.output):
            continue
        needed.update(names_read(node))
        kept.append(node)
    return kept[::-1]


class _Rewriting:
    """The nodes that replace others, and the names that are taken."""

    def __init__(self, onnx: Any, graph: Any, tensors: Tensors, *, keeps_dynamic: bool) -> None:
        self.onnx, self.graph, self.tensors, self.keeps_dynamic = onnx, graph, tensors, keeps_dynamic
        self.stored = {tensor.name: tensor for tensor in graph.initializer}
        self.makers = {name: node for node in graph.node for name in node.output if name}
        self.taken = {*self.stored, *self.makers, *(each.name for each in graph.input)}
        self.floats: dict[tuple[str, ...], str] = {}
        self.nodes: list[Any] = []

    def replaced(self, node: Any) -> bool:
        """Append the nodes that replace one, and return True; return False if it stays."""
        operator = f"{node.domain}.{node.op_type}" if node.domain == MICROSOFT else node.op_type
        rules = {
            "QLinearConv": self._conv,
            "QLinearMatMul": self._matmul,
            "Mul": self._scaled,
            "com.microsoft.QLinearConcat": self._concat,
            "com.microsoft.QGemm": self._gemm,
            "com.microsoft.DynamicQuantizeLSTM": self._lstm,
            "com.microsoft.MatMulIntegerToFloat": self._to_float,
            "com.microsoft.DynamicQuantizeMatMul": self._dynamic,
            **{f"com.microsoft.{name}": self._elementwise for name in (*ELEMENTWISE, *PAIRS)},
        }
        if self.keeps_dynamic and node.op_type in ("Mul", "DynamicQuantizeLSTM"):
            return False
        if operator not in rules or len(node.input) < 2 or not node.output:
            return False
        return rules[operator](node, _padded(node.input))

    def _elementwise(self, node: Any, names: list[str]) -> bool:
        if any(each.name == "channels_last" and each.i for each in node.attribute):
            return False
        given = {each.name: each.i for each in node.attribute}
        if node.op_type == "QLinearSoftmax":
            if given.get("opset", NEWER_SOFTMAX) < NEWER_SOFTMAX and given.get("axis", -1) != -1:
                return False
            node.attribute.extend([] if "axis" in given else [self.onnx.helper.make_attribute("axis", -1)])
        count = 2 if node.op_type in PAIRS else 1
        operator = PAIRS.get(node.op_type) or ELEMENTWISE[node.op_type]
        read = [self._float(names[3 * i], names[3 * i + 1], names[3 * i + 2]) for i in range(count)]
        self._quantise(self._add(node, operator, read), names[3 * count], names[3 * count + 1], node.output[0])
        return True

    def _concat(self, node: Any, names: list[str]) -> bool:
        given = list(node.input)
        read = [self._float(given[i], given[i + 1], given[i + 2]) for i in range(2, len(given) - 2, 3)]
        self._quantise(self._add(node, "Concat", read), names[0], names[1], node.output[0])
        return True

    def _conv(self, node: Any, names: list[str]) -> bool:
        x, x_scale, x_zero, w, w_scale, w_zero, scale, zero, bias = names[:9]
        if not self._are_stored(w, w_scale) or (bias and not self._are_stored(bias, x_scale)):
            return False
        read = [self._float(x, x_scale, x_zero), self._float(w, w_scale, w_zero, axis=0)]
        read += [self._bias(bias, x_scale, w_scale)] if bias else []
        self._quantise(self._add(node, "Conv", read), scale, zero, node.output[0])
        return True

    def _matmul(self, node: Any, names: list[str]) -> bool:
        a, a_scale, a_zero, b, b_scale, b_zero, scale, zero = names[:8]
        is_of_activations = self.keeps_dynamic and self._are_stored(a_scale, b_scale)
        if not self._are_stored(b, b_scale) and not is_of_activations:
            return False
        read = [self._float(a, a_scale, a_zero), self._float(b, b_scale, b_zero, axis=-1)]
        self._quantise(self._add(node, "MatMul", read), scale, zero, node.output[0])
        return True

    def _gemm(self, node: Any, names: list[str]) -> bool:
        a, a_scale, a_zero, b, b_scale, b_zero, bias, scale, zero = names[:9]
        if not self._are_stored(b, b_scale) or (bias and not self._are_stored(bias, a_scale)):
            return False
        turned = any(each.name == "transB" and each.i for each in node.attribute)
        read = [self._float(a, a_scale, a_zero), self._float(b, b_scale, b_zero, axis=0 if turned else 1)]
        read += [self._bias(bias, a_scale, b_scale)] if bias else []
        made = self._add(node, "Gemm", read, node.output[0] if not scale else None)
        if scale:
            self._quantise(made, scale, zero, node.output[0])
        return True

    def _to_float(self, node: Any, names: list[str]) -> bool:
        a, b, a_scale, b_scale, a_zero, b_zero, bias = names[:7]
        return self._product(node, (a, a_scale, a_zero), (b, b_scale, b_zero), bias)

    def _dynamic(self, node: Any, names: list[str]) -> bool:
        a, b, b_scale, b_zero, bias = names[:5]
        if not self._are_stored(b, b_scale) and not self.keeps_dynamic:
            return False
        quantised = tuple(self._name(f"{a}_{word}") for word in ("quantized", "scale", "zero_point"))
        self.nodes.append(self.onnx.helper.make_node("DynamicQuantizeLinear", [a], list(quantised)))
        return self._product(node, quantised, (b, b_scale, b_zero), bias)

    def _lstm(self, node: Any, names: list[str]) -> bool:
        """Replace a recurrent layer whose matrices are quantised; its operand and its states stay floats."""
        x, w, r, *more = names[:8]
        w_scale, w_zero, r_scale, r_zero = [*names, *[""] * 4][8:12]
        if not self._are_stored(w, w_scale, r, r_scale):
            return False
        if any(len(self.stored[scale].dims) > 1 for scale in (w_scale, r_scale)):
            raise CompileError(
                f"{node.op_type} {node.name!r} has a scale for each column of its matrices, which has no form in "
                "floats; give --integers, or quantise with per_channel=False"
            )
        read: list[str] = []
        for matrix, scale, zero in ((w, w_scale, w_zero), (r, r_scale, r_zero)):
            read.append(self._name(f"{matrix}_turned"))
            made = self._float(matrix, scale, zero, axis=0)
            self.nodes.append(self.onnx.helper.make_node("Transpose", [made], read[-1:], perm=[0, 2, 1]))
        layer = self.onnx.helper.make_node("LSTM", [x, *read, *more], list(node.output), name=node.name)
        layer.attribute.extend(node.attribute)
        self.nodes.append(layer)
        return True

    def _scaled(self, node: Any, names: list[str]) -> bool:
        """Replace the product with both scales behind a product of integers."""
        for value, scales in (names[:2], names[1::-1]):
            cast, both = self.makers.get(value), self.makers.get(scales)
            inner = self.makers.get(cast.input[0]) if cast is not None and cast.op_type == "Cast" else None
            if inner is None or both is None or both.op_type != "Mul" or len(both.input) != 2:
                continue
            if inner.op_type not in ("MatMulInteger", "ConvInteger"):
                continue
            x, w, x_zero, w_zero = _padded(inner.input)[:4]
            source = self.makers.get(x)
            if source is None or source.op_type != "DynamicQuantizeLinear" or source.output[1] not in both.input:
                continue
            w_scale = next((name for name in both.input if name != source.output[1]), "")
            if not self._are_stored(w, w_scale):
                continue
            axis = 0 if inner.op_type == "ConvInteger" else -1
            read = [self._float(x, source.output[1], x_zero), self._float(w, w_scale, w_zero, axis=axis)]
            self._add(inner, "Conv" if axis == 0 else "MatMul", read, node.output[0])
            return True
        return False

    def _product(self, node: Any, a: Sequence[str], b: Sequence[str], bias: str) -> bool:
        result = None if bias else node.output[0]
        if self.keeps_dynamic:
            sums = self._cast(self._add(node, "MatMulInteger", [a[0], b[0], a[2], b[2]]))
            made = self._add(node, "Mul", [sums, self._add(node, "Mul", [a[1], b[1]])], result)
        elif self._are_stored(*b[:2]):
            read = [self._float(a[0], a[1], a[2]), self._float(b[0], b[1], b[2], axis=-1)]
            made = self._add(node, "MatMul", read, result)
        else:
            return False
        if bias:
            self.nodes.append(self.onnx.helper.make_node("Add", [made, bias], [node.output[0]]))
        return True

    def _are_stored(self, *names: str) -> bool:
        return all(name in self.stored for name in names)

    def _float(self, x: str, scale: str, zero: str = "", axis: int | None = None) -> str:
        """Return the name of a dequantised tensor."""
        key = (x, scale, zero)
        if key in self.floats:
            return self.floats[key]
        word = x.removesuffix("_quantized")
        name = self.floats[key] = self._name(word if word != x else f"{x}_dequantized")
        more = {}
        if axis is not None and self.tensors.array(self.stored[scale]).size > 1:
            more["axis"] = axis
        names = [x, scale, zero] if zero else [x, scale]
        self.nodes.append(self.onnx.helper.make_node("DequantizeLinear", names, [name], **more))
        return name

    def _bias(self, bias: str, *scales: str) -> str:
        """Return the name of a bias; its scale is the product of the scales of both factors."""
        product = np.float32(1)
        for scale in scales:
            factor = self.tensors.array(self.stored[scale]).astype(np.float32).reshape(-1)
            if 1 not in (factor.size, np.size(product)) and factor.size != np.size(product):
                raise CompileError(f"the scale {scale!r} has {factor.size} elements, and its fellow {np.size(product)}")
            product = product * factor
        product = product if product.size > 1 else product.reshape(())
        tensor = self.onnx.numpy_helper.from_array(np.asarray(product, np.float32), self._name(f"{bias}_scale"))
        self.graph.initializer.append(tensor)
        self.stored[tensor.name] = tensor
        return self._float(bias, tensor.name, axis=0)

    def _add(self, node: Any, operator: str, names: list[str], result: str | None = None) -> str:
        """Append a node of floats with the attributes of a quantised one, and return the name of its result."""
        result = result or self._name(f"{node.output[0]}_float")
        made = self.onnx.helper.make_node(operator, names, [result], name=node.name)
        made.attribute.extend(each for each in node.attribute if each.name not in OWN_ATTRIBUTES)
        self.nodes.append(made)
        return result

    def _cast(self, x: str) -> str:
        """Return the name of a tensor as float32."""
        name = self._name(f"{x}_cast")
        self.nodes.append(self.onnx.helper.make_node("Cast", [x], [name], to=self.onnx.TensorProto.FLOAT))
        return name

    def _quantise(self, x: str, scale: str, zero: str, result: str) -> None:
        names = [x, scale, zero] if zero else [x, scale]
        self.nodes.append(self.onnx.helper.make_node("QuantizeLinear", names, [result]))

    def _name(self, name: str) -> str:
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name


def _padded(names: Sequence[str]) -> list[str]:
    """Return names of operands with "" for those that are left out."""
    return [*names, *[""] * (9 - len(names))]
