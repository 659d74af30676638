"""from_onnx: an ONNX file as a program with the same predictions, which can be trained."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from compiler.build.mixed import Mixed, require_mixed
from compiler.build.program import Program
from compiler.errors import CompileError
from compiler.frontends.account import Account
from compiler.frontends.onnx import quantised, ties
from compiler.frontends.onnx.chosen_results import keep_results
from compiler.frontends.onnx.equal_symbols import equalities
from compiler.frontends.onnx.equal_symbols import told as told_equal
from compiler.frontends.onnx.import_graph import Import
from compiler.frontends.onnx.integers import in_integers
from compiler.frontends.onnx.keras_files import PRODUCER, cut_biases, folded_norms
from compiler.frontends.onnx.pairs import checked_pairs
from compiler.frontends.onnx.reading import Tensors, checked, package, read
from compiler.frontends.onnx.texts import texts_of_model
from compiler.frontends.report import Table, importer, told
from registry import Value

Inputs = Mapping[str, Sequence[int | str]]
"""Shape of each input: sizes and names of symbols."""


@importer
def from_onnx(
    source: Any,
    inputs: Inputs | None = None,
    *,
    dims: Mapping[str, int] | None = None,
    constants: Mapping[str, Any] | None = None,
    max_rows: Mapping[str, int] | None = None,
    outputs: Sequence[str] | None = None,
    name: str | None = None,
    seed: int = 0,
    tie: bool = False,
    untie: bool = False,
    fake_quantize: bool = False,
    integers: bool = False,
    mixed: Mixed | str | None = None,
    max_memory: int | None = None,
    max_time: float | None = None,
    explain: bool = False,
) -> Program | Table:
    """Return a program that computes what an ONNX file computes, with its weights as initial values.

    Feeds and results have the names of the file, in which characters other than letters, digits and dots become
    underscores. `program["logits"]` is a result, and the entry `predict` has them all; `program.outputs_of_module`
    lists them. `program.notes_of_import` has sentences about what the exporter did to the weights, and
    `program.tensors_of_file` a row for each weight: its name, its shape, whether it is trained, and why. Strings are
    codes, which are positions in `program.strings_of_model`. The file's description, metadata, producer and original
    names stay with the program, and an export writes them again.

    Args:
        source: the path of a file, or an onnx.ModelProto.
        inputs: shapes of inputs, as in {"x": ("batch", 3, 224, 224)}; those of the file unless given.
        dims: sizes of dimensions that the file names, as in {"sequence": 128}; the others stay symbols.
        constants: values of inputs that have to be known while importing, such as shapes.
        max_rows: by name, bounds of results whose number of rows is data, as of NonZero; a further
            result, with `_count` behind that name, is the number.
        outputs: names of the results to import, all unless given; nodes and inputs that they do not need are left out.
        name: name of the program, by default that of the file.
        seed: seed of the program.
        tie: make matrices that are copies of others, or transposed copies, one parameter again.
        untie: give each node its own copy of a weight that several read, as before an exporter merged equal ones.
        fake_quantize: round weights and activations of quantised files as the file does, and let gradients pass these
            roundings unchanged, within the limits of the dtype; without it, stored weights are floats, and a rounding
            of activations has no gradient.
        integers: compute products and convolutions of tensors that are quantised to eight bits in integers, without
            gradients; docs/int8.md lists them.
        mixed: mixed precision of `program.compile` where that is given no other: "bfloat16" or `prograd.mixed(…)`.
        max_memory: bytes that the process may take for the file and the constants that the import computes.
        max_time: seconds that the import may take.
        explain: return the table of what cannot be imported, and no program.

    Raises ResourceLimit if the import takes more memory or time, visits more than 100,000 nodes, as loops in loops may,
    or computes constants of more than 1 GiB.

    Raises CompileError for a file that is not well formed, or with operators that prograd lacks: all of them at once.
    """
    require_mixed(mixed)
    if integers and fake_quantize:
        raise CompileError(
            "from_onnx: integers=True has no gradients, which fake_quantize=True asks for; give one of them"
        )
    account = Account(max_memory, max_time)
    onnx = package()
    model, path, folder = _opened(onnx, source, account)
    tensors = Tensors(path, folder, account)
    model, notes, rewritten = _edited(onnx, model, tensors, outputs, tie=tie, untie=untie, integers=integers)
    title = name or re.sub(r"\W", "_", Path(path).stem if folder is not None else model.graph.name) or "model"

    def walked(same: Mapping[str, str]) -> Walked:
        program = Program(title, seed=seed)
        given = inputs or {}, dims or {}, constants or {}, max_rows or {}
        imported = Import(program, model, tensors, *given, fake_quantize, same, rewritten)
        return imported, imported.outputs()

    imported, results = _with_equal_symbols(walked)
    program = imported.program
    program.mixed_of_import = mixed
    if explain:
        return Table(imported.problems)
    if imported.problems:
        raise CompileError(f"from_onnx: {told(imported.problems)}")
    program.outputs_of_module = list(results)
    program.notes_of_import = imported.notes + notes
    program.tensors_of_file = imported.names
    program.texts_of_model = texts_of_model(model, imported.spelled) | imported.codes.texts()
    program.outputs(**results)
    return program


def _edited(
    onnx: Any,
    model: Any,
    tensors: Tensors,
    outputs: Sequence[str] | None,
    *,
    tie: bool,
    untie: bool,
    integers: bool,
) -> tuple[Any, list[str], int | None]:
    """Return a model as it is imported, notes, and the number of nodes in integers; the given model stays as it is."""
    is_edited = tie or untie or integers or outputs is not None
    if is_edited or model.producer_name == PRODUCER or quantised.is_quantised(model.graph):
        edited = onnx.ModelProto()
        edited.CopyFrom(model)
        model = edited
    if outputs is not None:
        keep_results(onnx, model.graph, list(outputs), tensors.path)
    if untie:
        ties.untie(model.graph)
    if tie:
        ties.tie(onnx, model.graph, tensors)
    quantised.in_floats(onnx, model.graph, tensors, keeps_dynamic=integers)
    pairs = checked_pairs(onnx, model.graph, tensors)
    rewritten = in_integers(onnx, model.graph, tensors) if integers else None
    return model, pairs + cut_biases(onnx, model, tensors) + folded_norms(model), rewritten


def _opened(onnx: Any, source: Any, account: Account) -> tuple[Any, str, Path | None]:
    """Return the model, its path for messages, and its folder, None for a model without a file."""
    if isinstance(source, onnx.ModelProto):
        return checked(source, "the model"), "the model", None
    if isinstance(source, str | os.PathLike):
        path = os.fspath(source)
        return read(path, account), path, Path(path).parent
    raise CompileError(f"from_onnx: {source!r} is neither a path nor an onnx.ModelProto")


Walked = tuple[Import, dict[str, Value]]
"""An import and its results."""


def _with_equal_symbols(walked: Callable[[Mapping[str, str]], Walked]) -> Walked:
    """Return the import of a model, with sizes of several inputs as one symbol if nodes need them to be equal."""
    first = walked({})
    for same in equalities(first[0].shapes) if first[0].problems else ():
        imported, results = walked(same)
        if not imported.problems:
            imported.notes.append(told_equal(same))
            return imported, results
    return first
