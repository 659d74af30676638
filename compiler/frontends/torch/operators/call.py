"""The call of an ATen operator that is being imported, and the facts that its mapping needs besides the operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from compiler.frontends.arranged import Arranged, arranged, like, plain, pointwise, single
from compiler.frontends.elements import cast_to
from compiler.frontends.extents import Extent
from compiler.frontends.pieces import number_of
from compiler.frontends.torch.constants import Constant
from prograd_proto.dtypes import FLOATS, DTypeName
from registry import Block, Value


@dataclass(frozen=True)
class Result:
    """The type of a result, as torch.export states it."""

    dtype: str
    shape: tuple[Extent, ...]


@dataclass(frozen=True)
class Call:
    """A call of an ATen operator.

    Attributes:
        block: the block that ops are appended to.
        results: the types of its results.
        in_evaluation: the graph is that of evaluation, so what it draws is drawn in predictions.
        store: puts an array into the program.
    """

    block: Block
    results: tuple[Result, ...]
    in_evaluation: bool
    store: Callable[[Any], Value]

    @property
    def dtype(self) -> DTypeName:
        """The dtype of the first result."""
        return self.results[0].dtype  # type: ignore

    @property
    def shape(self) -> tuple[Extent, ...]:
        """The shape of the first result."""
        return self.results[0].shape

    def tensor(self, x: Arranged | Constant) -> Arranged:
        """Return an operand as a tensor of the program."""
        return x.tensor(self.block) if isinstance(x, Constant) else x


Mapping = Callable[..., Any]
"""A function of a call and the operands of an ATen operator, which appends ops and returns the results."""

Operand = Arranged | float


def unary(function: Callable[..., Value], **attributes: Any) -> Mapping:
    """Return the mapping of a function of one tensor; operands behind it are the defaults of ATen."""
    return lambda call, x, *rest, **more: pointwise(
        lambda v: function(v, **attributes), cast_to(x, call.dtype if call.dtype in FLOATS else x.dtype)
    )


def attributes_of(function: Callable[..., Value], *names: str) -> Mapping:
    """Return the mapping of a function of one tensor whose further operands are attributes of these names."""

    def mapped(call: Call, x: Arranged, *rest: Any, **more: Any) -> Arranged:
        given = {**dict(zip(names, rest, strict=False)), **{n: v for n, v in more.items() if n in names}}
        return pointwise(lambda v: function(v, **given), x)

    return mapped


def binary(function: Callable[..., Value]) -> Mapping:
    """Return the mapping of a function of two operands that are promoted to the dtype of the result."""
    return lambda call, a, b, **more: pointwise(function, *promoted((a, b), call.dtype))


def comparison(function: Callable[..., Value]) -> Mapping:
    """Return the mapping of a comparison, whose operands are promoted to a common dtype."""
    return lambda call, a, b: pointwise(function, *promoted((a, b), common_dtype(a, b)))


def logical(function: Callable[..., Value]) -> Mapping:
    """Return the mapping of a function of truth values."""
    return lambda call, *xs: pointwise(function, *promoted(xs, "bool"))


def promoted(operands: Sequence[Operand], dtype: str) -> list[Operand]:
    """Return the operands in a dtype. Numbers stay as they are, and extents of symbols become tensors."""
    blocks = [x.value.block for x in operands if isinstance(x, Arranged)]
    known = [arranged(number_of(blocks[0], x, dtype)) if isinstance(x, Extent) and blocks else x for x in operands]
    may_be_float = dtype in FLOATS or dtype == "bool"
    return [cast_to(x, dtype) if isinstance(x, Arranged) else x if may_be_float else int(x) for x in known]


def common_dtype(*operands: Operand) -> str:
    """Return the dtype that PyTorch compares tensors and numbers in."""
    tensors = [x.dtype for x in operands if isinstance(x, Arranged)]
    ranked = max(tensors, key=_RANKS.index)
    fractions = any(isinstance(x, float) and isfinite(x) and not x.is_integer() for x in operands)
    return "float32" if fractions and ranked not in FLOATS else ranked


_RANKS = ("bool", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64")


def along_axis(function: Callable[..., Value]) -> Mapping:
    """Return the mapping of a function of one tensor along an axis, which keeps its shape."""

    def mapped(call: Call, x: Arranged, dim: int, *rest: Any, **more: Any) -> Arranged:
        x, [place] = single(cast_to(x, call.dtype), [axis_of(dim, x.rank)])
        return like(x, function(x.value, axis=place))

    return mapped


def on_plain(function: Callable[..., Value | Sequence[Value]]) -> Mapping:
    """Return the mapping of a function of tensors in the order and with the extents of the model."""

    def mapped(call: Call, *operands: Any, **more: Any) -> Any:
        made = function(call, *(plain(x) if isinstance(x, Arranged) else x for x in operands), **more)
        return arranged(made) if isinstance(made, Value) else tuple(map(arranged, made))

    return mapped


def axis_of(axis: int, rank: int) -> int:
    """Return an axis counted from the front."""
    return axis % rank if rank else 0
