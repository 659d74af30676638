"""A node of a graph while it is imported: its operands, its attributes, and what mappings make of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from compiler.errors import CompileError
from compiler.frontends.arranged import Arranged, arranged, plain, pointwise, unsqueezed
from compiler.frontends.extents import Extent
from compiler.frontends.onnx.known.constants import CARRIED, Constant, Store
from compiler.frontends.pieces import number_of, positions
from registry import Block, Value, ops

MISSING: Final = object()
"""The value of a node that could not be imported, and of all that depend on it."""

Mapping = Callable[["Node"], Any]
"""A function of a node, which appends ops and returns the result, or a tuple of the results."""


@dataclass(frozen=True, eq=False)
class Node:
    """A node whose operands are known.

    Attributes:
        operator: the name of its operator.
        version: the opset of its domain.
        attributes: its attributes as Python's values.
        operands: for each input a tensor, a constant, a list of these, or None if it is left out.
        inputs: names of the operands; "" for one that is left out.
        outputs: names of the results; "" for one that nobody reads.
        dtypes: dtypes of the model by the number of an operand, None if unknown.
        results: dtypes of the model by the number of a result, None if unknown.
        block: the block that ops are appended to.
        store: puts the elements of an array into the program.
        walk: the walk over the graph, for branches and bodies.
    """

    operator: str
    version: int
    attributes: dict[str, Any]
    operands: Sequence[Any]
    inputs: Sequence[str]
    outputs: Sequence[str]
    dtypes: Sequence[str | None]
    results: Sequence[str | None]
    block: Block
    store: Store
    walk: Any

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return an attribute."""
        return self.attributes.get(name, default)

    def has(self, number: int) -> bool:
        """Return True if an operand is given."""
        return number < len(self.operands) and self.operands[number] is not None

    def wants(self, number: int) -> bool:
        """Return True if a result is read."""
        return number < len(self.outputs) and self.outputs[number] != ""

    def tensor(self, number: int) -> Arranged:
        """Return an operand as a tensor."""
        x = self.optional(number)
        if x is None:
            raise CompileError(f"operand {number} is missing")
        return x

    def pair(self) -> tuple[Arranged, Arranged]:
        """Return the two operands of a function that broadcasts; before opset 7, `axis` aligns the second."""
        a, b = self.tensor(0), self.tensor(1)
        if self.version < 7 and self.attribute("broadcast", 0) and "axis" in self.attributes:
            for _ in range(a.rank - self.axis(rank=a.rank) - b.rank):
                b = unsqueezed(b, b.rank)
        return a, b

    def optional(self, number: int) -> Arranged | None:
        """Return an operand as a tensor; None if it is left out."""
        if not self.has(number):
            return None
        return self.lifted(self.operands[number])

    def lifted(self, x: Any) -> Arranged:
        """Return a value as a tensor."""
        if isinstance(x, list):
            raise CompileError("an operand is a sequence, which exists while importing only")
        return x.tensor(self.block) if isinstance(x, Constant) else x

    def tensors(self) -> list[Arranged]:
        """Return all operands as tensors."""
        return [self.tensor(i) for i in range(len(self.operands))]

    def value(self, number: int) -> Value:
        """Return an operand in the order and with the extents of the model."""
        return plain(self.tensor(number))

    def optional_value(self, number: int) -> Value | None:
        """Return an operand in the order of the model; None if it is left out."""
        x = self.optional(number)
        return None if x is None else plain(x)

    def constant(self, number: int) -> Any:
        """Return the elements of an operand; raise CompileError if they depend on data."""
        return self._known(number).array()

    def number_or_tensor(self, number: int, default: Any = None) -> Any:
        """Return the only element of an operand as a number, or the operand as a tensor if it is data."""
        x = self.operands[number] if self.has(number) else default
        return x.array().reshape(-1)[0].item() if isinstance(x, Constant) else x

    def extents(self, number: int) -> list[Extent]:
        """Return the elements of an operand as extents."""
        return self._known(number).extents()

    def numbers(self, number: int) -> list[int]:
        """Return the elements of an operand as integers."""
        return [int(n) for n in np.asarray(self.constant(number)).reshape(-1)]

    def number(self, number: int) -> int:
        """Return the only element of an operand."""
        return self.numbers(number)[0]

    def shape(self, number: int = 0) -> tuple[Extent, ...]:
        """Return the extents of an operand."""
        return tuple(self.operands[number].shape)

    def size(self, axis: int, number: int = 0) -> int:
        """Return an extent of an operand as a number; raise CompileError for a symbol."""
        extent = self.shape(number)[axis]
        if extent.symbols:
            raise CompileError(f"{self.operator} of an axis with {extent} elements; bind {extent.symbols[0]!r}")
        return extent.number

    def sizes(self, number: int = 0) -> tuple[int, ...]:
        """Return all extents of an operand as numbers; raise CompileError for a symbol."""
        return tuple(self.size(axis, number) for axis in range(len(self.shape(number))))

    def count(self, extent: Extent, dtype: str = "int64") -> Value:
        """Return an extent as a tensor of rank 0."""
        return number_of(self.block, extent, dtype)

    def range(self, extent: Extent) -> Value:
        """Return the numbers from 0 of an extent, int64."""
        return positions(self.block, extent) if extent.symbols else self.new(np.arange(extent.number), "int64")

    def axis(self, name: str = "axis", default: int = 0, rank: int | None = None) -> int:
        """Return an attribute that is an axis, counted from the front."""
        rank = int(self.operands[0].rank) if rank is None else rank
        axis = int(self.attribute(name, default))
        if not -rank <= axis < max(rank, 1):
            raise CompileError(f"axis={axis} of a tensor with {rank} axes")
        return axis % rank if rank else 0

    def new(self, array: Any, dtype: str | None = None) -> Value:
        """Return an array as a constant of the program."""
        return self.store(np.asarray(array, dtype=dtype))

    def rows(self) -> int:
        """Return the bound of the number of rows of a result, which is data; raise CompileError if there is none."""
        bounds = [self.walk.rows[name] for name in self.outputs if name in self.walk.rows]
        if not bounds:
            name = next(name for name in self.outputs if name)
            raise CompileError(
                f"the number of its rows is data; bound it by max_rows={{{name!r}: N}}, or --max-rows {name}=N"
            )
        return bounds[0]

    def counts(self, number: Value) -> None:
        """Add a result with the number of rows that there are."""
        if self.walk.block is not self.walk.block.root:
            raise CompileError("the number of its rows is data, in a branch or a loop that nothing leaves but results")
        name = next(name for name in self.outputs if name in self.walk.rows)
        self.walk.counted[name] = number

    def full(self, shape: Sequence[int | str], value: float, dtype: str = "float32") -> Value:
        """Return a filled tensor."""
        return ops.full.on(self.block)(shape=tuple(shape), value=value, dtype=dtype)  # pyright: ignore[reportArgumentType]: a dtype

    def depends_on_sizes(self, number: int) -> bool:
        """Return True for a tensor that depends on sizes alone."""
        return self.inputs[number] in self.walk.by_sizes

    def _known(self, number: int) -> Constant:
        if not self.has(number):
            raise CompileError(f"operand {number} is missing")
        x = self.operands[number]
        if not isinstance(x, Constant):
            if self.depends_on_sizes(number):
                names = ", ".join(self.walk.symbols.names)
                raise CompileError(f"a size is no product of a number and the symbols {names}; bind them to numbers")
            raise CompileError(f"operand {number} has to be known while importing; give it by --constant NAME=VALUE")
        return x


