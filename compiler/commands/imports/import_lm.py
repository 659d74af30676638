"""The verb `compiler import lm`: writes a language model of a folder as a program that trains, answers and is saved."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any, Final

from compiler.build.program import Program
from compiler.commands.imports.import_onnx import optimizer_of
from compiler.commands.models.lora_words import add_adapters
from compiler.commands.notes import note_weights
from compiler.errors import CompileError, UsageError
from compiler.frontends.language_models.from_encoder import head_of
from compiler.frontends.language_models.from_lm import from_lm
from compiler.frontends.language_models.peft import add_peft
from compiler.frontends.language_models.weights import meant
from prograd_proto import program_pb2 as pb
from registry import OpError
from runtime.command_line.results import put_result
from runtime.errors import ExecutionError
from runtime.files.tensor_files import keys_of, read_arrays, read_metadata, shapes_of, unverified
from runtime.language.model import ENCODER_KEY, KEY, ROWS_KEY


def import_lm(options: argparse.Namespace) -> None:
    """Import the model, append its training, and write the program."""
    rows = None if options.data is None else _Rows(Path(options.data))
    if rows is not None and options.length not in (None, rows.length):
        raise UsageError(f"--length {options.length}: the rows of {options.data} have {rows.length} codes")
    program = from_lm(
        options.source,
        length=rows.length if rows is not None else options.length,
        together=rows is not None and rows.together,
        trained=options.train,
        classes=_classes(options, rows),
        vocabulary=options.vocabulary,
        positions=options.positions,
        texts=options.texts,
        output=options.output,
        seed=options.seed,
    )
    options.train = [*options.train, *head_of(program)]  # the head of an encoder is always trained
    trains = _trains(options)
    if rows is not None:
        rows.require_for(program)
        _declare(program, rows, options, trains=trains)
    _adapt(program, options)
    coded = [] if options.weights is None else _quantized(program, options)
    if trains:
        name, _, rate = (options.optimizer or "adamw:2e-4").partition(":")
        own = optimizer_of(f"{name}:{rate}", program.setting("rate", _rate(options.optimizer, rate), least=0.0))
        program.minimize(program["loss"], own, accumulate=options.accumulate)
    compiled = program.compile(mixed=options.mixed, folder=Path(options.output).parent, batch=options.batch)
    compiled.save(options.output, force=options.force)
    note_weights(options, compiled.arrays)
    parameters = [state for state in compiled.desc.states if state.kind == pb.STATE_KIND_PARAMETER]
    trained = sum(state.trainable for state in parameters)
    fields = [("weights", len(parameters) + len(coded)), ("trained", trained), ("program_sha256", compiled.sha256)]
    put_result(options, "OK", fields)


def _classes(options: argparse.Namespace, rows: _Rows | None) -> int | list[str] | None:
    """Return the classes of --classes, as names or as their number; without the option, the classes of the rows."""
    asked: int | list[str] | None = options.classes
    if asked is None:
        return None if rows is None else rows.classes
    if rows is None or rows.classes is None:
        return asked
    names = rows.classes
    if len(names) != (asked if isinstance(asked, int) else len(asked)) or asked not in (len(names), names):
        given = asked if isinstance(asked, int) else ",".join(asked)
        raise UsageError(f"--classes {given}: the rows of {options.data} have the classes {','.join(names)}")
    return names


def _trains(options: argparse.Namespace) -> bool:
    """Return True if something is trained; raise UsageError for an optimizer of nothing."""
    trains = bool(options.lora or options.peft or options.train)
    if options.optimizer is not None and not trains:
        raise UsageError("--optimizer needs what it trains: --lora PATTERN:r=8 for adapters, or --train PATTERN")
    return trains


def _adapt(program: Program, options: argparse.Namespace) -> None:
    """Add the adapters of the options."""
    adapted = add_adapters(program, options.lora)
    if options.peft is not None:
        adapted += add_peft(program, Path(options.peft), f"{program.name}.weights.safetensors")
    if adapted:
        program.thaw(*meant(program.states, options.train))


def _quantized(program: Program, options: argparse.Namespace) -> list[str]:
    """Store the weights that are not trained as codes of few bits, and return their names."""
    try:
        return program.quantize(options.weights, keep=meant(program.states, options.train))
    except OpError as error:
        raise UsageError(f"--weights {options.weights}: {str(error).partition('quantize: ')[2]}") from None


class _Rows:
    """The description of a file of rows of codes: length, splits, and the hashes of the tokenizer's files."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            about: Any = json.loads(read_metadata(path).get(ROWS_KEY, "null"))
            self.keys = keys_of(path)
            shape = shapes_of(path, ["codes"])["codes"] if "codes" in self.keys else ()
            self.splits = [key for key in self.keys if key not in _COLUMNS]
        except ExecutionError as error:
            raise CompileError(str(error)) from None
        except (ValueError, RecursionError):
            about, shape = None, ()
        if not isinstance(about, dict) or len(shape) != 2:
            raise CompileError(f"{path}: the file has no rows of codes; compiler data pack --chat makes them")
        self.files: Any = about.get("files", {})
        self.classes: list[str] | None = about.get("classes")
        self.length, self.together = shape[1], "segments" in self.keys
        if self.classes is not None and "label" not in self.keys:
            raise CompileError(f"{path}: these texts have no labels; give the rows of those that have them")

    def require_for(self, program: Program) -> None:
        """Raise CompileError for rows of another kind, by another tokenizer, or with codes that the model lacks."""
        model = json.loads(program.texts_of_model.get(KEY) or program.texts_of_model[ENCODER_KEY])
        if (self.classes is None) != (KEY in program.texts_of_model):
            kinds = "classes of texts", "texts to go on with"
            mine, other = kinds if self.classes is not None else kinds[::-1]
            raise CompileError(f"{self.path}: these rows are for {mine}, and the model is for {other}")
        if self.files.get("tokenizer.json") != model["files"].get("tokenizer.json"):
            raise CompileError(
                f"{self.path}: these rows were made with another tokenizer than the model's; pack them with --chat and "
                "the folder of the model"
            )
        with unverified(self.path) as reader:
            largest = int(read_arrays(self.path, reader, ["codes"])["codes"].max(initial=0))
        if largest >= model["vocabulary"]:
            raise CompileError(
                f"{self.path}: the rows have the code {largest}, and the model has {model['vocabulary']} codes; "
                f"--vocabulary {largest + 1} gives it more"
            )


_COLUMNS: Final = ("codes", "labels", "segments", "positions", "types", "lengths", "label")


def _declare(program: Program, rows: _Rows, options: argparse.Namespace, *, trains: bool) -> None:
    """Declare the rows and the run."""
    file = os.path.relpath(rows.path, Path(options.output).parent).replace(os.sep, "/")
    program.data(file, splits={name: name for name in rows.splits})
    others = [name for name in rows.splits if name != "train"]
    if trains:
        program.training(epochs=options.epochs, split="train", evaluate=others[0] if others else None)


def _rate(given: str | None, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"--optimizer {given}: write NAME:RATE, as in adamw:2e-4") from None
