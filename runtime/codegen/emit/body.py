"""The nodes of a group at one position of its domain: operands are read once, results are stored last."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from prograd_proto import TensorType
from prograd_proto import program_pb2 as pb
from runtime.codegen.groups.group_kernel import GroupKernel, stream_of
from runtime.codegen.groups.nodes import Node
from runtime.codegen.ir import DTYPES, Function, Index, Value
from runtime.codegen.ir.words import any_lane, first
from runtime.codegen.kernels.nest import Strides, offset_of, row_major
from runtime.codegen.rules import ALL_AXES, Indices, KernelContext, Pointwise, constant, in_memory, in_register
from runtime.constants import constant_array
from runtime.conversion import converted


def counted(nodes: Sequence[Node], types: Mapping[str, TensorType], domain: Sequence[int]) -> dict[str, Strides]:
    """Return the strides of the indices that these nodes use, as if they were operands."""
    shapes = [(node.rule, types[node.outputs[0]].static_shape) for node in nodes if isinstance(node.rule, Pointwise)]
    asked = {(axis, shape) for rule, shape in shapes for axis in rule.indices.values()}
    return {_index_of(axis, shape): _steps_of(axis, shape, domain) for axis, shape in asked}


def _steps_of(axis: int, shape: Sequence[int], domain: Sequence[int]) -> Strides:
    """Return the strides of a result that broadcasts to the domain."""
    if axis == ALL_AXES:
        return row_major(shape, domain)
    return tuple(int(i == len(domain) + axis and shape[axis] != 1) for i in range(len(domain)))


def _index_of(axis: int, shape: Sequence[int]) -> str:
    return f"axis {axis} of {shape}"  # no tensor has a space in its name


def body_of(
    context: KernelContext,
    kernel: GroupKernel,
    nodes: Sequence[Node],
    stored: Sequence[str] | None = None,
    computed: Sequence[str] = (),
) -> Body:
    """Return the body of some nodes of a group.

    Args:
        context: the arguments of the kernel step.
        kernel: the group.
        nodes: pointwise nodes, in order.
        stored: the tensors that are written; all that the group stores unless given.
        computed: tensors whose values are passed to `Body.at`.
    """
    written = kernel.stored if stored is None else stored
    return Body(
        context.f,
        nodes,
        kernel.types,
        written,
        context.addresses,
        kernel.constants,
        computed,
        refuse=context.fail_check,
    )


class Body:
    """The computation of pointwise nodes, and the addresses of their tensors.

    Attributes:
        f: the function under construction.
        nodes: the pointwise nodes, in order.
        types: types of their tensors.
        stored: the tensors that are written.
    """

    def __init__(
        self,
        f: Function,
        nodes: Sequence[Node],
        types: Mapping[str, TensorType],
        stored: Sequence[str],
        indices: Mapping[str, Value],
        constants: Mapping[str, pb.OpDesc],
        computed: Sequence[str] = (),
        refuse: Callable[[], None] | None = None,
    ) -> None:
        """Read operands of one element, before any loop.

        `indices` are the addresses of tensors. `computed` are tensors whose values `at` takes as arguments. `refuse`
        writes that a runtime check failed.
        """
        self.refuse = refuse
        self.f, self.nodes, self.types, self.stored, self.places = f, nodes, types, stored, indices
        internal = {name for node in nodes for name in node.outputs} | set(computed)
        operands = dict.fromkeys(name for node in nodes for name in node.inputs if name and name not in internal)
        self.singles = {name: self._single(name, constants) for name in operands if types[name].has_one_element}
        self.known = [self._known(node) for node in nodes]

    @property
    def lanes(self) -> int:
        """Lanes of a vector whose widest elements fill a register; scalars, such as a step number, do not count."""
        names = {name for node in self.nodes for name in (*node.inputs, *node.outputs) if name} | set(self.stored)
        many = [self.types[name] for name in names if name not in self.singles and self.types[name].rank]
        bits = [DTYPES[type.dtype].bits for type in many]
        return self.f.target.lanes(max(bits, default=8))

    def at(
        self,
        steps: Mapping[str, Sequence[int]],
        index: Sequence[Index],
        lanes: int,
        count: int,
        computed: Mapping[str, Value] | None = None,
    ) -> dict[str, Value]:
        """Return the values of all tensors at a position, a vector along the last axis; write those that are stored.

        Args:
            steps: strides of every operand and stored tensor.
            index: index of the position.
            lanes: lanes of the vector; 0 for one element.
            count: number of lanes that count.
            computed: values that are already computed.
        """
        values = dict(computed or {})
        for node, known in zip(self.nodes, self.known, strict=True):
            operands = [
                self.operand(name, steps, index, lanes, count, values) if name else None for name in node.inputs
            ]
            assert isinstance(node.rule, Pointwise), f"{node.op.type} is not computed element by element"
            names = {**known, **self._places(node, steps, index, lanes)}
            if node.rule.is_invalid is not None:
                self._look(node.rule.is_invalid(*operands, **names), count)
            for name, value in zip(node.outputs, node.rule.evaluate(operands, names), strict=True):
                values[name] = self._spread(value, lanes) if self.types[name].rank else value
        for name in self.stored:
            if name in values:
                self.store(values[name], name, steps[name], index, count)
        return values

    def _look(self, refused: Value, count: int) -> None:
        """Write that the check failed if one of the elements that count is refused."""
        assert self.refuse is not None, "a group that may refuse has words for that"
        with self.f.when(any_lane(refused & first(refused, count) if refused.type.lanes else refused)):
            self.refuse()

    def store(self, value: Value, name: str, steps: Sequence[int], index: Sequence[Index], count: int) -> None:
        """Write a tensor's elements at a position."""
        position = self.places[name]
        kept = in_memory(value)
        self.f.store(kept, position + offset_of(index, steps), 0, count if kept.type.lanes else None)

    def load(self, name: str, steps: Sequence[int], index: Sequence[Index], lanes: int, count: int) -> Value:
        """Read a tensor's elements at a position."""
        position = self.places[name] + offset_of(index, steps)
        if not lanes or not steps or steps[-1] == 0:
            return self._as_read(self.f.load(position), name)
        assert steps[-1] == 1, f"{name} is read with gaps"
        return self._as_read(self.f.load(position, 0, lanes, count), name)

    def operand(
        self,
        name: str,
        steps: Mapping[str, Sequence[int]],
        index: Sequence[Index],
        lanes: int,
        count: int,
        values: dict[str, Value] | None = None,
    ) -> Value:
        """Return an operand at a position, from `values` if it is there, which also keeps what is read."""
        values = {} if values is None else values
        if name in self.singles:
            return self._spread(self.singles[name], lanes)
        if name not in values:
            values[name] = self._spread(self.load(name, steps[name], index, lanes, count), lanes)
        return self._spread(values[name], lanes)

    def _spread(self, value: Value, lanes: int) -> Value:
        return self.f.splat(value, lanes) if lanes and not value.type.lanes else value

    def _single(self, name: str, constants: Mapping[str, pb.OpDesc]) -> Value:
        if name not in constants:
            return self._as_read(self.f.load(self.places[name]), name)
        array, dtype = constant_array(constants[name].attributes[0].tensor_value), self.types[name].dtype
        number = converted(array, "float32").item() if dtype == "bfloat16" else array.item()
        return constant(self.f, dtype, number)

    def _as_read(self, value: Value, name: str) -> Value:
        return in_register(value, self.types[name].dtype)

    def _known(self, node: Node) -> dict[str, Any]:
        """Return the keyword arguments of the node's expression, computed before the loops."""
        assert isinstance(node.rule, Pointwise), f"{node.op.type} is not computed element by element"
        singles = [self.singles.get(name) for name in node.inputs]
        stream = self.f.load(self.places[stream_of(node.outputs[0])]) if node.rule.is_random else None
        return node.rule.named_values(singles, node.attributes, stream)

    def _places(
        self, node: Node, steps: Mapping[str, Sequence[int]], index: Sequence[Index], lanes: int
    ) -> dict[str, Indices]:
        """Return the indices that a node uses."""
        assert isinstance(node.rule, Pointwise), f"{node.op.type} is not computed element by element"
        found: dict[str, Indices] = {}
        for name, axis in node.rule.indices.items():
            shape = self.types[node.outputs[0]].static_shape
            along = steps[_index_of(axis, shape)]
            extent = prod(shape) if axis == ALL_AXES else shape[axis]
            first = self.f.index(offset_of(index, along))
            found[name] = Indices(first, along[-1] if along and lanes else 0, lanes, extent)
        return found
