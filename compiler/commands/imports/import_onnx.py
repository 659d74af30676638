"""The verb `compiler import onnx`: writes an ONNX file as a program that predicts, and trains if it is asked to."""

from __future__ import annotations

import argparse
import fnmatch
import importlib
import re
from typing import Any

from compiler.aligned_text import columns
from compiler.build.program import Program
from compiler.commands.chosen_entry import sizes_given
from compiler.commands.imports.imported import name_of, write_imported
from compiler.commands.imports.logits_behind import logits_behind
from compiler.commands.imports.process_limits import limited
from compiler.commands.models.lora_words import add_adapters
from compiler.commands.notes import note
from compiler.errors import UsageError
from compiler.frontends.onnx.from_onnx import from_onnx
from compiler.train import optimizers
from prograd_proto import program_pb2 as pb
from registry import Value, ops
from runtime.command_line.streams import put

MAX_NAMES = 8
"""Largest number of names that an error lists."""

LOSSES = {
    "softmax_cross_entropy": (ops.softmax_cross_entropy, "int64"),
    "binary_cross_entropy_with_logits": (ops.binary_cross_entropy_with_logits, "float32"),
    "squared_error": (ops.squared_error, "float32"),
    "absolute_error": (ops.absolute_error, "float32"),
}
"""Losses that compare the first result with an input `target`, and the dtype of that input."""

NORMALISED_BY = {"softmax_cross_entropy": "softmax", "binary_cross_entropy_with_logits": "sigmoid"}
"""The op that each loss of logits contains."""


def import_onnx(options: argparse.Namespace) -> int | None:
    """Import the file, and write the program and its initial values; or print what cannot be imported."""
    if options.max_memory is not None:
        importlib.import_module("onnx.reference")  # the limit is of the import, not of its library
    with limited(options.max_memory, options.max_time):
        return _import(options)


def _import(options: argparse.Namespace) -> int | None:
    asked: dict[str, Any] = dict(
        inputs=_shapes(options.input),
        dims=sizes_given(options.dim, "--dim", "NAME=SIZE"),
        constants=_values(options.constant),
        max_rows=sizes_given(options.max_rows, "--max-rows", "NAME=COUNT"),
        outputs=options.outputs or None,
        max_memory=options.max_memory,
        max_time=options.max_time,
    )
    if options.explain:
        table = from_onnx(options.source, explain=True, **asked)
        put(str(table))
        return 1 if table.rows else None
    asked |= {name: getattr(options, name) for name in ("tie", "untie", "fake_quantize", "integers")}
    program = from_onnx(options.source, name=name_of(options.output), explain=False, **asked)
    add_adapters(program, options.lora)
    _append_training(program, options)
    if options.names:
        put(_names(program))
    for text in program.notes_of_import:
        note(options, f"note: {text}")
    write_imported(program, options, **_batch(program, options))
    return None


def _names(program: Program) -> str:
    """Return a row for each weight of the file: its name, its shape, whether it is trained, and why."""
    parameters = {name for name, state in program.states.items() if state.kind == pb.STATE_KIND_PARAMETER}
    rows: list[tuple[str, ...]] = []
    for own, state in program.states.items():
        for tensor in program.tensors_of_file:
            if tensor.name in state.imported.names:
                shape = "x".join(map(str, tensor.shape)) or "scalar"
                frozen = own in parameters and not state.trainable
                reason = "the training leaves it out" if frozen else tensor.reason
                rows.append((tensor.name, own, shape, "yes" if own in parameters and not frozen else "no", reason))
    return "\n".join(columns(("in the file", "in the program", "shape", "trained", "why"), rows))


def _append_training(program: Program, options: argparse.Namespace) -> None:
    """Append a loss of the first result and the updates of the chosen parameters."""
    if options.loss is None:
        return
    if options.lora and options.train:
        program.thaw(*options.train)
    elif not options.lora:
        _freeze_others(program, options.train)
    program.minimize(_loss(program, options.loss, options), optimizer_of(options.optimizer))


def _freeze_others(program: Program, patterns: list[str]) -> None:
    parameters = [name for name, state in program.states.items() if state.kind == pb.STATE_KIND_PARAMETER]
    if not patterns:
        return
    for pattern in patterns:
        if not fnmatch.filter(parameters, pattern):
            raise UsageError(f"--train {pattern}: no parameter has such a name; {_known(parameters)}")
    chosen = {name for pattern in patterns for name in fnmatch.filter(parameters, pattern)}
    others = [name for name in parameters if name not in chosen]
    if others:
        program.freeze(*others)


def _known(parameters: list[str]) -> str:
    """Return a few names of parameters, and how to see them all."""
    shown = ", ".join(parameters[:MAX_NAMES])
    return f"they are {shown}" if len(parameters) <= MAX_NAMES else f"they are {shown} ...; --names lists all"


def _loss(program: Program, name: str, options: argparse.Namespace) -> Value:
    if name not in LOSSES:
        raise UsageError(f"--loss {name}: it is one of {', '.join(LOSSES)}")
    result = program[program.outputs_of_module[0]]
    function: Any
    function, dtype = LOSSES[name]
    if name in NORMALISED_BY:
        logits = logits_behind(program, result, NORMALISED_BY[name])
        if logits is not None:
            note(options, f"note: {NORMALISED_BY[name]} makes {result.name!r}, so the loss is of the logits before it")
            result = logits
    shape = result.shape[:-1] if dtype == "int64" else result.shape
    return function(result, program.input("target", dtype, shape))  # pyright: ignore[reportArgumentType]: a dtype


def optimizer_of(text: str, setting: Value | None = None) -> optimizers.Optimizer:
    """Return the optimizer of `NAME:RATE`, with a setting in place of the rate if one is given."""
    name, _, rate = text.partition(":")
    known = ("adam", "adamw", "sgd", "momentum", "rmsprop", "adagrad", "lion", "lamb")
    function: Any = getattr(optimizers, name, None) if name in known else None
    try:
        if function is None or not float(rate) > 0:
            return _refuse(text)
        return function(float(rate) if setting is None else setting)
    except ValueError:
        return _refuse(text)


def _refuse(text: str) -> optimizers.Optimizer:
    raise UsageError(f"--optimizer {text}: write NAME:RATE, as in adam:1e-3")


def _batch(program: Program, options: argparse.Namespace) -> dict[str, int]:
    """Return the size of the symbol of the first axis of the first input."""
    if options.batch is None:
        return {}
    first = program.symbols[0] if program.symbols else None
    if first is None:
        raise UsageError(f"--batch {options.batch}: the model has fixed sizes; give the shape by --input")
    return {first: options.batch}


def _shapes(given: list[str]) -> dict[str, tuple[int | str, ...]]:
    made: dict[str, tuple[int | str, ...]] = {}
    for text in given:
        found = re.fullmatch(r"(.+)=\[([\w,]*)\]", text)
        if found is None:
            raise UsageError(f"--input {text}: write NAME=[SHAPE], as in image=[batch,3,224,224]")
        extents = [extent for extent in found[2].split(",") if extent]
        made[found[1]] = tuple(int(extent) if extent.isdecimal() else extent for extent in extents)
    return made


def _values(given: list[str]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for text in given:
        name, _, numbers = text.partition("=")
        try:
            values = [float(number) for number in numbers.split(",")]
        except ValueError:
            raise UsageError(f"--constant {text}: write NAME=VALUES, as in shape=1,64") from None
        made[name] = values if "," in numbers else values[0]
    return made
