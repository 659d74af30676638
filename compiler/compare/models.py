"""A model that is compared: an ONNX file or a program file, which gives its results, and all its tensors if asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np

from compiler.build.compiled import compile_program
from compiler.build.well_formed import well_formed
from compiler.errors import CompileError
from compiler.frontends.onnx.dtypes import dtype_name
from compiler.frontends.onnx.reading import Tensors, package, read
from compiler.frontends.onnx.texts import dimension_name, plain_dimension, plain_name
from compiler.gradcheck.feeds import seeded_feeds
from prograd_proto import program_pb2 as pb
from prograd_proto.files import copy_of
from runtime.runs.run import Run, load

MAX_ELEMENTS: Final = 2**28
"""Largest number of elements that are drawn for an input."""

MAX_TENSORS: Final = 4000
"""Largest number of tensors that are looked at to find where a difference begins."""


class Model(Protocol):
    """A model that is compared.

    Attributes:
        path: its file.
        results: the names of its results.
    """

    path: str
    results: list[str]

    def feeds(self, sizes: Mapping[str, int], seed: int, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return seeded arrays for its inputs."""
        ...

    def run(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Return its results."""
        ...

    def tensors(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Return all its tensors by name, in their order."""
        ...


def opened(path: str, sizes: Mapping[str, int], entry: str, engine: Any) -> Model:
    """Return the model of a file, by its suffix."""
    if Path(path).suffix == ".onnx":
        return OnnxModel(path, sizes)
    return ProgramModel(path, sizes, entry, engine)


class ProgramModel:
    """An entry of a program file."""

    def __init__(self, path: str, sizes: Mapping[str, int], entry: str, engine: Any) -> None:
        self.path, self.engine = path, engine
        well_formed(path)  # a run checks the blocks that run, and those as built are compared
        self.loaded = load(Path(path), engine="reference", threads=1)
        entries = {each.name: each for each in self.loaded.program.entries}
        if entry not in entries:
            raise CompileError(f"{path}: there is no entry {entry!r}; its entries are {', '.join(entries)}")
        self.entry = entries[entry]
        self.sizes = {d.symbol: d.size for each in self.entry.bindings[:1] for d in each.dims} | dict(sizes)
        self.block = self.loaded.program.blocks[self.entry.source_block]
        self.results = [fetch.name for fetch in self.block.fetches]

    def feeds(self, sizes: Mapping[str, int], seed: int, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return seeded arrays for the feeds."""
        return seeded_feeds(self.block, self.sizes, seed, given)

    def run(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fetches."""
        return self._step(feeds, {fetch.name: fetch.tensor for fetch in self.block.fetches}, self.engine)

    def tensors(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Return all tensors of the block, as the reference engine computes them."""
        made = [name for op in self.block.ops for name in op.outputs][:MAX_TENSORS]
        return self._step(feeds, {name: name for name in made}, "reference")

    def _step(self, feeds: Mapping[str, Any], fetched: Mapping[str, str], engine: Any) -> dict[str, Any]:
        program = copy_of(self.loaded.program)
        [own] = [each for each in program.entries if each.name == self.entry.name]
        block = program.blocks[own.source_block]
        del block.fetches[:]
        for i, tensor in enumerate(fetched.values()):
            block.fetches.add(name=f"t{i}", tensor=tensor, over=pb.OVER_LAST)
        for each in [each for each in program.entries if each.name != own.name]:
            program.entries.remove(each)
        program.ClearField("data")
        program.ClearField("run")
        for state in program.states:
            state.trainable = False
        run = Run(compile_program(program, self.sizes).desc, Path(self.path).parent, engine=engine, threads=1)
        for name in run.states.arrays:
            run.states.put(name, self.loaded.states.arrays[name])
        found = run.step(_fed(feeds, run.entries[own.name].feeds), entry=own.name)
        return {name: np.array(found[f"t{i}"]) for i, name in enumerate(fetched)}


def _fed(feeds: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the feeds that a program has, under the names that an import gives."""
    known = {plain_name(name): array for name, array in feeds.items()} | dict(feeds)
    return {name: np.asarray(known[name], dtype=type.dtype) for name, type in wanted.items() if name in known}


class OnnxModel:
    """An ONNX file, run by ONNX Runtime, or by the evaluator of onnx where that is not installed."""

    def __init__(self, path: str, sizes: Mapping[str, int]) -> None:
        self.path, self.sizes = path, sizes
        self.model = read(path)
        tensors = Tensors(path, Path(path).parent)
        for tensor in self.model.graph.initializer:
            tensor.CopyFrom(tensors.inside(tensor))
        weights = {tensor.name for tensor in self.model.graph.initializer}
        self.inputs = [each for each in self.model.graph.input if each.name not in weights]
        self.results = [result.name for result in self.model.graph.output]

    def feeds(self, sizes: Mapping[str, int], seed: int, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return seeded arrays for the inputs; sizes of dimensions that are not given are 1."""
        rng = np.random.default_rng(seed)
        made: dict[str, Any] = {}
        for each in self.inputs:
            type = each.type.tensor_type
            dtype = dtype_name(package(), type.elem_type)
            shape = [self._extent(each.name, axis, dim) for axis, dim in enumerate(type.shape.dim)]
            is_drawn = (
                dtype.startswith(("float", "int", "uint", "bool")) and np.prod(shape, dtype=float) <= MAX_ELEMENTS
            )
            if each.name not in given and not is_drawn:
                raise CompileError(
                    f"{self.path}: the input {each.name!r} is {dtype}{shape}, for which no numbers are drawn; give it "
                    f"by --feed {each.name}=@FILE.npy"
                )
            if each.name in given:
                made[each.name] = np.asarray(given[each.name], dtype=dtype)
            elif dtype.startswith("float"):
                made[each.name] = rng.standard_normal(shape).astype(dtype)
            else:
                made[each.name] = rng.integers(0, 2, shape).astype(dtype)
        return made

    def _extent(self, name: str, axis: int, dim: Any) -> int:
        """Return the size of a dimension.

        That in the file, or one given by the name in the file or in the imported program.
        """
        if dim.dim_value > 0:
            return dim.dim_value
        own = dimension_name(name, axis, dim)
        return self.sizes.get(own, self.sizes.get(plain_dimension(own), 1))

    def run(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Return the results."""
        return self._computed(self.model, feeds, self.results)

    def tensors(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Return the results of all nodes of the main graph."""
        model = package().ModelProto()
        model.CopyFrom(self.model)
        names = [name for node in model.graph.node for name in node.output if name][:MAX_TENSORS]
        known = {result.name for result in model.graph.output}
        model.graph.output.extend(package().ValueInfoProto(name=name) for name in names if name not in known)
        return self._computed(model, feeds, names)

    def _computed(self, model: Any, feeds: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
        known = {plain_name(name): array for name, array in feeds.items()}
        fed = {each.name: known.get(plain_name(each.name)) for each in self.inputs}
        missing = [name for name, array in fed.items() if array is None]
        if missing:
            raise CompileError(f"{self.path}: the input {missing[0]!r} is not among the inputs of the other model")
        types = {each.name: dtype_name(package(), each.type.tensor_type.elem_type) for each in self.inputs}
        fed = {name: np.asarray(array).astype(types[name]) for name, array in fed.items()}
        try:
            session: Any = import_module("onnxruntime").InferenceSession(
                model.SerializeToString(), providers=["CPUExecutionProvider"]
            )
        except ModuleNotFoundError:
            session = import_module("onnx.reference").ReferenceEvaluator(model)
        except Exception as error:  # ONNX Runtime has several classes
            raise CompileError(f"{self.path}: ONNX Runtime refuses the model: {_line(error)}") from error
        try:
            return dict(zip(names, session.run(list(names), fed), strict=True))
        except Exception as error:
            raise CompileError(f"{self.path}: {_line(error)}; --dim and --feed give sizes and inputs") from error


def _line(error: Exception) -> str:
    """Return the message of a library in one line."""
    return " ".join(str(error).split()) or type(error).__name__
