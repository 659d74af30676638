"""Layers: recurrent layers are joined with the ops around them, where that avoids recomputing a value or reading zeros.

1. A gradient whose layer is in the block reads vectors that the layer keeps for it: gates, instead of recomputing them,
   and cells, in the order in which it reads them. They take the memory of their operands.
2. It does not read gradients that are known to be 0: of cells, or of all states but the last one. Those of the first
   state and cell are left out if nothing reads them. It sums those of preactivations, for biases, while it computes
   them.
3. A layer computes the product of its features itself if nothing else reads that: step by step, with that of its
   states. For few rows it does not, because it reads all weights in every step. The order of additions is that of the
   product before the layer, so no bit depends on this choice.
4. If only the last step of a layer is read, it writes no other.
5. If its weights are bfloat16, a layer rounds states that only a cast reads, and its gradient those of preactivations.
6. Nodes that nothing reads then are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from prograd_proto import TensorType
from runtime.codegen.groups.nodes import Additions, Node, Nodes
from runtime.codegen.ir import DTYPES
from runtime.codegen.kernels.recurrent.backward import BackwardOptions
from runtime.codegen.kernels.recurrent.forward import ForwardOptions
from runtime.codegen.kernels.recurrent.layer import KEPT_VECTORS, OPERANDS
from runtime.codegen.lowering.lowered_block import LoweredBlock
from runtime.codegen.machine import NOMINAL_L2_BYTES, Target
from runtime.codegen.rules import CustomKernel
from runtime.codegen.rules.recurrent import GATES, backwards, forwards, layer_of
from runtime.step import is_transfer

MIN_FEATURE_ROWS: Final = 8
"""Least number of rows of a layer that computes the product of its features."""

BIAS_SUM_ATTRIBUTES: Final = {"axes": (0, 1), "keepdims": False}
"""The attributes of a sum for a bias."""

MAX_SUMMED_ROWS: Final = 256
"""Upper bound on the rows that a gradient sums in one chain, before it adds those of steps: longer chains lose digits.
"""

MAX_CACHE_SHARE_OF_WEIGHTS: Final = 0.8
"""Share of the nominal second-level cache that all weights of such a layer may take."""


def join_layers(block: LoweredBlock) -> LoweredBlock:
    """Join recurrent layers with the ops around them, where this avoids recomputing a value or reading zeros."""
    return block._replace(nodes=with_layers(block.nodes, block.target))


def with_layers(block: Nodes, target: Target) -> Nodes:
    """Return the block with its recurrent layers joined with the ops around them."""
    layers = [i for i, node in enumerate(block.nodes) if _gates(node)]
    return _Layers(block, target).result(layers) if layers else block


def _gates(node: Node) -> int:
    """Return the number of gates of the layer that a node is, or is the gradient of; 0 if it is neither."""
    return GATES.get(node.op.type.removesuffix("_gradient"), 0) if isinstance(node.rule, CustomKernel) else 0


def _renamed(block: Nodes, same: Mapping[str, str]) -> Nodes:
    """Return the block where each of these tensors is a view of another one."""
    nodes = [node._replace(inputs=tuple(same.get(x, x) for x in node.inputs)) for node in block.nodes]
    root = {name: same.get(of, of) for name, of in block.root.items()}
    return replace(block, nodes=nodes, root=root, ends={same.get(name, name) for name in block.ends})


class InputProjection(NamedTuple):
    """The term that is added to the product of states, as a product: features, their weights, and a bias or ""."""

    x: str
    weights: str
    bias: str


class _Layers:
    def __init__(self, block: Nodes, target: Target) -> None:
        self.block, self.target, self.types = block, target, dict(block.types)
        self.nodes: dict[int, Node] = dict(enumerate(block.nodes))
        self.maker = {name: i for i, node in self.nodes.items() for name in node.outputs}
        self.ahead: dict[int, ForwardOptions] = {}  # by position, of layers
        self.same: dict[str, str] = {}  # by name of a sum that is left out, the name of an equal one

    def result(self, layers: list[int]) -> Nodes:
        for i in layers:
            if self.nodes[i].op.type.endswith("_gradient"):
                self._gradient(i)
        for i in layers:
            if not self.nodes[i].op.type.endswith("_gradient"):
                self._layer(i)
        for i in layers:
            self._round(i)
        new = {name: name for name in self.types.keys() - self.block.types.keys()}
        block = replace(self.block, nodes=[*self.nodes.values()], types=self.types, root=self.block.root | new)
        return _renamed(block, self.same) if self.same else block

    # Gradients.

    def _gradient(self, i: int) -> None:
        node, gates = self.nodes[i], _gates(self.nodes[i])
        operands = OPERANDS[gates]
        inputs = [*node.inputs, *[""] * (operands.mask + 1 - len(node.inputs))]
        firsts = node.outputs[operands.state :]
        back = BackwardOptions(first=any(self._is_read(name) for name in firsts))
        if last := self._last(inputs[operands.gradient], node):
            back, inputs[operands.gradient] = back._replace(last=True), last
        if operands.cell_gradient is not None and self._is_zero(inputs[operands.cell_gradient]):
            back, inputs[operands.cell_gradient] = back._replace(cells=False), ""
        if kept := self._kept(node, gates):
            needed = (operands.first, operands.first_cell, operands.gradient, operands.cell_gradient, operands.mask, 1)
            needed = (*needed, operands.states if gates == 3 else None)
            inputs = [name if number in needed else "" for number, name in enumerate(inputs)] + [kept]
            back = back._replace(kept=True)
        outputs = node.outputs if back.first else node.outputs[: operands.state]
        sums = self._sums(i, node.outputs[: operands.state])
        back, outputs = back._replace(sums=tuple(sums)), (*outputs, *sums.values())
        self._put(i, node._replace(rule=backwards(gates, back), inputs=tuple(inputs), outputs=outputs))

    def _sums(self, i: int, names: Sequence[str]) -> dict[int, str]:
        """Return the sums over rows and steps that the gradient makes itself, by the number of the summed tensor.

        Their nodes go. They are all such sums, also of tensors that were moved to a file and back: these sums are added
        in another order than others, so the memory plan must not decide which of them are computed here.
        """
        found: dict[int, str] = {}
        for number, name in enumerate(names):
            for j in self._readers_of_copies(name):
                summing, rows = self.nodes[j], self.types[name].static_shape[0]
                if summing.op.type != "sum" or summing.attributes != BIAS_SUM_ATTRIBUTES or rows > MAX_SUMMED_ROWS:
                    continue
                [sum] = summing.outputs
                if number in found:
                    self.same[sum] = found[number]
                else:
                    found[number], self.maker[sum] = sum, i
                del self.nodes[j]
        return found

    def _readers_of_copies(self, name: str) -> list[int]:
        """Return the positions of the nodes that read a tensor, or its reloaded copy after a spill."""
        readers: list[int] = []
        for i in self._readers(name):
            node = self.nodes[i]
            copies = node.outputs if is_transfer(node.op.type) else ()
            readers += [i, *(j for copy in copies for j in self._readers_of_copies(copy))]
        return readers

    def _last(self, name: str, node: Node) -> str:
        """Return the gradient of the last step's states, if that of all others is 0; else ""."""
        maker = self._made_by(name, "unslice")
        if maker is None:
            return ""
        times = self.types[name].static_shape[1]
        step = 0 if node.attributes["reverse"] else times - 1
        wanted = {"axes": (1,), "starts": (step,), "stops": (step + 1,)}
        is_last = all(maker.attributes[key] == value for key, value in wanted.items())
        return maker.inputs[0] if is_last and maker.inputs[0] not in self.block.views else ""

    def _is_zero(self, name: str) -> bool:
        maker = self._made_by(name, "full")
        return maker is not None and maker.attributes["value"] == 0

    def _kept(self, node: Node, gates: int) -> str:
        """Return the name of the vectors that the layer of a gradient keeps for it; "" if it is not in the block."""
        layer = self.maker.get(node.inputs[OPERANDS[gates].states])
        if gates not in KEPT_VECTORS or layer is None or not self._is_layer_of(self.nodes[layer], node, gates):
            return ""
        forward = self.nodes[layer]
        name = f"kept for the gradient of {forward.outputs[0]}"
        if layer not in self.ahead:
            type = self.types[forward.outputs[0]]
            size = layer_of(self.target, gates, type, bool(forward.attributes["reverse"])).kept_size
            self.types[name] = TensorType(type.dtype, (size,))
            self.ahead[layer] = ForwardOptions(keeps=True)
        return name

    def _is_layer_of(self, layer: Node, node: Node, gates: int) -> bool:
        mask = OPERANDS[gates].mask
        operands, count = [*node.inputs, ""], OPERANDS[gates].states
        results = operands[count : count + len(layer.outputs)]
        same = [*operands[:count], operands[mask] if mask < len(node.inputs) else ""]
        here = [*layer.inputs, ""][: count + 1]
        return here == same and results == [*layer.outputs] and layer.attributes == node.attributes

    # Layers.

    def _layer(self, i: int) -> None:
        node, gates = self.nodes[i], _gates(self.nodes[i])
        how, count = self.ahead.get(i, ForwardOptions()), OPERANDS[gates].states
        outputs, inputs = list(node.outputs), [*node.inputs, ""][: count + 1]
        if gates == 4 and not self._is_read(outputs[1]):
            how, outputs = how._replace(cells=False), outputs[:1]
        if self._is_read_at_end(outputs[0], bool(node.attributes["reverse"])):
            how = how._replace(last=True)
        if how.keeps:
            outputs.append(f"kept for the gradient of {outputs[0]}")
        features = self._features(i, gates)
        if features:
            inputs = ["", *inputs[1:], *features]
        size = self.types[features.x].static_shape[2] if features else 0
        if how != ForwardOptions() or features:
            rule = forwards(gates, how, size)
            self._put(i, node._replace(rule=rule, inputs=tuple(inputs), outputs=tuple(outputs)))

    def _is_read_at_end(self, name: str, reverse: bool) -> bool:
        """Return True if only the states of the last step are read."""
        _, times, size = self.types[name].static_shape
        last, each = (0 if reverse else times - 1) * size, times * size
        if name in self.block.ends:
            return False
        for read in {x for node in self.nodes.values() for x in node.inputs if self.block.root.get(x, x) == name}:
            view = self.block.views.get(read)
            if view is None or min(view.layout.strides, default=0) < 0:
                return False
            inside = [(n - 1) * step for n, step in zip(*view.layout, strict=True) if step % each]
            first = view.offset % each
            if not last <= first <= first + sum(inside) < last + size:
                return False
        return True

    def _features(self, i: int, gates: int) -> InputProjection | None:
        """Return the product that a layer may compute itself instead of reading it; None if it may not."""
        node = self.nodes[i]
        x, rows = node.inputs[0], self.types[node.inputs[0]].static_shape[0]
        if self._readers(x) != [i] or rows < MIN_FEATURE_ROWS:
            return None
        adder, bias = self._made_by(x, "add"), ""
        if adder is not None:
            x, bias = sorted(adder.inputs, key=lambda name: self.types[name].rank, reverse=True)
        product = self._made_by(x, "matmul")
        if product is None or len(self._readers(x)) != 1 or any(product.attributes.values()):
            return None
        features = InputProjection(product.inputs[0], product.inputs[1], bias)
        is_chain = self.block.additions[x] is Additions.CHAIN  # the order in which the layer adds
        suits = self._suits(features, gates, self.types[x], self.types[node.inputs[1]])
        return features if is_chain and suits else None

    def _suits(self, features: InputProjection, gates: int, type: TensorType, recurrent: TensorType) -> bool:
        """Return True if the layer's product takes operands of these shapes, and all weights fit into the cache."""
        x, weights = (self.types[name] for name in features[:2])
        if x.dtype != recurrent.dtype:
            return False  # the layer makes products of one dtype
        wide = type.static_shape[-1]
        if any(name in self.block.views for name in features) or x.rank != 3 or weights.rank != 2:
            return False
        if features.bias and self.types[features.bias].static_shape != (wide,):
            return False
        depth = x.static_shape[2] + wide // gates
        return depth * wide * DTYPES[x.dtype].bits // 8 <= NOMINAL_L2_BYTES * MAX_CACHE_SHARE_OF_WEIGHTS

    # Both.

    def _round(self, i: int) -> None:
        """Let a layer or a gradient write results in bfloat16 that nothing but a cast to bfloat16 reads."""
        node, gates, rule = self.nodes[i], _gates(self.nodes[i]), self.nodes[i].rule
        assert isinstance(rule, CustomKernel), "layers have kernels of their own"
        numbers = range(OPERANDS[gates].state) if node.op.type.endswith("_gradient") else range(1)
        if not node.inputs[1] or self.types[node.inputs[1]].dtype != "bfloat16" or not rule.rounds_results:
            return
        outputs = list(node.outputs)
        for number in numbers:
            readers = [] if outputs[number] in self.block.ends else self._readers(outputs[number])
            casts = [self.nodes[j] for j in readers]
            if len(casts) != 1 or casts[0].op.type != "cast" or casts[0].inputs != (outputs[number],):
                continue
            if casts[0].attributes["dtype"] == "bfloat16":
                [outputs[number]] = casts[0].outputs
                self.maker[outputs[number]] = i
                del self.nodes[readers[0]]
                rule = replace(rule, joined=(*rule.joined, "cast"))
        self.nodes[i] = node._replace(rule=rule, outputs=tuple(outputs))

    # The block.

    def _made_by(self, name: str, op: str) -> Node | None:
        """Return the node that computes a tensor, if it is of this op, and the end of the block does not read it."""
        maker = self.nodes.get(self.maker.get(name, -1))
        return maker if maker is not None and maker.op.type == op and name not in self.block.ends else None

    def _readers(self, name: str) -> list[int]:
        """Return the positions of the nodes that read a tensor or a view of it."""
        root = self.block.root
        return [i for i, node in self.nodes.items() if any(x and root.get(x, x) == name for x in node.inputs)]

    def _is_read(self, name: str) -> bool:
        return name in self.block.ends or bool(self._readers(name))

    def _put(self, i: int, node: Node) -> None:
        """Put a node in the place of another one, and leave out nodes that nothing reads then."""
        before, self.nodes[i] = self.nodes[i].inputs, node
        for name in before:
            self._leave_out(name)

    def _leave_out(self, name: str) -> None:
        maker = self.maker.get(self.block.root.get(name, name), -1)
        node = self.nodes.get(maker)
        if node is None or node.rule is None or any(self._is_read(output) for output in node.outputs):
            return
        if maker in self.ahead:  # its gradient reads the vectors that it keeps
            return
        del self.nodes[maker]
        for operand in node.inputs:
            self._leave_out(operand)
