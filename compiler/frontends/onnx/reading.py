"""An ONNX file as a checked message: every fault is one sentence, and no path leads out of its folder."""

from __future__ import annotations

import importlib
import os
from errno import ENOENT
from pathlib import Path
from typing import Any, Final

from compiler.errors import CompileError
from compiler.frontends.account import Account
from compiler.frontends.onnx.inside import graphs_of
from prograd_proto.regular_files import open_regular
from prograd_proto.wording import install_hint

MIN_OPSET: Final = 1
"""The oldest opset that is read."""

MAX_VERSION: Final = 2**31
"""Versions of domains are below it."""

MAX_DEPTH: Final = 16
"""Deepest nesting of branches, bodies of loops and functions."""

MEMORY_RATIO: Final = 2
"""Bytes of memory for each byte of a file: its content, and the message."""

MAX_BYTES: Final = 2**31
"""Largest file of a model without its external data, which protobuf cannot exceed either."""

MAX_NODES: Final = 200_000
"""Largest number of nodes after the inlining of functions."""


def package(what: str = "from_onnx") -> Any:
    """Return the package onnx; raise CompileError, which names `what` needs it, if it is not installed."""
    try:
        return importlib.import_module("onnx")
    except ModuleNotFoundError:
        raise CompileError(f"{what} needs the package onnx: {install_hint('onnx')}") from None


def read(path: str | os.PathLike[str], account: Account | None = None) -> Any:
    """Return the model of a file with its functions inlined; raise CompileError for a file that is not a model.

    Raises ResourceLimit for a file that takes more memory than the account of the import has.
    """
    onnx = package()
    model = onnx.ModelProto()
    content = _content(path, account or Account())
    try:
        model.ParseFromString(content)
    except Exception as error:  # protobuf's class depends on its implementation
        raise CompileError(f"{path}: this is not an ONNX file, or a damaged one") from error
    return checked(model, str(path))


def _content(path: str | os.PathLike[str], account: Account) -> bytes:
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size > MAX_BYTES:
                raise CompileError(f"{path}: the file has {size} bytes, and a model has {MAX_BYTES} at most")
            account.require_room(MEMORY_RATIO * size, "reading the file")
            return file.read(size)
    except OSError as error:
        why = "no such file" if error.errno == ENOENT else f"the file cannot be read: {error.strerror}"
        raise CompileError(f"{path}: {why}") from None


def checked(model: Any, path: str) -> Any:
    """Return a model with its functions inlined; raise CompileError if it is not well formed."""
    onnx = package()
    if not model.HasField("graph") or not (model.graph.node or model.graph.output):
        raise CompileError(f"{path}: this is not an ONNX file: it has no graph")
    _require_text(model, path)
    _require_versions(onnx, model, path)
    _require_depth(model.graph, path, 0)
    for function in model.functions:
        _require_depth(function, path, 0)
    if model.functions:
        _require_no_cycles(model, path)
        try:
            inliner = importlib.import_module("onnx.inliner")
            model = inliner.inline_local_functions(model)
        except Exception as error:  # the inliner raises RuntimeError and others
            raise CompileError(f"{path}: its functions cannot be inlined: {first_line(error)}") from error
    if len(model.graph.node) > MAX_NODES:
        raise CompileError(f"{path}: the graph has {len(model.graph.node)} nodes, and {MAX_NODES} are read at most")
    return model


def _require_text(model: Any, path: str) -> None:
    """Refuse names that are no text: protobuf gives those of damaged files as bytes."""
    todo = [model.graph, *model.functions]
    while todo:
        graph = todo.pop()
        names: list[Any] = [
            each if isinstance(each, str | bytes) else each.name for each in (*graph.input, *graph.output)
        ]
        for tensor in getattr(graph, "initializer", ()):
            names += [tensor.name, *(part for entry in tensor.external_data for part in (entry.key, entry.value))]
        for value in graph.input:
            if not isinstance(value, str | bytes):
                names += [dim.dim_param for dim in value.type.tensor_type.shape.dim]
        for node in graph.node:
            names += [node.name, node.op_type, node.domain, *node.input, *node.output]
            names += [text for attribute in node.attribute for text in (attribute.name, attribute.ref_attr_name)]
            names += [entry.key for entry in node.metadata_props] + [entry.value for entry in node.metadata_props]
            todo += graphs_of(node)
        if any(isinstance(name, bytes) for name in names):
            raise CompileError(f"{path}: this is not an ONNX file, or a damaged one: a name in it is no text")


def _require_versions(onnx: Any, model: Any, path: str) -> None:
    versions = {imported.domain or "ai.onnx": imported.version for imported in model.opset_import}
    version = versions.get("ai.onnx", 0)
    newest = onnx.defs.onnx_opset_version()
    if version == 0 and not versions:
        raise CompileError(f"{path}: the file does not name the opset that its operators are of")
    if version and not MIN_OPSET <= version <= newest:
        raise CompileError(
            f"{path}: the file has opset {version}, and opsets {MIN_OPSET} to {newest} are read; convert it with "
            "onnx.version_converter, or install a newer onnx"
        )
    for domain, number in versions.items():
        if not 0 <= number < MAX_VERSION:
            raise CompileError(f"{path}: the file has version {number} of the domain {domain!r}, which no domain has")


