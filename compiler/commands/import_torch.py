"""The verb `compiler import torch`: writes a module of PyTorch, or a file of torch.export, as a program."""

from __future__ import annotations

import argparse
import re
import sys
import zipfile
from importlib import import_module
from pathlib import Path
from typing import Any

from compiler.commands.imports.imported import name_of, write_imported
from compiler.commands.models.lora_words import add_adapters
from compiler.commands.notes import note
from compiler.errors import CompileError, UsageError
from compiler.frontends.torch import from_torch
from compiler.frontends.torch.messages import first_line, without_messages
from prograd_proto.wording import install_hint
from runtime.command_line.streams import put

EXAMPLE_SIZE = 2
"""Size of a symbol in the examples that the module is exported with."""


def import_torch(options: argparse.Namespace) -> int | None:
    """Export the module, and write the program and its initial values; or print what cannot be imported."""
    source, inputs, symbols = _source(options)
    if options.explain:
        table = from_torch(source, inputs, symbols=symbols, layout=options.layout, explain=True)
        put(str(table))
        return 1 if table.rows else None
    program = from_torch(source, inputs, symbols=symbols, layout=options.layout, name=name_of(options.output))
    add_adapters(program, options.lora)
    write_imported(program, options)
    return None


def _source(options: argparse.Namespace) -> tuple[Any, dict[str, Any] | None, dict[str, dict[int, str]]]:
    """Return the module or exported program, examples of its inputs, and their symbols."""
    if options.source.endswith(".pt2"):
        if options.input:
            raise UsageError("import torch: a .pt2 file has its own inputs; leave out --input")
        return _loaded(options), None, {}
    found = re.fullmatch(r"(\w+(?:\.\w+)*):(\w+)", options.source)
    if found is None:
        raise UsageError(
            f"import torch: {options.source!r} is neither module:function nor a .pt2 file; write mypackage.nets:make "
            "for the function make of mypackage/nets.py"
        )
    if not options.input:
        raise UsageError("import torch: --input names the inputs of the module, as in image=float32[batch,3,224,224]")
    inputs, symbols = _examples(options.input)
    note(options, f"note: {options.source} is imported and called, which runs its code")
    return _called(options.source, found[1], found[2]), inputs, symbols


def _called(source: str, name: str, function: str) -> Any:
    """Return the result of a function of a module; raise CompileError for any error of its code."""
    sys.path.insert(0, "")
    try:
        module = import_module(name)
        if not hasattr(module, function):
            raise CompileError(f"{source}: the module {name} has no function {function!r}")
        return getattr(module, function)()
    except CompileError:
        raise
    except SystemExit as error:
        raise CompileError(f"{source}: its code calls sys.exit, and makes no module") from error
    except Exception as error:  # a stranger's function may raise anything
        if isinstance(error, ModuleNotFoundError) and error.name and f"{name}.".startswith(f"{error.name}."):
            raise CompileError(
                f"{source}: there is no module {error.name} in this folder or among the installed packages"
            ) from error
        raise CompileError(f"{source}: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove("")


def _loaded(options: argparse.Namespace) -> Any:
    """Return an exported program; raise CompileError for a file that PyTorch cannot read."""
    torch, path = _torch(), options.source
    _require_archive(path)
    note(options, f"note: PyTorch reads {path}, and such a file may run code")
    try:
        with without_messages():
            return torch.export.load(path)
    except Exception as error:  # PyTorch raises many classes for a damaged file
        reason = first_line(error)
        if isinstance(error, TypeError | LookupError | AttributeError) or "warnings above" in reason:
            reason = "it lacks parts that torch.export.save writes"
        raise CompileError(
            f"{path}: PyTorch {torch.__version__} cannot read this file: {reason}; write it again by torch.export.save"
        ) from error


def _require_archive(path: str) -> None:
    """Raise CompileError for a file that torch.export.save did not write, or that is not whole."""
    file = Path(path)
    if file.is_dir():
        raise CompileError(f"{path}: this is a folder; name a file of torch.export.save")
    if not file.is_file():
        raise CompileError(f"{path}: no such file")
    size = file.stat().st_size
    if not size:
        raise CompileError(f"{path}: the file is empty; write it again by torch.export.save")
    try:
        with zipfile.ZipFile(file) as archive:
            unpacked = sum(part.file_size for part in archive.infolist())
    except (zipfile.BadZipFile, NotImplementedError, ValueError, UnicodeError) as error:
        raise CompileError(f"{path}: the file is cut, or it is no file of torch.export.save; write it again") from error
    if unpacked > size:
        raise CompileError(
            f"{path}: its parts unpack to {unpacked} bytes, more than the file has, and torch.export.save compresses "
            "nothing; write it again"
        )


def _examples(given: list[str]) -> tuple[dict[str, Any], dict[str, dict[int, str]]]:
    """Return zeros for each input, and the symbols of its axes."""
    torch = _torch()
    inputs: dict[str, Any] = {}
    symbols: dict[str, dict[int, str]] = {}
    for text in given:
        found = re.fullmatch(r"([\w.]+)=(float32|float64|int32|int64|bool|uint8)\[([\w,]*)\]", text)
        if found is None:
            raise UsageError(f"--input {text}: write NAME=DTYPE[SHAPE], as in image=float32[batch,3,224,224]")
        name, dtype, extents = found[1], found[2], [extent for extent in found[3].split(",") if extent]
        symbols[name] = {axis: extent for axis, extent in enumerate(extents) if not extent.isdecimal()}
        shape = [int(extent) if extent.isdecimal() else EXAMPLE_SIZE for extent in extents]
        inputs[name] = torch.zeros(shape, dtype=getattr(torch, dtype))
    return inputs, symbols


def _torch() -> Any:
    try:
        return import_module("torch")
    except ModuleNotFoundError:
        raise CompileError(f"import torch needs the package torch: {install_hint('torch')}") from None
