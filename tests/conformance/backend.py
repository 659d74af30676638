"""One case of onnx.backend.test: imported, run on an engine, and compared with its results."""

from __future__ import annotations

import warnings
from importlib import import_module
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import prograd
from compiler.errors import CompileError
from compiler.frontends.onnx.dtypes import own_name
from compiler.frontends.onnx.known.constants import CARRIED

MAX_SYMBOLS = 4
"""Largest number of symbols of a case."""

KINDS = {"node": "node", "simple": "simple", "converted": "pytorch-converted", "operator": "pytorch-operator"}
"""Kinds of cases by the word of the command."""


class NotExported(Exception):
    """A program that ONNX cannot express."""


class Verdict(NamedTuple):
    """The result of a case.

    Attributes:
        reason: why it does not pass; "" if it does.
        bound: True if the values of inputs were taken while importing.
        carried: True if inputs or results have dtypes that others compute for.
    """

    reason: str
    bound: bool = False
    carried: bool = False


def cases(kind: str) -> list[Any]:
    """Return the cases of a kind; those of nodes may be all that the installed package has."""
    from onnx.backend.test.loader import load_model_tests

    return sorted(load_model_tests(kind=KINDS[kind]), key=lambda case: case.name)


def judged(case: Any, engine: str, *, again: bool = False, symbolic: bool = False) -> Verdict:
    """Return how a case ends on an engine; an error that is no sentence of ours is a reason too."""
    try:
        return verdict(case, engine, again=again, symbolic=symbolic)
    except Exception as error:
        return Verdict(f"{type(error).__name__}: {error}".splitlines()[0])


def verdict(case: Any, engine: str, *, again: bool = False, symbolic: bool = False) -> Verdict:
    """Return how a case ends on an engine; raise what import and run raise, but for the sentences of an import.

    Args:
        case: a case of onnx.backend.test.
        engine: the engine.
        again: export the program and import it again first.
        symbolic: give each size of the inputs a symbol, as many as the import takes.
    """
    onnx: Any = import_module("onnx")

    if case.model_dir is None:
        model, data = case.model, case.data_sets[0]
        given, wanted = ([_array(onnx, value) for value in values] for values in data)
    else:
        model = onnx.load(str(Path(case.model_dir) / "model.onnx"))
        given, wanted = _data(onnx, Path(case.model_dir) / "test_data_set_0", model)
    if not _are_arrays(given) or not _are_arrays(wanted):
        given = None
    if given is None or wanted is None:
        return Verdict("its inputs or results are no tensors")
    names = [value.name for value in model.graph.input]
    given, wanted = [np.asarray(x) for x in given], [np.asarray(x) for x in wanted]
    carried = any(CARRIED.get(own_name(x.dtype)) != x.dtype.name for x in (*given, *wanted))
    try:
        made = _compared(case, model, dict(zip(names, given, strict=False)), wanted, {}, engine, again, symbolic)
        return made._replace(carried=carried)
    except CompileError as error:
        reason = str(error)
        known = _shapes(dict(zip(names, given, strict=False)))
        if "has to be known while importing" not in reason or not known:
            return Verdict(reason)
    try:
        return _compared(
            case, model, dict(zip(names, given, strict=False)), wanted, known, engine, again, symbolic
        )._replace(bound=True, carried=carried)
    except CompileError as error:
        return Verdict(str(error))


def _shapes(given: dict[str, Any]) -> dict[str, Any]:
    """Return the inputs behind the first that may be numbers of a shape: few integers, truths or scales."""
    return {
        name: array
        for number, (name, array) in enumerate(given.items())
        if (number or array.dtype.kind == "i" or array.ndim == 0) and array.ndim <= 1 and array.size <= 16
    }