def cast(x: Value, dtype: str) -> Value:
    """Return a value in another dtype."""
    return x if x.dtype == dtype else ops.cast(x, dtype=dtype)  # pyright: ignore[reportArgumentType]: a dtype


def is_integer(x: Arranged | Value) -> bool:
    """Return True for elements that are integers."""
    return x.dtype in ("int32", "int64", "uint8")


def as_float(x: Value) -> Value:
    """Return integers as float64, and floats as they are."""
    return x if x.dtype.startswith("float") else cast(x, "float64")


def in_floats(function: Callable[..., Value]) -> Callable[..., Value]:
    """Return a function that computes integers in float64 and truncates its result to their dtype."""
    return lambda *xs, **more: cast(function(*map(as_float, xs), **more), xs[0].dtype)


def unary(function: Callable[..., Value]) -> Mapping:
    """Return the mapping of a function of one tensor."""
    return lambda node: pointwise(function, node.tensor(0))


def with_attributes(function: Callable[..., Value], **defaults: Any) -> Mapping:
    """Return the mapping of a function of one tensor with attributes of the same names."""
    return lambda node: pointwise(
        lambda v: function(v, **{name: node.attribute(name, default) for name, default in defaults.items()}),
        node.tensor(0),
    )


def binary(function: Callable[..., Value]) -> Mapping:
    """Return the mapping of a function of two tensors that are broadcast."""
    return lambda node: pointwise(function, *node.pair())


def folded(function: Callable[..., Value]) -> Mapping:
    """Return the mapping of a function of two tensors as one of any number."""

    def mapped(node: Node) -> Arranged:
        made, *rest = node.tensors()
        for x in rest:
            made = pointwise(function, made, x)
        return made

    return mapped


def on_plain(function: Callable[..., Any]) -> Mapping:
    """Return the mapping of a function of a node and its values in the order of the model."""

    def mapped(node: Node) -> Any:
        made = function(node, *(node.optional_value(i) for i in range(len(node.operands))))
        return tuple(_arranged(y) for y in made) if isinstance(made, tuple) else _arranged(made)

    return mapped


def _arranged(y: Any) -> Any:
    return arranged(y) if isinstance(y, Value) else y


def carried_dtype(dtype: str | None) -> str:
    """Return the dtype that the program has for a dtype of the model; raise CompileError if it has none."""
    if dtype is None or dtype not in CARRIED:
        raise CompileError(f"a tensor has elements of {dtype}, which prograd has not")
    return CARRIED[dtype]
