"""Parameters of a file: the float tensors that reach the operand of a weight.

A file stores epsilons, scales and masks as it stores weights. A tensor with several elements is a parameter if a node
reads it in the slot of a weight, directly or through nodes that only rearrange or dequantise it.
"""

# pyright: basic
# onnx is imported by name and has no types here.

from __future__ import annotations

from typing import Any, Final

SLOTS: Final = {
    "Conv": (1, 2), "ConvTranspose": (1, 2), "Gemm": (0, 1, 2), "MatMul": (0, 1), "BatchNormalization": (1, 2),
    "InstanceNormalization": (1, 2), "GroupNormalization": (1, 2), "LayerNormalization": (1, 2),
    "RMSNormalization": (1,), "SimplifiedLayerNormalization": (1,), "SkipLayerNormalization": (2, 3, 4),
    "SkipSimplifiedLayerNormalization": (2, 3), "LSTM": (1, 2, 3, 7), "GRU": (1, 2, 3), "RNN": (1, 2, 3),
    "PRelu": (1,), "Gather": (0,), "FusedMatMul": (0, 1), "BiasGelu": (1,), "FastGelu": (1,), "Einsum": (0, 1, 2),
    "Attention": (1, 2), "MultiHeadAttention": (3,), "EmbedLayerNormalization": (2, 3, 4, 5, 6), "FusedConv": (1, 2),
    "FusedGemm": (1, 2),
}  # fmt: skip
"""Positions of the operands that are weights, for each operator."""

ADDED: Final = {"Add": (0, 1), "Mul": (0, 1), "Sub": (1,)}
"""Positions of the operands that are weights if the graph stores them as initialisers, for each operator."""

STATISTICS: Final = {"BatchNormalization": (3, 4)}
"""Positions of the operands that are running statistics, for each operator."""

THROUGH: Final = {"Identity", "Transpose", "Reshape", "Slice", "Concat", "Unsqueeze", "Squeeze", "Split", "Flatten"}
"""Operators that only rearrange what they read."""

LARGEST_MASK: Final = 1e4
"""Additive constants that reach this size are masks."""


class Roles:
    """The roles of the tensors of a graph.

    Attributes:
        parameters: names of tensors that are parameters; results of DequantizeLinear are among them.
        buffers: names of running statistics.
        reasons: for each name, why it is a parameter.
    """

    def __init__(self, graph: Any) -> None:
        self.stored = {tensor.name for tensor in graph.initializer}
        self.makers = {name: node for node in graph.node for name in node.output if name}
        self.parameters: set[str] = set()
        self.buffers: set[str] = set()
        self.reasons: dict[str, str] = {}
        self._seen: set[str] = set()
        for node in _nodes(graph):
            for number, name in enumerate(node.input):
                if not name:
                    continue
                is_added = number in ADDED.get(node.op_type, ()) and name in self.stored
                if number in SLOTS.get(node.op_type, ()) or is_added:
                    self._reach(name, node)
                elif number in STATISTICS.get(node.op_type, ()):
                    self.buffers.add(name)

    def _reach(self, name: str, user: Any) -> None:
        todo = [name]
        while todo:
            name = todo.pop()
            if name in self._seen:
                continue
            self._seen.add(name)
            maker = self.makers.get(name)
            if name in self.stored or (maker is not None and maker.op_type in ("Constant", "DequantizeLinear")):
                self.parameters.add(name)
                self.reasons[name] = f"{user.op_type} reads it as a weight"
            elif maker is not None and maker.op_type in THROUGH:
                todo += list(maker.input) if maker.op_type == "Concat" else list(maker.input[:1])


def _nodes(graph: Any) -> list[Any]:
    made: list[Any] = []
    for node in graph.node:
        made.append(node)
        for attribute in node.attribute:
            if attribute.type == 5:
                made += _nodes(attribute.g)
    return made
