"""Checks of a new tensor: its name, dtype, shape, initial value, and the reduction of a fetch."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Literal

from compiler.build.whole_numbers import is_whole
from compiler.train.initialisers import FromFile
from prograd_proto import TensorType
from prograd_proto import program_pb2 as pb
from prograd_proto.dtypes import ITEM_BYTES
from prograd_proto.limits import MAX_NAME
from registry import OpError

RESERVED = "__metadata__"
"""A name that no tensor may have: safetensors files use it for metadata."""

Over = Literal["last", "mean", "sum"]
_OVER: dict[str, pb.Over] = {"last": pb.OVER_LAST, "mean": pb.OVER_MEAN, "sum": pb.OVER_SUM}


def declared_type(what: str, name: str, dtype: str, shape: Sequence[int | str], taken: Container[str]) -> TensorType:
    """Return the type of a new tensor; raise OpError for an invalid or used name, dtype or shape."""
    require_name(what, name)
    if name == RESERVED:
        raise OpError(f"{what}: the name {RESERVED!r} belongs to the files that states are saved to; take another one")
    if name in taken:
        raise OpError(f"{what}: the name is taken by another tensor of this program; choose another, or a scope")
    require_dtype(what, dtype)
    if isinstance(shape, str) or not isinstance(shape, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]: users may not check types
        raise OpError(f"{what}: the shape {shape!r} is not a tuple of sizes and symbols, as in ('batch', 4)")
    for extent in shape:
        if not (extent.isidentifier() if isinstance(extent, str) else _is_size(extent)):
            raise OpError(f"{what}: the extent {extent!r} is neither a size nor the name of a symbol")
    return TensorType(dtype, tuple(d if isinstance(d, str) else d.__index__() for d in shape))


def declared_state(
    what: str, name: str, dtype: str, shape: Sequence[int | str], initial: object, taken: Container[str]
) -> TensorType:
    """Return the type of a new state; raise OpError also for a symbol or an invalid initialiser."""
    if not (initial is None or callable(initial) or isinstance(initial, FromFile)):
        raise OpError(f"{what}: initial={initial!r} is not an initialiser; for a number use compiler.constant")
    type = declared_type(what, name, dtype, shape, taken)
    for extent in type.shape:
        if isinstance(extent, str):
            raise OpError(f"{what}: the extent {extent!r} is a symbol; a state lives on, so its extents are numbers")
    return type


def require_no_unnamed(method: str, unnamed: Sequence[object], example: str) -> None:
    """Raise OpError for values without a name; `example` is a name that the sentence shows."""
    if unnamed:
        what = type(unnamed[0]).__name__
        raise OpError(f"{method}: a {what} is given without a name; write {method}({example}={example})")


def require_name(what: str, name: str) -> None:
    """Raise OpError for an invalid name or prefix of a name."""
    if not isinstance(name, str) or not name or not name.isprintable() or ":" in name:  # pyright: ignore[reportUnnecessaryIsInstance]: users may not check types
        raise OpError(f"{what}: a name is not empty, and all printable without a colon")
    if len(name) > MAX_NAME:
        raise OpError(f"{what[:40]}…: the name has {len(name)} characters; a name has at most {MAX_NAME}")


def require_dtype(what: str, dtype: str) -> None:
    """Raise OpError unless the dtype exists."""
    if isinstance(dtype, tuple | list):
        shape = tuple(dtype)
        raise OpError(f"{what}: {shape} stands where the dtype is; the order is name, dtype, shape: 'float32', {shape}")
    if dtype not in ITEM_BYTES:
        raise OpError(f"{what}: there is no dtype {dtype!r}; use one of {', '.join(ITEM_BYTES)}")


def over_number(what: str, over: str) -> pb.Over:
    """Return the stored form of a fetch's reduction over steps; raise OpError for an unknown word."""
    if over not in _OVER:
        raise OpError(f"{what}: over={over!r} is not one of {', '.join(_OVER)}")
    return _OVER[over]


def _is_size(extent: object) -> bool:
    return is_whole(extent) and int(extent) >= 0  # pyright: ignore[reportArgumentType]: just checked
