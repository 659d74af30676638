"""A graph of ONNX as a program: its inputs, its weights, its nodes and its results."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from compiler.build.program import Program
from compiler.errors import CompileError
from compiler.frontends.arranged import Arranged, arranged, ordered, plain, transposed
from compiler.frontends.initial_values import InitialValues
from compiler.frontends.onnx.known.constants import CARRIED, Constant, Symbols, carried
from compiler.frontends.onnx.node import MISSING
from compiler.frontends.onnx.order import names_given
from compiler.frontends.onnx.reading import Tensors
from compiler.frontends.onnx.strings import Codes
from compiler.frontends.onnx.strings import told as told_strings
from compiler.frontends.onnx.texts import dimension_name, plain_dimension, plain_name
from compiler.frontends.onnx.untrained import untrained
from compiler.frontends.onnx.walk import Walk
from compiler.frontends.onnx.weights import Roles
from compiler.frontends.report import Problem
from prograd_proto import program_pb2 as pb
from prograd_proto.dtypes import NUMBERS
from registry import Value, ops

SMALL: Final = 65536
"""Largest constant inside the program, in bytes; a larger one is a buffer with its values in the file of weights."""


class Tensor(NamedTuple):
    """A row of the table of names: a tensor of the file, its shape, whether it is trained, and why."""

    name: str
    shape: tuple[int, ...]
    trained: bool
    reason: str


def _is_sized(dim: Any) -> bool:
    """Return True for a dimension whose size the file has."""
    return bool(dim.HasField("dim_value") and dim.dim_value >= 0)


class Import:
    """One import.

    `same` gives the symbols that others stand for. `integers` is the number of nodes that were rewritten to compute in
    integers, None for an import in floats.

    Attributes:
        names: a row for each tensor of the file that the program has.
        notes: sentences for the user about what the exporter did.
    """

    def __init__(
        self,
        program: Program,
        model: Any,
        tensors: Tensors,
        inputs: Mapping[str, Sequence[int | str]],
        sizes: Mapping[str, int],
        constants: Mapping[str, Any],
        rows: Mapping[str, int],
        fake_quantize: bool = False,
        same: Mapping[str, str] | None = None,
        integers: int | None = None,
    ) -> None:
        self.program, self.model, self.tensors = program, model, tensors
        self.graph, self.constants, self.asked, self.dims = model.graph, constants, inputs, sizes
        self.same = same or {}
        self.codes = Codes()
        self.values = InitialValues(program, f"{program.name}.weights.safetensors")
        self.stored: dict[tuple[str, tuple[int, ...], bytes], Value] = {}
        self.roles = Roles(model, tensors.array)
        self.states: set[str] = set()
        self.names: list[Tensor] = []
        self.notes: list[str] = []
        self.spelled: dict[str, str] = {}
        self._given = {each.name for each in (*self.graph.input, *self.graph.output)}
        initialised = {tensor.name for tensor in self.graph.initializer}
        self.fed = [each for each in self.graph.input if each.name not in initialised]
        self._require_known("inputs", inputs)
        self._require_known("constants", constants)
        self.shapes = {each.name: self._shape(each) for each in self.fed if each.name not in constants}
        symbols = dict.fromkeys(e for shape in self.shapes.values() for e in shape if isinstance(e, str))
        unknown = [name for name in sizes if name not in self._declared()]
        if unknown:
            known = ", ".join(self._declared()) or "none"
            raise CompileError(f"the model has no dimension {unknown[0]!r}; its dimensions are {known}")
        versions = {imported.domain: imported.version for imported in model.opset_import}
        versions[""] = versions.get("", versions.get("ai.onnx", 1))
        self.walk = Walk(
            program.block,
            Symbols(list(symbols)),
            self._store,
            tensors,
            versions,
            self._parameter,
            self.roles.parameters,
        )
        self.walk.rows, self.walk.fake_quantize = rows, fake_quantize
        self.walk.integers, self.integers = integers is not None, integers or 0
        self._require_results(rows)
        self.walk.is_state = lambda x: x.value.name in self.states

    @property
    def problems(self) -> list[Problem]:
        """The nodes that could not be imported."""
        return self.walk.problems

    def outputs(self) -> dict[str, Value]:
        """Append the ops of the graph; return its results by name, none if there are problems."""
        if self.graph.sparse_initializer:
            name = self.graph.sparse_initializer[0].values.name
            raise CompileError(f"{self.tensors.path}: the tensor {name!r} is sparse, which prograd has not")
        for tensor in self.graph.initializer:
            self._initialiser(tensor)
        for each in self.fed:
            self._input(each)
        self.walk.nodes(self.graph.node, names_given(self.graph))
        if self.problems:
            return {}
        self._notice()
        for state, new in self.walk.updates:
            self.program.update(state.value, plain(new))
        results = self._named()
        if self.codes.all():
            ends = [each.name for each in (*self.fed, *self.graph.output)]
            named = [name for name in ends if self.walk.dtypes.get(name) == "string"]
            self.notes.append(told_strings(self.codes.all(), named))
        return results

    def _require_known(self, what: str, given: Mapping[str, Any]) -> None:
        names = [each.name for each in self.fed]
        unknown = [name for name in given if name not in names]
        if unknown:
            raise CompileError(f"from_onnx: {what} names {unknown[0]!r}, which is not among the model's inputs {names}")

    def _require_results(self, rows: Mapping[str, int]) -> None:
        made = {name for node in self.graph.node for name in node.output}
        for name, count in rows.items():
            if name not in made:
                raise CompileError(f"from_onnx: max_rows names {name!r}, which no node of the model makes")
            if type(count) is not int or count < 1:
                raise CompileError(f"from_onnx: max_rows={{{name!r}: {count!r}}} is no number of rows; give at least 1")

    def _declared(self) -> list[str]:
        """Return the names of the dimensions without a size: those of the file, or made of the input and the axis."""
        return list(
            dict.fromkeys(
                dimension_name(each.name, axis, dim)
                for each in self.fed
                for axis, dim in enumerate(each.type.tensor_type.shape.dim)
                if not _is_sized(dim)
            )
        )

    def _shape(self, each: Any) -> tuple[int | str, ...]:
        """Return the shape of an input: as asked, or as the file has it with symbols of valid names."""
        name = each.name
        if not each.type.HasField("tensor_type"):
            raise CompileError(f"{self.tensors.path}: the input {name!r} is a sequence or an optional, and no tensor")
        if not each.type.tensor_type.HasField("shape"):
            if name in self.asked:
                return tuple(self.asked[name])
            raise CompileError(f"the input {name!r} has no shape in the file; give it by inputs={{{name!r}: (...)}}")
        dims = each.type.tensor_type.shape.dim
        if name in self.asked:
            shape = tuple(self.asked[name])
            if len(shape) != len(dims):
                raise CompileError(f"inputs gives {name!r} {len(shape)} axes, and the model has {len(dims)}")
            return shape
        return tuple(self._extent(name, axis, dim) for axis, dim in enumerate(dims))

    def _extent(self, name: str, axis: int, dim: Any) -> int | str:
        """Return an extent of an input as the file has it, or as a dimension was bound."""
        if _is_sized(dim):
            return dim.dim_value
        own = dimension_name(name, axis, dim)
        if own in self.dims:
            return self.dims[own]
        return self.same.get(plain_dimension(own), plain_dimension(own))

    def _input(self, each: Any) -> None:
        dtype = self.walk.dtype_of(each.type) or "float32"
        if each.name in self.constants:
            value = np.asarray(self.constants[each.name])
            self.walk.define(each.name, self.walk.constant(value.astype(dtype) if dtype in CARRIED else value))
            return
        if dtype not in CARRIED:
            raise CompileError(f"the input {each.name!r} is {dtype}, which prograd has not")
        shape = self.shapes[each.name]
        feed = self.program.input(self._spelled(each.name), CARRIED[dtype], shape)
        self.walk.define(each.name, arranged(feed), dtype)

    def _initialiser(self, tensor: Any) -> None:
        array = self.tensors.array(tensor)
        name = tensor.name
        if name in self.roles.buffers and array.dtype.kind == "f":
            self.walk.define(name, self._state(name, array, trainable=None), array.dtype.name)
        elif name in self.roles.parameters and self.roles.is_weight(name, array):
            self.walk.define(name, self._state(name, array, trainable=True), array.dtype.name)
        else:
            self.walk.define(name, self.walk.constant(array))

    def _parameter(self, name: str, array: Any) -> Any:
        """Return a result that reaches a weight slot as a parameter, if it looks like a weight."""
        is_weight = self.roles.is_weight(name, array)
        return self._state(name, array, trainable=True) if is_weight else self.walk.constant(array)

    def _state(self, name: str, array: Any, *, trainable: bool | None) -> Arranged:
        array = carried(array)
        own = self._free(name)
        initial, dtype = self.values.add(own, np.ascontiguousarray(array).reshape(array.shape)), array.dtype.name
        if trainable is None:
            state = self.program.buffer(own, array.shape, initial, dtype=dtype)
        else:
            state = self.program.parameter(own, array.shape, initial, dtype=dtype, trainable=trainable)
        axes = list(range(array.ndim))
        self.program.states[own].imported.CopyFrom(pb.ImportedTensor(names=[name], axes=axes))
        self.states.add(own)
        reason = self.roles.reasons.get(name, "a running statistic")
        self.names.append(Tensor(name, array.shape, bool(trainable), reason))
        return transposed(state, axes)

    def _store(self, array: Any) -> Value:
        """Return an array as a constant of the program, or as a buffer if it is large."""
        array = carried(np.ascontiguousarray(array).reshape(np.shape(array)))
        array = self.codes.of(array) if array.dtype == object else array
        key = array.dtype.name, array.shape, array.tobytes()
        if array.nbytes > SMALL:
            if key not in self.stored:
                name = self._free(f"constant_{len(self.stored)}")
                initial = self.values.add(name, array)
                self.stored[key] = self.program.buffer(name, array.shape, initial, dtype=array.dtype.name)
            return self.stored[key]
        small = pb.SmallTensor(dtype=NUMBERS[array.dtype.name], shape=array.shape, data=array.tobytes())
        return ops.constant.on(self.program.block)(value=small)

    def _named(self) -> dict[str, Value]:
        """Return the results under the names of the graph."""
        made: dict[str, Value] = {}
        for result in self.graph.output:
            value = self.walk.values.get(result.name, MISSING)
            if value is MISSING:
                raise CompileError(f"{self.tensors.path}: no node makes the result {result.name!r}")
            if isinstance(value, list):
                raise CompileError(f"{self.tensors.path}: the result {result.name!r} is a sequence, and no tensor")
            tensor = value.tensor(self.program.block) if isinstance(value, Constant) else value
            own = self._spelled(result.name)
            made[own] = self.program.block.named(ops.identity(ordered(tensor, range(tensor.rank))), own)
        for name, number in self.walk.counted.items():
            own = self._free(f"{name}_count")
            made[own] = self.program.block.named(ops.identity(number), own)
        return made

    def _spelled(self, name: str) -> str:
        """Return the name of an input or a result of the file as one of the program, and remember its spelling."""
        own = self._free(name)
        if own != name:
            self.spelled[own] = name
        return own

    def _free(self, name: str) -> str:
        """Return the name of a tensor of the file as one that is free in the program and that Python's words allow.

        A name that an input or a result of the file has already is not free for another one.
        """
        own = plain_name(name) or "tensor"
        while own in self.program.block.types or own in self.program.states or (own != name and own in self._given):
            own += "_"
        return own

    def _notice(self) -> None:
        """Add notes about the exporter's changes to the weights, with remedies."""
        cure = "export with torch.onnx.export(..., dynamo=True, optimize=False) to keep it"
        rules = [p.value for node in self.graph.node for p in node.metadata_props if p.key.endswith("rule_name")]
        convs = sum(node.op_type == "Conv" for node in self.graph.node)
        norms = sum(node.op_type == "BatchNormalization" for node in self.graph.node)
        folded = [rule for rule in rules if "BatchNorm" in rule]
        made_up = [t.name for t in self.names if re.fullmatch(r"onnx::Conv_\d+", t.name)]
        if convs and not norms and (folded or made_up):
            self.notes.append(
                f"the exporter folded batch normalisation into {len(folded) or len(made_up) // 2 or 1} convolutions, "
                f"so training cannot follow its statistics; {cure}"
            )
        merged = sum(n.op_type == "Identity" and n.input[0] in self.roles.parameters for n in self.graph.node)
        if merged:
            self.notes.append(
                f"the exporter merged {merged} parameters with others of equal values, so training ties them; {cure}, "
                "or untie them by --untie"
            )
        quantised = [node.input[0] for node in self.graph.node if node.op_type == "DequantizeLinear"]
        if self.walk.integers:
            stored = {tensor.name for tensor in self.graph.initializer}
            self._notice_integers(len(stored.intersection(quantised)))
        elif quantised:
            how = (
                "the rounding of QuantizeLinear has no gradient, so parameters before it are not trained, except by "
                "--fake-quantize"
            )
            if self.walk.fake_quantize:
                how = "they are rounded as the file does, and gradients pass the roundings unchanged"
            self.notes.append(f"{len(quantised)} quantised tensors are read as floats; {how}")
        self._notice_copies(cure)
        self.notes += self.walk.notes
        constants = untrained(self.walk.onnx, self.graph, {tensor.name for tensor in self.names})
        self.notes += [constants] if constants else []

    def _notice_integers(self, left: int) -> None:
        """Add a note on the ops that compute in integers, and the number of weights that stay floats."""
        note = f"products and convolutions in integers: {self.integers}; their weights are not trained"
        if left:
            note += f"; {left} other quantised weights are read as floats, as no operator multiplies them in integers"
        self.notes.append(note)

    def _notice_copies(self, cure: str) -> None:
        """Note matrices that are the transposed copy of another."""
        arrays = self.program.arrays.get(f"{self.program.name}.weights.safetensors", {})
        matrices = {name: array for name, array in arrays.items() if array.ndim == 2 and array.size >= 64}
        prints = {(array.shape, array.tobytes()): name for name, array in matrices.items()}
        for name, array in matrices.items():
            flipped = np.ascontiguousarray(array.T)
            other = prints.get((flipped.shape, flipped.tobytes()))
            if other is not None and other < name:
                self.notes.append(
                    f"{name!r} is the transposed copy of {other!r}, which were one tied parameter in the module, and "
                    f"training unties them; {cure}, or tie them by --tie"
                )
