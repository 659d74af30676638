"""Parameters of a file: the float tensors that the exporter notes as such, or that reach the operand of a weight.

1. PyTorch's newer exporter notes of each initialiser whether it was a parameter, a buffer or a constant.
2. Without such a note, a tensor with several elements is a parameter if a node reads it in the slot of a weight. Nodes
   in between may rearrange it, dequantise it or combine it with other stored tensors, as a direction and a length.
3. An operand of an addition or a multiplication is a weight if the graph stores it as an initialiser. A Constant node
   is a weight only after a product of matrices, a convolution or an instance normalisation, or if the graph has no
   initialisers of floats: its exporter stores weights as nodes.
4. Ones and zeros in the slots of a normalisation, under a name that no module has, stand for a normalisation without
   parameters.

A file stores epsilons, scales and masks as it stores weights; these rules leave them out.
"""

from __future__ import annotations

import ast
import re
from math import prod
from typing import Any, Final

import numpy as np

from compiler.frontends.onnx.inside import all_nodes, graphs_of
from compiler.onnx_operators.flow.invariants import aliases, origin_of

SLOTS: Final = {
    "Conv": (1, 2), "ConvTranspose": (1, 2), "DeformConv": (1, 3), "Gemm": (0, 1, 2), "MatMul": (0, 1),
    "BatchNormalization": (1, 2), "InstanceNormalization": (1, 2), "GroupNormalization": (1, 2),
    "LayerNormalization": (1, 2), "RMSNormalization": (1,), "SimplifiedLayerNormalization": (1,),
    "SkipLayerNormalization": (2, 3, 4), "SkipSimplifiedLayerNormalization": (2, 3), "LSTM": (1, 2, 3, 7),
    "GRU": (1, 2, 3), "RNN": (1, 2, 3), "PRelu": (1,), "Gather": (0,), "FusedMatMul": (0, 1), "BiasGelu": (1,),
    "FastGelu": (1,), "Einsum": (0, 1, 2), "Attention": (1, 2), "MultiHeadAttention": (3,),
    "EmbedLayerNormalization": (2, 3, 4, 5, 6), "FusedConv": (1, 2), "FusedGemm": (1, 2),
}  # fmt: skip
"""Positions of the operands that are weights, for each operator."""

NORMALISATIONS: Final = {"InstanceNormalization", "GroupNormalization", "LayerNormalization", "RMSNormalization"}
"""Operators whose weights are ones and zeros where the module has none."""

ADDED: Final = {"Add": (0, 1), "Mul": (0, 1), "Sub": (1,)}
"""Positions of the operands that are weights if the graph stores them as initialisers, for each operator."""

STATISTICS: Final = {"BatchNormalization": (3, 4)}
"""Positions of the operands that are running statistics, for each operator."""

FLOATS: Final = {1, 10, 11, 16}
"""Numbers of the element types that are floats."""

THROUGH: Final = {
    "Identity", "Transpose", "Reshape", "Slice", "Concat", "Unsqueeze", "Squeeze", "Split", "Flatten", "Expand", "Cast",
    "CastLike", "Pad", "Tile",
}  # fmt: skip
"""Operators that only rearrange their operands."""

ARITHMETIC: Final = {
    "Mul", "Div", "Add", "Sub", "Neg", "Exp", "Sqrt", "Pow", "Reciprocal", "Tanh", "Sigmoid", "Softplus", "Softmax",
    "MatMul", "Gemm", "ReduceL2", "ReduceSum", "ReduceMean", "ReduceSumSquare", "Where", "Abs", "Max", "Min",
    "Normalizer", "LpNormalization",
}  # fmt: skip
"""Operators by which modules compute a weight of other tensors."""

MAX_REARRANGED: Final = 32
"""Largest number of nodes that rearrange one tensor, one behind another."""

LARGEST_MASK: Final = 1e4
"""Additive constants that reach this size are masks."""

KIND: Final = "pkg.torch.export.graph_signature.InputSpec.kind"
"""Key of the exporter's note that says what an initialiser was in the module."""

FOLDED: Final = "pkg.onnxscript.optimizer.folded_from"
"""Key of the exporter's note that says what an initialiser was computed from."""

MADE_UP: Final = re.compile(r"_?val_\d+|lifted_tensor_\d+|onnx::\w+|/.*|.*Constant(_\d+)?_output_\d+")
"""Names that exporters invent for tensors that have no name in the module."""


