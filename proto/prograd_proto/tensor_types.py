"""Tensor types in Python: a dtype name and a shape of sizes and symbols."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from math import prod
from typing import NamedTuple

import prograd_proto.program_pb2 as pb
from prograd_proto.dtypes import HALVES, ITEM_BYTES, NAMES, NUMBERS, wide
from prograd_proto.errors import ProgramError
from prograd_proto.limits import MAX_EMPTY_PLACES, MAX_RANK, MAX_TENSOR_BYTES

Shape = tuple[int | str, ...]
"""Extents: numbers of elements, or names of unbound symbols."""


class TensorType(NamedTuple):
    """The type of a tensor: dtype and shape, as in `float32[batch, 10]`."""

    dtype: str
    shape: Shape

    def __str__(self) -> str:
        return _text(self)

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def static_shape(self) -> tuple[int, ...]:
        """The shape as numbers; raises ProgramError while a symbol is unbound."""
        return _static(self.shape)

    @property
    def has_one_element(self) -> bool:
        """True for a scalar, and where all extents are 1; raises ProgramError while a symbol is unbound."""
        return all(extent == 1 for extent in self.static_shape)

    @property
    def wide(self) -> TensorType:
        """The type in which its elements are computed and its gradient is kept: float32 for 16-bit floats."""
        return TensorType(wide(self.dtype), self.shape) if self.dtype in HALVES else self

    def bound(self, sizes: Mapping[str, int]) -> TensorType:
        """Return the type with these sizes in the place of symbols; others stay."""
        return TensorType(self.dtype, tuple(sizes.get(d, d) if isinstance(d, str) else d for d in self.shape))

    @property
    def nbytes(self) -> int:
        """Bytes of all elements; raises ProgramError while a symbol is unbound."""
        return _nbytes(self)


def size_fault(type: TensorType) -> str:
    """Return the fault of the sizes of a type, as the end of a sentence; empty if they are accepted.

    Symbols count as 1.
    """
    extents = [extent for extent in type.shape if isinstance(extent, int)]
    if min(extents, default=0) < 0:
        return "has a negative extent"
    if ITEM_BYTES[type.dtype] * prod(extents) > MAX_TENSOR_BYTES:
        return "is larger than a tebibyte"
    if 0 in extents and prod(extent for extent in extents if extent) > MAX_EMPTY_PLACES:
        return "has no elements and too many places for them"
    return ""


@lru_cache(maxsize=1 << 16)  # a program has few different types and very many tensors
def _static(shape: Shape) -> tuple[int, ...]:
    return tuple(known(extent) for extent in shape)


@lru_cache(maxsize=1 << 16)
def _text(type: TensorType) -> str:
    return f"{type.dtype}[{', '.join(map(str, type.shape))}]"


@lru_cache(maxsize=1 << 16)
def _nbytes(type: TensorType) -> int:
    return ITEM_BYTES[type.dtype] * prod(type.static_shape)


def known(extent: int | str) -> int:
    """Return the extent as a number; raise ProgramError for a symbol."""
    if isinstance(extent, str):
        raise ProgramError(f"the size of {extent!r} is not known yet; bind it first")
    return extent


def shape_of(message: pb.Shape) -> Shape:
    """Return the Python shape of a `Shape` message; raise ProgramError for an invalid extent, or too many axes."""
    _require_rank(len(message.dims))
    return tuple(map(_extent, message.dims))


def _require_rank(rank: int) -> None:
    if rank > MAX_RANK:
        raise ProgramError(f"there are {rank} axes; at most {MAX_RANK} are supported")


def _extent(dim: pb.Dim) -> int | str:
    extent = dim.symbol or dim.size
    if not extent and dim.WhichOneof("extent") != "size":
        raise ProgramError("an extent is neither a size nor a symbol")
    return extent


def shape_message(shape: Iterable[int | str]) -> pb.Shape:
    """Return the `Shape` message of a Python shape; raise ProgramError for too many axes."""
    message = pb.Shape()
    message.CopyFrom(_shape_message(tuple(shape)))
    return message


@lru_cache(maxsize=1 << 16)
def _shape_message(shape: Shape) -> pb.Shape:
    _require_rank(len(shape))
    return pb.Shape(dims=[pb.Dim(symbol=d) if isinstance(d, str) else pb.Dim(size=d) for d in shape])


def type_of(desc: pb.TensorDesc | pb.StateDesc) -> TensorType:
    """Return the type in a tensor's or state's description.

    Raises ProgramError for an unknown dtype, no shape, or an extent that is neither size nor symbol.
    """
    if not desc.HasField("shape"):
        raise ProgramError(f"{desc.name!r} has no shape; that of a scalar is there, and empty")
    try:
        type = _parsed_type(desc.dtype, desc.shape.SerializeToString())
    except ProgramError as error:
        raise ProgramError(f"{desc.name!r}: {error}") from None
    if type is None:
        raise ProgramError(f"{desc.name!r} has no known dtype (number {desc.dtype})")
    return type


@lru_cache(maxsize=1 << 16)  # a program has few different types and very many tensors
def _parsed_type(dtype: int, shape: bytes) -> TensorType | None:
    return TensorType(NAMES[dtype], shape_of(pb.Shape.FromString(shape))) if dtype in NAMES else None


def tensor_desc(name: str, type: TensorType) -> pb.TensorDesc:
    """Return the description of a tensor of that name and type."""
    desc = pb.TensorDesc()
    desc.CopyFrom(_nameless(type))
    desc.name = name
    return desc


@lru_cache(maxsize=1 << 16)
def _nameless(type: TensorType) -> pb.TensorDesc:
    return pb.TensorDesc(dtype=NUMBERS[type.dtype], shape=shape_message(type.shape))
