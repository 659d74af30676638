"""What may be a name, a path or a size in a program."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from pathlib import PurePosixPath, PureWindowsPath
from typing import Final

from prograd_proto import ProgramError, TensorType, type_of
from prograd_proto import program_pb2 as pb
from runtime.contract import require

MAX_NAME: Final = 1000
MAX_RANK: Final = 32
MAX_TENSOR_BYTES: Final = 1 << 40
MAX_EMPTY_PLACES: Final = 1 << 28
"""Of a tensor without elements, the product of its extents that are not 0: loops still go through them."""


def check_name(name: str, what: str) -> None:
    """Raise ProgramError unless the name is printable, not empty and not huge."""
    require(bool(name), f"one {what} has no name")
    require(len(name) <= MAX_NAME and name.isprintable(), f"the {what} name {name[:40]!r} is too long or not printable")


def check_unique(names: Iterable[str], what: str) -> None:
    """Raise ProgramError unless each name is good and used once."""
    seen: set[str] = set()
    for name in names:
        check_name(name, what)
        require(name not in seen, f"the {what} {name!r} is there twice")
        seen.add(name)


def check_path(path: str) -> None:
    """Raise ProgramError unless the path stays in the folder of the program on every system."""
    parts = PurePosixPath(path).parts
    windows = PureWindowsPath(path)
    inside = bool(parts) and ".." not in parts and not path.startswith("/") and not windows.drive and "\\" not in path
    if not inside or not path.isprintable():
        raise ProgramError(f"the path {path!r} leaves the program's folder")


def static_type(desc: pb.TensorDesc | pb.StateDesc) -> TensorType:
    """The type of a tensor or state; raises ProgramError unless it is static and of a sane size."""
    type = type_of(desc)
    require(type.rank <= MAX_RANK, f"{desc.name!r} has {type.rank} axes; at most {MAX_RANK} are supported")
    for extent in type.shape:
        require(
            not isinstance(extent, str), f"{desc.name!r}: {type} has the unbound symbol {extent!r}; compile with a size"
        )
        require(isinstance(extent, int) and extent >= 0, f"{desc.name!r}: {type} has a negative extent")
    check_size(desc.name, type)
    return type


def check_size(name: str, type: TensorType) -> None:
    """Raise ProgramError unless the static type is of a size that can be."""
    require(type.nbytes <= MAX_TENSOR_BYTES, f"{name!r}: {type} is larger than a tebibyte")
    places = prod(extent for extent in type.static_shape if extent)
    sane = type.nbytes > 0 or places <= MAX_EMPTY_PLACES
    require(sane, f"{name!r}: {type} has no elements and too many places for them")