class Roles:
    """The roles of the tensors of a graph.

    Attributes:
        parameters: names of tensors that are parameters; results of DequantizeLinear are among them.
        buffers: names of running statistics.
        reasons: for each name, why it is a parameter.
    """

    def __init__(self, model: Any, array: Any) -> None:
        graph = model.graph
        self._array = array
        nodes = [*all_nodes(graph)]
        inner = [each for node in nodes for each in graphs_of(node)]
        self.stored = {tensor.name: tensor for each in (*inner, graph) for tensor in each.initializer}
        self.aliases = {inside: outside for node in nodes for inside, outside in aliases(node)}
        self.makers = {name: node for node in nodes for name in node.output if name}
        self.inputs = {each.name for each in graph.input} - set(self.stored)
        self.parameters: set[str] = set()
        self.buffers: set[str] = set()
        self.reasons: dict[str, str] = {}
        self._is_named = model.producer_name == "pytorch"
        self._known = self._independent(nodes)
        self._seen: set[tuple[str, bool]] = set()
        self._folded: set[str] = set()
        self._named = self._noted(graph)
        self._in_nodes = not any(t.data_type in FLOATS and prod(t.dims) > 1 for t in self.stored.values())
        for node in nodes:
            for number, name in enumerate(node.input):
                if name:
                    self._read(node, number, name)

    def is_weight(self, name: str, array: Any) -> bool:
        """Return True if the elements of a parameter look like a weight: floats that are no mask."""
        if array.dtype.name not in ("float32", "float64", "float16", "bfloat16") or not array.size:
            return False
        if name in self._named:
            return self._named[name]
        if array.ndim == 0 or array.size < 2:
            is_named = self._is_named and name in self.stored and not MADE_UP.fullmatch(name)
            return is_named or name in self._folded
        wide = array.astype(np.float64)
        return bool(np.isfinite(wide).all() and np.abs(wide).max() < LARGEST_MASK)

    def _noted(self, graph: Any) -> dict[str, bool]:
        """Return the initialisers of which the exporter notes whether they were parameters."""
        made: dict[str, bool] = {}
        for each in graph.value_info:
            notes = {note.key: note.value for note in each.metadata_props}
            if each.name not in self.stored:
                continue
            if KIND in notes:
                made[each.name] = notes[KIND] == "PARAMETER"
            elif FOLDED in notes and self._is_made_up(notes[FOLDED]):
                made[each.name] = False
            elif FOLDED in notes:
                self._folded.add(each.name)
            if made.get(each.name):
                self.parameters.add(each.name)
                self.reasons[each.name] = "the exporter notes that it is a parameter"
        return made

    def _is_made_up(self, note: str) -> bool:
        """Return True if a tensor was computed of the exporter's own constants and of sizes alone."""
        try:
            names = [str(name) for name in ast.literal_eval(note)]
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return False
        return all(MADE_UP.fullmatch(name) or name in self.makers for name in names)

    def _independent(self, nodes: list[Any]) -> set[str]:
        """Return the names of tensors that depend on stored ones alone."""
        made = {"", *self.stored}
        for node in nodes:
            if all(origin_of(name, self.aliases) in made for name in node.input):
                made.update(node.output)
        return made

    def _read(self, node: Any, number: int, name: str) -> None:
        if number in STATISTICS.get(node.op_type, ()):
            self.buffers.add(name)
        elif number in SLOTS.get(node.op_type, ()):
            if not self._is_plain(node):
                self._reach(name, node, constants=True)
        elif number in ADDED.get(node.op_type, ()):
            other = node.input[1 - number] if len(node.input) == 2 else ""
            if node.op_type == "Sub" and self._origin(other) in self.inputs:
                return  # the mean of the inputs
            is_weight = self._in_nodes and self._elements(name) is not None
            self._reach(name, node, constants=is_weight or self._is_behind_weights(node, name, other))
        elif node.op_type == "Exp" and name in self.stored:
            self._reach(name, node, constants=False)  # the logarithm of a scale, as contrastive models have it

    def _is_plain(self, node: Any) -> bool:
        """Return True for a normalisation whose weights are ones and zeros that the exporter made."""
        names = [name for name in node.input[1:3] if name]
        if node.op_type not in NORMALISATIONS or not all(MADE_UP.fullmatch(self._origin(name)) for name in names):
            return False
        arrays = [self._elements(name) for name in names]
        return all(
            array is not None and array.size > 0 and bool(np.all(array == (0.0 if i else 1.0)))
            for i, array in enumerate(arrays)
        )

    def _origin(self, name: str) -> str:
        """Return the name of the stored tensor, or of the Constant, behind operators that only rearrange."""
        for _ in range(MAX_REARRANGED):
            name = origin_of(name, self.aliases)
            maker = self.makers.get(name)
            if maker is None or maker.op_type not in THROUGH or maker.op_type == "Concat" or not maker.input:
                return name
            name = maker.input[0]
        return name

    def _elements(self, name: str) -> Any:
        """Return the elements of a stored tensor or a Constant, before it is rearranged; None for others."""
        name = self._origin(name)
        if name in self.stored:
            return self._array(self.stored[name])
        maker = self.makers.get(name)
        values = [a for a in maker.attribute if a.name in ("value", "value_float", "value_floats")] if maker else []
        if maker is None or maker.op_type != "Constant" or not values:
            return None
        [value] = values[:1]
        return self._array(value.t) if value.name == "value" else np.asarray([value.f, *value.floats][-1:])

    def _is_behind_weights(self, node: Any, name: str, other: str) -> bool:
        """Return True for a Constant of one wide axis behind an operator with weights: its bias, or a scale."""
        maker = self.makers.get(self._origin(other))
        array = self._elements(name)
        if maker is None or array is None or sum(extent > 1 for extent in array.shape) != 1:
            return False
        if maker.op_type in ("Conv", "ConvTranspose", "MatMul"):
            return node.op_type == "Add"
        if maker.op_type == "Mul" and node.op_type == "Add":
            sources = [self.makers.get(self._origin(each)) for each in maker.input]
            return any(each is not None and each.op_type == "InstanceNormalization" for each in sources)
        return maker.op_type == "InstanceNormalization"

    def _reach(self, name: str, user: Any, *, constants: bool) -> None:
        """Mark the stored tensors behind an operand as parameters, and Constant nodes if `constants` is true."""
        todo = [name]
        while todo:
            name = origin_of(todo.pop(), self.aliases)
            if not name or (name, constants) in self._seen:
                continue
            self._seen.add((name, constants))
            maker = self.makers.get(name)
            taken = ("Constant", "DequantizeLinear") if constants else ("DequantizeLinear",)
            if name in self.stored or (maker is not None and maker.op_type in taken):
                self.parameters.add(name)
                self.reasons.setdefault(name, f"{user.op_type} reads it as a weight")
            elif maker is None:
                continue
            elif maker.op_type in THROUGH:
                todo += list(maker.input) if maker.op_type == "Concat" else list(maker.input[:1])
            elif maker.op_type in ARITHMETIC and name in self._known:
                todo += list(maker.input)