def _compared(
    case: Any,
    model: Any,
    given: dict[str, Any],
    wanted: list[Any],
    known: dict[str, Any],
    engine: str,
    again: bool,
    symbolic: bool,
) -> Verdict:
    inputs = {name: array.shape for name, array in given.items() if name not in known}
    rows = _rows(model, wanted)
    program, sizes = _imported(model, inputs, known, rows, symbolic)
    strings = program.strings_of_model  # the exported file has their codes
    if again:
        program = _again(program)
    run = prograd.Run(program.compile(**sizes), engine=engine)  # type: ignore[arg-type]
    fed = run.entries["predict"].feeds
    feeds = {_own(name): _carried(array, strings) for name, array in given.items() if _own(name) in fed}
    results = run.step(feeds, entry="predict")
    for name, count in rows.items():
        if f"{name}_count" in results and results[f"{name}_count"] != count:
            return Verdict(f"{name} has {results[f'{name}_count']} rows in place of {count}")
    for name, expected in zip(program.outputs_of_module, wanted, strict=False):
        expected = _carried(expected, strings) if expected.dtype.kind in "OUS" else expected
        found = np.asarray(results[name])
        if found.shape != expected.shape:
            return Verdict(f"{name} has the shape {found.shape} in place of {expected.shape}")
        wide = np.asarray(expected, dtype=found.dtype)
        if not np.allclose(found, wide, rtol=case.rtol, atol=case.atol, equal_nan=True):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                apart = np.abs(found.astype(np.float64) - wide.astype(np.float64))
            return Verdict(f"{name} differs by {np.nanmax(apart):.1g}")
    return Verdict("")


def _imported(
    model: Any, inputs: dict[str, tuple[int, ...]], known: dict[str, Any], rows: dict[str, int], symbolic: bool
) -> tuple[Any, dict[str, int]]:
    """Return the program of a model and the sizes of its symbols, of which it has as many as the import takes."""
    sizes = sorted({size for shape in inputs.values() for size in shape if size > 1}) if symbolic else []
    for count in range(min(len(sizes), MAX_SYMBOLS), 0, -1):
        for chosen in combinations(sizes, count):
            shapes = {n: [f"size{size}" if size in chosen else size for size in s] for n, s in inputs.items()}
            try:
                program = prograd.from_onnx(model, shapes, constants=known, max_rows=rows, name="case")
            except CompileError:
                continue
            if set(program.symbols) >= {f"size{size}" for size in chosen}:
                return program, {f"size{size}": size for size in chosen}
    return prograd.from_onnx(model, inputs, constants=known, max_rows=rows, name="case"), {}


def _rows(model: Any, wanted: list[Any]) -> dict[str, int]:
    """Return the number of rows of the first result, for cases of one operator whose number of rows is data."""
    first = model.graph.node[0]
    if (
        first.op_type not in ("NonZero", "Unique", "NonMaxSuppression", "Compress")
        or not wanted
        or len(model.graph.node) != 1
    ):
        return {}
    axes = [attribute.i for attribute in first.attribute if attribute.name == "axis"]
    axis = {"NonZero": 1, "NonMaxSuppression": 0}.get(first.op_type, axes[0] if axes else 0)
    return {first.output[0]: wanted[0].shape[axis]}


def _again(program: prograd.Program) -> prograd.Program:
    """Return the program of an ONNX file, exported and imported again; raise NotExported if that is not possible."""
    try:
        exported = prograd.to_onnx(program)
    except CompileError as error:
        raise NotExported(str(error)) from None
    other = prograd.from_onnx(exported, name="again")
    assert other.outputs_of_module == program.outputs_of_module
    return other


def _are_arrays(values: Any) -> bool:
    """Return True for a list of tensors."""
    return values is not None and all(isinstance(value, np.ndarray | np.generic) for value in values)


def _array(onnx: Any, value: Any) -> Any:
    """Return a tensor of ONNX as an array, and everything else as it is."""
    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def _own(name: str) -> str:
    return "".join(c if c.isalnum() or c in "_." else "_" for c in name)


def _carried(array: Any, strings: tuple[str, ...] = ()) -> Any:
    """Return an array in the dtype that carries it; strings as codes."""
    if array.dtype.kind in "OUS":
        codes = [strings.index(text) if text in strings else -1 for text in array.reshape(-1).tolist()]
        return np.array(codes, np.int64).reshape(array.shape)
    return np.ascontiguousarray(array.astype(CARRIED[own_name(array.dtype)])).reshape(array.shape)


def _data(onnx: Any, folder: Path, model: Any) -> tuple[list[Any] | None, list[Any] | None]:
    def read(kind: str, values: Any) -> list[Any] | None:
        made: list[Any] = []
        for number, value in enumerate(values):
            if not value.type.HasField("tensor_type"):
                return None
            path = folder / f"{kind}_{number}.pb"
            if not path.is_file():
                continue
            tensor = onnx.TensorProto()
            tensor.ParseFromString(path.read_bytes())
            made.append(onnx.numpy_helper.to_array(tensor))
        return made

    return read("input", model.graph.input), read("output", model.graph.output)
