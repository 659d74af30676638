"""Rules for names, paths and sizes in a program."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import PurePosixPath, PureWindowsPath

from prograd_proto import ProgramError, TensorType, type_of
from prograd_proto import program_pb2 as pb
from prograd_proto.limits import MAX_NAME
from prograd_proto.tensor_types import size_fault
from runtime.contract import require


def check_name(name: str, what: str) -> None:
    """Raise ProgramError unless the name is printable, not empty and not huge."""
    require(bool(name), f"one {what} has no name")
    if len(name) > MAX_NAME or not name.isprintable():
        raise ProgramError(f"the {what} name {name[:40]!r} is too long or not printable")


def check_unique(names: Iterable[str], what: str) -> None:
    """Raise ProgramError unless each name is good and used once."""
    seen: set[str] = set()
    for name in names:
        check_name(name, what)
        if name in seen:
            raise ProgramError(f"the {what} {name!r} is there twice")
        seen.add(name)


def check_path(path: str) -> None:
    """Raise ProgramError unless the path stays in the folder of the program on every system."""
    parts = PurePosixPath(path).parts
    windows = PureWindowsPath(path)
    inside = bool(parts) and ".." not in parts and not path.startswith("/") and not windows.drive and "\\" not in path
    if not inside or not path.isprintable():
        raise ProgramError(f"the path {path!r} leaves the program's folder")


def static_type(desc: pb.TensorDesc | pb.StateDesc) -> TensorType:
    """Return the type of a tensor or state; raise ProgramError unless it is static and of an accepted size."""
    type = type_of(desc)
    fault = _fault_of_type(type)
    if fault:
        raise ProgramError(f"{desc.name!r}{fault}")
    return type


def check_size(name: str, type: TensorType) -> None:
    """Raise ProgramError unless the size of the static type is accepted."""
    fault = _fault_of_size(type)
    if fault:
        raise ProgramError(f"{name!r}{fault}")


@lru_cache(maxsize=1 << 16)  # a program has few different types and many tensors
def _fault_of_type(type: TensorType) -> str:
    """Return the fault of a type, worded to follow its name; empty if the type is static and of an accepted size."""
    for extent in type.shape:
        if isinstance(extent, str):
            return f": {type} has the unbound symbol {extent!r}; compile with a size"
    return _fault_of_size(type)


@lru_cache(maxsize=1 << 16)
def _fault_of_size(type: TensorType) -> str:
    fault = size_fault(type)
    return fault and f": {type} {fault}"