def _require_depth(graph: Any, path: str, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise CompileError(f"{path}: branches and loops are nested deeper than {MAX_DEPTH}")
    for node in graph.node:
        for inner in graphs_of(node):
            _require_depth(inner, path, depth + 1)


def _require_no_cycles(model: Any, path: str) -> None:
    """Refuse functions that call themselves, and calls that unfold to more nodes than are read."""
    functions = {(function.domain, function.name): function for function in model.functions}
    sizes: dict[tuple[str, str], int] = {}

    def size(graph: Any, open_calls: tuple[tuple[str, str], ...]) -> int:
        return sum(called(node, open_calls) for node in graph.node) + sum(
            size(inner, open_calls) for node in graph.node for inner in graphs_of(node)
        )

    def called(node: Any, open_calls: tuple[tuple[str, str], ...]) -> int:
        key = (node.domain, node.op_type)
        if key in open_calls:
            raise CompileError(f"{path}: the function {node.op_type} calls itself")
        if key in functions and key not in sizes:
            if len(open_calls) > MAX_DEPTH:
                raise CompileError(f"{path}: functions are nested deeper than {MAX_DEPTH}")
            sizes[key] = size(functions[key], (*open_calls, key))
        return sizes.get(key, 1)

    total = size(model.graph, ())
    if total > MAX_NODES:
        raise CompileError(f"{path}: the functions unfold to {total} nodes, and {MAX_NODES} are read at most")


class Tensors:
    """Reader of the tensors of a model, also of those in files beside it.

    Attributes:
        folder: the folder that external data must be in; None for a model without a file.
        path: the path of the model, for messages.
        account: what the import may take.
    """

    def __init__(self, path: str, folder: Path | None, account: Account | None = None) -> None:
        self.path, self.folder = path, folder
        self.account = account or Account()

    def array(self, tensor: Any) -> Any:
        """Return a tensor as an array; raise CompileError for elements that are missing or of no number type."""
        onnx = package()
        name = tensor.name or "a constant"
        if any(extent < 0 for extent in tensor.dims):
            raise CompileError(f"{self.path}: the tensor {name!r} has the shape {list(tensor.dims)}")
        tensor = self.inside(tensor)
        try:
            return onnx.numpy_helper.to_array(tensor)
        except Exception as error:  # ValueError, TypeError and KeyError for lying shapes and types
            raise CompileError(
                f"{self.path}: the tensor {name!r} of shape {list(tensor.dims)} does not match its data"
            ) from error

    def inside(self, tensor: Any) -> Any:
        """Return a tensor with its data in the message, also if the file has them beside it."""
        onnx = package()
        return self._with_data(onnx, tensor) if tensor.data_location == onnx.TensorProto.EXTERNAL else tensor

    def _with_data(self, onnx: Any, tensor: Any) -> Any:
        """Return a tensor with the bytes of its file, which is within the folder of the model."""
        if self.folder is None:
            raise CompileError(f"the tensor {tensor.name!r} is in a file, and the model has none; pass its path")
        entries = {entry.key: entry.value for entry in tensor.external_data}
        location = entries.get("location", "")
        target = self._within(location, tensor.name)
        size = target.stat().st_size
        offset, length = self._number(entries, "offset", 0), self._number(entries, "length", -1)
        if length == -1:
            length = size - offset
        if offset + length > size or length < 0:
            raise CompileError(
                f"{self.path}: the tensor {tensor.name!r} has bytes {offset} to {offset + length} of {location}, which "
                f"has {size} bytes"
            )
        with open_regular(target) as file:
            file.seek(offset)
            data = file.read(length)
        whole = onnx.TensorProto()
        whole.CopyFrom(tensor)
        whole.ClearField("external_data")
        whole.data_location = onnx.TensorProto.DEFAULT
        whole.raw_data = data
        return whole

    def _within(self, location: str, name: str) -> Path:
        """Return the file of external data; links may lead to where the model's own link leads, and nowhere else."""
        assert self.folder is not None
        outside = CompileError(
            f"{self.path}: the tensor {name!r} is in {location!r}, which is not a file within the folder of the model"
        )
        if not location or "\0" in location or os.path.isabs(location) or ".." in Path(location).parts:
            raise outside
        allowed = {Path(os.path.realpath(self.folder)), Path(os.path.realpath(self.path)).parent}
        target = Path(os.path.realpath(self.folder / location))  # Path.resolve ends in RuntimeError for a loop of links
        if not any(target.is_relative_to(folder) for folder in allowed):
            raise outside
        if not target.is_file():
            raise CompileError(f"{self.path}: the tensor {name!r} is in {location!r}, and there is no such file")
        return target

    def _number(self, entries: dict[str, str], key: str, default: int) -> int:
        text = entries.get(key, str(default))
        try:
            number = int(text)
        except ValueError:
            number = -2
        if number < (0 if key in entries else -1):
            raise CompileError(f"{self.path}: external data has {key}={text!r}, which is no number of bytes")
        return number


def first_line(error: Exception) -> str:
    """Return the first line of a message of a library."""
    return next(iter(str(error).splitlines()), "") or type(error).__name__
