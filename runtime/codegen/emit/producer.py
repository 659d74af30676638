"""The producer slot: operands of products and convolutions that the nodes of a prologue compute where they are packed.

The operand is seen as a matrix whose columns are its last axis, and whose rows are all other axes. The prologue reads
every tensor by two strides: from row to row and from column to column. So a tensor may have the shape of the operand,
one element for each row, such as a statistic of a norm, or one element for each column, such as a scale.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from runtime.codegen.costs import MIN_PREFETCHED_BYTES
from runtime.codegen.emit.body import body_of
from runtime.codegen.emit.partition import LEFT, RIGHT
from runtime.codegen.groups.group_kernel import GroupKernel
from runtime.codegen.groups.nodes import Node
from runtime.codegen.groups.producers import reader_of, row_strides
from runtime.codegen.ir import Index, Value
from runtime.codegen.kernels.matmul import ComputedMatrix, Matrix, Operand, PairedMatrix, words
from runtime.codegen.kernels.matmul.shape import ProductShape
from runtime.codegen.kernels.nest import offset_of
from runtime.codegen.kernels.steps import ComputedOperand, Read
from runtime.codegen.rules import KernelContext, KernelStep, KernelSteps, Pointwise


def with_prologue(kernel: GroupKernel, steps: KernelSteps) -> KernelSteps:
    """Return the kernel steps of a convolution that computes its first operand where it packs it."""
    return steps._replace(steps=tuple(_step_with_prologue(kernel, kernel_step) for kernel_step in steps.steps))


def _step_with_prologue(kernel: GroupKernel, kernel_step: KernelStep) -> KernelStep:
    def write(context: KernelContext, start: Value, stop: Value) -> None:
        kernel_step.write(context._replace(computed_operand=_computed_operand(context, kernel)), start, stop)

    return kernel_step._replace(write=write)


def _computed_operand(context: KernelContext, kernel: GroupKernel) -> ComputedOperand:
    """Return the operand that the prologue of a group computes."""
    nodes = [node for node in kernel.group.prologue if isinstance(node.rule, Pointwise)]
    alone = [_RowsAlone.of(context, kernel, node) for node in kernel.group.prologue if node not in nodes]
    computed = [each.name for each in alone]
    result = kernel.group.prologue[-1].outputs[0]
    shape = kernel.types[result].static_shape
    body = body_of(context, kernel, nodes, (), computed)
    names = [name for name in dict.fromkeys(x for node in nodes for x in node.inputs) if name in context.addresses]
    steps = {name: row_strides(kernel.layout(name), shape) for name in names}
    assert all(steps.values()), "the prologue reads tensors by rows and columns"
    strides = {name: step for name, step in steps.items() if step}

    def reading(alone: Mapping[str, Read]) -> Read:
        def read(row: Index, column: Index, lanes: int, count: int) -> Value:
            values = {name: load(row, column, lanes, count) for name, load in alone.items()}
            return body.at(strides, [row, column], lanes, count, values)[result]

        return read

    def few_rows(row: Index, count: int) -> Read:
        return reading({each.name: each.few(row, count) for each in alone})

    large = [name for name, step in strides.items() if step == (shape[-1], 1)]
    far = [name for name in large if kernel.types[name].nbytes >= MIN_PREFETCHED_BYTES]
    operand = ComputedOperand(
        reading({each.name: each.read for each in alone}),
        [context.addresses[x] for x in large],
        [context.addresses[x] for x in far],
    )
    return operand._replace(few_rows=few_rows) if alone else operand


class _RowsAlone(NamedTuple):
    """The result of a node whose rows can be read alone: its name, and what reads any rows, or a few."""

    name: str
    read: Read
    few: Callable[[Index, int], Read]

    @classmethod
    def of(cls, context: KernelContext, kernel: GroupKernel, node: Node) -> _RowsAlone:
        reader = reader_of(node, kernel.types)
        assert reader is not None, f"rows of {node.op.type} cannot be read alone"
        given = context, node.op_types(kernel.types), [context.addresses[name] for name in node.inputs]
        read, prepare = reader.reader(*given), reader.few_rows

        def few(row: Index, count: int) -> Read:
            return read if prepare is None else prepare(*given, row, count)

        return cls(node.outputs[0], read, few)


class Stream(NamedTuple):
    """A tensor in memory that is read row by row.

    Attributes:
        at: address of its first row.
        row: its elements from row to row.
        columns_per_element: columns of the operand for each of its elements: 2 for codes of 4 bits, otherwise 1.
    """

    at: Value
    row: int
    columns_per_element: int = 1

    def moved(self, rows: Index) -> Stream:
        """Return the stream that begins `rows` rows further on."""
        return self._replace(at=self.at + rows * self.row)

    def bytes_of(self, columns: int) -> int:
        """Return the bytes that columns of the operand are computed from."""
        element = self.at.element
        return columns // self.columns_per_element * element.bits // 8

    def prefetch(self, row: Index, column: Index) -> None:
        """Prefetch a line of a row into the second-level cache; any row is allowed."""
        column = column // self.columns_per_element if self.columns_per_element > 1 else column
        self.at.function.prefetch(self.at + row * self.row, column, 2)


def _streams(context: KernelContext, kernel: GroupKernel) -> list[Stream]:
    """Return the tensors that the prologue reads with one element for each column of the operand, or for two."""
    columns = kernel.types[kernel.group.prologue[-1].outputs[0]].static_shape[-1]
    found: list[Stream] = []
    for name in dict.fromkeys(x for node in kernel.group.prologue for x in node.inputs if x in context.addresses):
        type = kernel.types[name]
        elements = type.static_shape[-1] if type.static_shape else 0
        if elements in (columns, columns / 2) and row_strides(kernel.layout(name), type.static_shape) == (elements, 1):
            found.append(Stream(context.addresses[name], elements, columns // elements))
    return found


class ProductOperands:
    """The operands of a product: matrices in memory, or the one that the prologue computes."""

    def __init__(self, context: KernelContext, kernel: GroupKernel, shape: ProductShape) -> None:
        names = kernel.group.nodes[0].inputs
        self._shape, self._types = shape, kernel.types
        self._is_widened, self._is_chained = context.f.target.widens_pairs, context.f.target.chains_pairs
        self._names = names[::-1] if shape.is_transposed else names
        self._addresses = [context.addresses.get(name) for name in self._names]
        self._computed = _computed_operand(context, kernel) if any(shape.computed) else None
        self._streams = _streams(context, kernel) if self._computed else []

    def left(self, at: list[Index]) -> Operand:
        """Return the left operand of the matrix at this index of the batch axes."""
        return self._operand(0, LEFT, self._shape.left, at)

    def right(self, at: list[Index]) -> Operand:
        """Return the right operand of the matrix at this index of the batch axes."""
        return self._operand(1, RIGHT, self._shape.right, at)

    def streams(self, left: Operand) -> list[Stream]:
        """Return the tensors in memory whose rows are those of the left operand, or what these are computed from."""
        if isinstance(left, Matrix):
            return [Stream(left.at, left.row)]
        assert isinstance(left, ComputedMatrix), "pairs are packed"
        return [stream.moved(left.i + left.operand.first) for stream in self._streams]

    def _operand(self, number: int, name: str, strides: tuple[int, int], at: list[Index]) -> Operand:
        factor, shape = self._factor(number, name, strides, at), self._shape
        if not shape.of_pairs:
            return factor
        is_widened, is_chained = self._is_widened, self._is_chained
        if isinstance(factor, Matrix) and not (shape.packed[number] or is_widened or is_chained):
            return words(factor)
        return PairedMatrix(factor, number == 0, shape.depth, is_widened=is_widened, is_chained=is_chained)

    def _factor(self, number: int, name: str, strides: tuple[int, int], at: list[Index]) -> Matrix | ComputedMatrix:
        address, loops = self._addresses[number], self._shape.loops
        if address is not None:
            return Matrix(address + loops.offset(name, at), *strides)
        assert self._computed is not None, "an operand is in memory or computed"
        columns = self._types[self._names[number]].static_shape[-1]
        first = offset_of(at, [step // columns for step in loops.strides[name][:-2]])
        return ComputedMatrix(self._computed.onward(first), *strides, is_transposed=strides[1] != 1)
