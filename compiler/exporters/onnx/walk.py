"""The walk over the ops of a block: each becomes nodes, and those that ONNX cannot express are listed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from compiler.exporters.onnx.call import Call, Export, Unmapped
from compiler.exporters.onnx.folding import folded
from compiler.exporters.onnx.graph import Graph
from compiler.exporters.onnx.own_domain import AsTheyAre
from compiler.exporters.onnx.tensors import Tensor, identity_order
from compiler.frontends.report import Problem
from prograd_proto import attributes_of
from prograd_proto import program_pb2 as pb
from prograd_proto.tensor_types import TensorType, type_of
from registry import OPS


class Walk:
    """The state of the walk over one block.

    Attributes:
        values: by name in the program, the tensor in the graph.
        calls: by name of a result, the op that makes it.
        readers: by name, the ops that read a tensor of the block, and None for the end of the block.
        finals: by name of the cells of an LSTM, its last cells [n, h] in the graph.
        problems: the ops that ONNX cannot express.
    """

    def __init__(
        self,
        program: pb.ProgramDesc,
        block: pb.BlockDesc,
        graph: Graph,
        exports: Mapping[str, Export],
        problems: list[Problem],
    ) -> None:
        self.folds = not isinstance(exports, AsTheyAre)
        self.program, self.block, self.graph, self.exports, self.problems = program, block, graph, exports, problems
        self.values: dict[str, Tensor] = {}
        self.calls: dict[str, Call] = {}
        self.finals: dict[str, Tensor] = {}
        self.types: dict[str, TensorType] = {tensor.name: type_of(tensor) for tensor in block.tensors}
        self.readers: dict[str, list[pb.OpDesc | None]] = {}
        for op in block.ops:
            for name in op.inputs:
                self.readers.setdefault(name, []).append(op)
        for name in (*block.results, *(f.tensor for f in block.fetches), *(u.tensor for u in block.updates)):
            self.readers.setdefault(name, []).append(None)

    def ops(self) -> None:
        """Append the nodes of all ops."""
        for op in self.block.ops:
            self._op(op)

    def inner(self, number: int, graph: Graph) -> Walk:
        """Return a walk over a block inside an op, which appends to a graph."""
        return Walk(self.program, self.program.blocks[number], graph, self.exports, self.problems)

    def _op(self, op: pb.OpDesc) -> None:
        if any(name and name not in self.values for name in op.inputs):
            self._check_mapped(op)
            return
        operands = [self.values[name] if name else None for name in op.inputs]
        types = [self.types[name] for name in op.outputs]
        self.graph.place = self.program.locations[op.location - 1] if op.location else ""
        call = Call(
            op.type, op.inputs[:], op.outputs[:], operands, types, attributes_of(op), self.graph, self, op.blocks[:]
        )
        self.calls.update(dict.fromkeys(op.outputs, call))
        known = folded(op, call) if self.folds else None
        results = self._made(op, call) if known is None else known
        for name, result, type in zip(op.outputs, results, types, strict=False):
            if result is not None:
                order = identity_order(len(type.shape))
                self.values[name] = Tensor(type, order, result) if isinstance(result, str) else result

    def _made(self, op: pb.OpDesc, call: Call) -> Sequence[Any]:
        """Return the results of the mapping of an op; none if there is a problem."""
        if not self._check_mapped(op):
            return ()
        try:
            made = self.exports[op.type](call)
        except Unmapped as error:
            self._problem(op, str(error))
            return ()
        if made is None:
            self._problem(op, f"needs a newer opset than {self.graph.model.opset}")
            return ()
        return made if isinstance(made, list | tuple) else [made]

    def _check_mapped(self, op: pb.OpDesc) -> bool:
        if op.type in self.exports:
            return True
        declared = OPS.get(op.type)
        if declared is not None and declared.random:
            self._problem(op, "draws random numbers, which differ in every runtime")
        else:
            self._problem(op, "has no counterpart in ONNX")
        return False

    def _problem(self, op: pb.OpDesc, reason: str) -> None:
        place = self.program.locations[op.location - 1] if op.location else ""
        name = op.outputs[0] if op.outputs else op.type
        self.problems.append(Problem(op.type, reason, name, place))
