"""The walk over the nodes of a graph: constants are computed while importing, all others become ops."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np

from compiler.errors import CompileError
from compiler.frontends.arranged import Arranged, pointwise
from compiler.frontends.extents import product
from compiler.frontends.onnx.dtypes import DTYPES, NARROW, WRAPPING, dtype_name, wrapping
from compiler.frontends.onnx.functions import body_of, inlined
from compiler.frontends.onnx.inside import graphs_of
from compiler.frontends.onnx.known.certain import is_certain, without_ones
from compiler.frontends.onnx.known.computed import computed
from compiler.frontends.onnx.known.constants import CARRIED, Constant, Store, Symbols, settled
from compiler.frontends.onnx.node import MISSING, Node
from compiler.frontends.onnx.old_opsets import is_old, schema_of
from compiler.frontends.onnx.order import in_order, names_given
from compiler.frontends.onnx.places import line_of
from compiler.frontends.onnx.reading import Tensors, first_line, package
from compiler.frontends.onnx.remedies import remedy
from compiler.frontends.onnx.small_floats import FORMATS, rounded
from compiler.frontends.onnx.strings import require_strings
from compiler.frontends.report import Problem
from compiler.onnx_operators import IMPORTS
from compiler.onnx_operators.quantize import rounded_weight
from prograd_proto import ProgramError
from registry import Block, Value, ops

RANDOM: Final = {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial", "Bernoulli",
                 "Dropout"}  # fmt: skip
"""Operators that draw, so they are no constants."""

UNFIT: Final = (
    OverflowError, IndexError, ZeroDivisionError, TypeError, ValueError, AssertionError, KeyError, AttributeError,
)  # fmt: skip
"""Exceptions of mappings for attributes and operands that their operator does not have."""


class Walk:
    """The state of an import.

    Attributes:
        values: by name, a tensor, a constant, a list of these, or MISSING.
        dtypes: by name, the dtype of the model.
        problems: the nodes that could not be imported.
        rows: by name of a result, the bound of its rows if their number is data.
        fake_quantize: True if gradients pass the roundings of quantised tensors.
        integers: True if products of quantised tensors are computed in integers.
        codes: the codes of quantised tensors, see `compiler.onnx_operators.integers`.
        counted: by name of such a result, the number of its rows.
        by_sizes: names of tensors that depend on sizes alone, with their elements for sizes above 1.
        notes: sentences for the user about results.
    """

    def __init__(
        self,
        block: Block,
        symbols: Symbols,
        store: Store,
        tensors: Tensors,
        versions: dict[str, int],
        parameter: Callable[[str, Any], Arranged],
        parameters: set[str],
    ) -> None:
        self.block, self.symbols, self.store, self.tensors = block, symbols, store, tensors
        self.versions, self.parameter, self.parameters = versions, parameter, parameters
        self.values: dict[str, Any] = {}
        self.dtypes: dict[str, str] = {}
        self.problems: list[Problem] = []
        self.rows: Mapping[str, int] = {}
        self.fake_quantize = False
        self.integers = False
        self.codes: dict[str, Arranged] = {}
        self.counted: dict[str, Value] = {}
        self.by_sizes: dict[str, Constant | None] = {}
        self.notes: list[str] = []
        self._made_parameters: dict[tuple[str, bytes], Any] = {}
        self.updates: list[tuple[Arranged, Arranged]] = []
        self.onnx = package()
        self.is_state: Callable[[Arranged], bool] = lambda x: False

    def nodes(self, nodes: Sequence[Any], given: Iterable[str] = ()) -> None:
        """Append ops for nodes, each behind those that it needs; `given` are the names of the graph's other tensors."""
        for node in in_order(nodes, self.tensors.path, given):
            self._node(node)

    def graph(self, graph: Any, operands: Sequence[Any]) -> list[Any]:
        """Append the ops of a branch or body for these operands; return its results."""
        for tensor in graph.initializer:
            array = self.tensors.array(tensor)
            is_weight = tensor.name in self.parameters
            self.define(tensor.name, self._shared(tensor.name, array) if is_weight else self.constant(array))
        for given, value in zip(graph.input, operands, strict=False):
            self.define(given.name, value, self.dtype_of(given.type))
        self.nodes(graph.node, names_given(graph))
        return [self.values.get(result.name, MISSING) for result in graph.output]

    def define(self, name: str, value: Any, dtype: str | None = None) -> None:
        """Give a name its value."""
        self.values[name] = value
        dtype = value.dtype if isinstance(value, Constant) else dtype
        if dtype is None and isinstance(value, Arranged) and name not in self.dtypes:
            dtype = value.dtype
        if dtype is not None:
            self.dtypes[name] = dtype

    def constant(self, array: Any) -> Constant:
        """Return an array as a constant."""
        return Constant((array,) * self.symbols.trials, self.symbols, self.store)

    def dtype_of(self, type: Any) -> str | None:
        """Return the dtype of a type of ONNX, None if it is no tensor."""
        number = type.tensor_type.elem_type
        return dtype_name(self.onnx, number) if number else None

    def _node(self, node: Any) -> None:
        self.tensors.account.visit()
        domain = "" if node.domain == "ai.onnx" else node.domain
        operator = f"{domain}.{node.op_type}" if domain else node.op_type
        try:
            operands = [self.values[name] if name else None for name in node.input]
        except KeyError as error:
            raise CompileError(
                f"{self.tensors.path}: a node {node.op_type} reads {error.args[0]!r}, which nothing before it makes"
            ) from None
        if any(x is MISSING for x in operands):
            if operator not in IMPORTS and not self._is_computed_otherwise(node, domain):
                self._problem(operator, node, "has no counterpart")
            return self._lost(node)
        try:
            made = self._made(node, domain, operator, operands)
        except (ProgramError, CompileError) as error:
            self._problem(operator, node, re.sub(r"^[^\s:]+\.py:\d+: ", "", str(error)))  # the line of the import
            return self._lost(node)
        except UNFIT as error:
            self._problem(operator, node, f"its operands or attributes do not fit the operator ({first_line(error)})")
            return self._lost(node)
        for name, value in zip(node.output, made, strict=False):
            if name and value is not None:
                self.define(name, value)
        self._mark(node, operands, made)

    def _mark(self, node: Any, operands: Sequence[Any], made: Sequence[Any]) -> None:
        """Note which results of a node depend on sizes alone although they are tensors."""
        for name in node.output:
            self.by_sizes.pop(name, None)
        pairs = list(zip(node.input, operands, strict=True))
        sized = [x is None or isinstance(x, Constant) or name in self.by_sizes for name, x in pairs]
        if not all(sized) or node.op_type in RANDOM or graphs_of(node):
            return
        if all(x is None or (isinstance(x, Constant) and x.is_array) for x in operands):
            return
        usual = self._usual(node, [self.by_sizes.get(name, x) if isinstance(x, Arranged) else x for name, x in pairs])
        for number, (name, value) in enumerate(zip(node.output, made, strict=False)):
            if isinstance(value, Arranged):
                self.by_sizes[name] = usual[number] if usual else None

    def _usual(self, node: Any, operands: Sequence[Any]) -> Sequence[Any] | None:
        """Return the results of a node for sizes above 1; None if they are known for the trial sizes only."""
        if any(x is None and name for name, x in zip(node.input, operands, strict=True)):
            return None
        operands = [x and without_ones(x) for x in operands]
        known = computed(node, operands, self.versions, self.symbols, self.store, self.tensors)
        known = known and [y and without_ones(y) for y in known]
        return known if known is not None and is_certain(node, operands, known) else None

    def _is_computed_otherwise(self, node: Any, domain: str) -> bool:
        """Return True for operators without a mapping that are known by sizes alone, or by their functions."""
        if not domain and node.op_type in ("Shape", "Size", "Constant"):
            return True
        schema = schema_of(self.onnx, node.op_type, self.versions.get(domain, 1), domain)
        return schema is not None and bool(schema.has_function or schema.has_context_dependent_function)

    def _lost(self, node: Any) -> None:
        for name in node.output:
            self.values[name] = MISSING

    def _problem(self, operator: str, node: Any, reason: str) -> None:
        operator, reason, name = (
            text if text.isprintable() else text.encode("unicode_escape").decode()
            for text in (operator, reason, node.name)
        )
        self.problems.append(Problem(operator, reason, name, line_of(node), remedy(operator, reason)))

    def _made(self, node: Any, domain: str, operator: str, operands: list[Any]) -> Sequence[Any]:
        is_past = not domain and is_old(self.onnx, node.op_type, self.versions.get("", 1))
        is_known = not is_past and all(x is None or isinstance(x, Constant) for x in operands)
        if operator == "Shape" and not isinstance(operands[0], list):
            return [self._shape(node, operands[0])]
        x: Any = operands[0] if operands else None
        if operator == "Size" and not isinstance(x, list):
            return [self._extents([product(x.shape)], scalar=True)]
        if is_known and not graphs_of(node) and node.op_type not in RANDOM and not self._is_sequence(node):
            known = computed(node, operands, self.versions, self.symbols, self.store, self.tensors)
            if known is not None and is_certain(node, operands, known):
                known = self._with_ops(node, domain, operator, operands, known)
                return self._with_parameters(node, known, lambda: self._called(node, domain, operands))
        self._infer(node, domain, operands)
        require_strings(node, self.dtypes, [isinstance(x, Constant) for x in operands])
        mapping = IMPORTS.get(operator)
        if mapping is None:
            return self._unfolded(node, domain, operator)
        self.block.prefix = ""
        made = mapping(self._called(node, domain, operands))
        results = list(made) if isinstance(made, tuple) else [made]
        return [
            self._finished(value, self.dtypes.get(name), node.op_type)
            for name, value in zip(node.output, results, strict=False)
        ]

    def _with_ops(self, node: Any, domain: str, operator: str, operands: list[Any], known: list[Any]) -> list[Any]:
        """Return constants that depend on sizes with the ops that compute them, which are appended if they are needed.

        If the operator has no mapping, there are no such ops.
        """
        mapping = IMPORTS.get(operator)
        if mapping is None or all(x is None or x.is_array for x in known):
            return known

        def appended(block: Block, number: int) -> Arranged:
            outer, self.block = self.block, block
            try:
                made = mapping(self._called(node, domain, operands))
            finally:
                self.block = outer
            result = made[number] if isinstance(made, tuple) else made
            return result.tensor(block) if isinstance(result, Constant) else result

        return [
            None if x is None else replace(x, appended=partial(appended, number=number))
            for number, x in enumerate(known)
        ]

    def _is_sequence(self, node: Any) -> bool:
        return "Sequence" in node.op_type or node.op_type.startswith("Optional")

    def _with_parameters(self, node: Any, known: Sequence[Any], called: Callable[[], Node]) -> list[Any]:
        """Return constants, and those that reach a weight slot as parameters, rounded if that is asked for."""
        made = [
            self._shared(name, value.array()) if name in self.parameters else value
            for name, value in zip(node.output, known, strict=False)
        ]
        if self.fake_quantize and node.op_type == "DequantizeLinear" and isinstance(made[0], Arranged):
            return [rounded_weight(called(), made[0])]
        return made

    def _shared(self, name: str, array: Any) -> Any:
        """Return the parameter of this name and values, which a body that is read several times has once."""
        key = name, array.tobytes()
        if key not in self._made_parameters:
            self._made_parameters[key] = self.parameter(name, array)
        return self._made_parameters[key]

    def _called(self, node: Any, domain: str, operands: list[Any]) -> Node:
        attributes = {attribute.name: self._attribute(attribute) for attribute in node.attribute}
        return Node(
            node.op_type,
            self.versions.get(domain, self.versions.get("", 1)),
            attributes,
            operands,
            list(node.input),
            list(node.output),
            [self.dtypes.get(name) for name in node.input],
            [self.dtypes.get(name) for name in node.output],
            self.block,
            self.store,
            self,
        )

    def _attribute(self, attribute: Any) -> Any:
        value = self.onnx.helper.get_attribute_value(attribute)
        if isinstance(value, bytes):
            return value.decode("utf-8", "replace")
        if isinstance(value, list) and value and isinstance(value[0], bytes):
            return [each.decode("utf-8", "replace") for each in value]
        return value

    def _shape(self, node: Any, x: Any) -> Constant:
        window = {attribute.name: attribute.i for attribute in node.attribute}
        return self._extents(list(x.shape)[window.get("start", 0) : window.get("end")])

    def _extents(self, extents: Sequence[Any], *, scalar: bool = False) -> Constant:
        rows = [[extent.bound(sizes) for extent in extents] for sizes in self.symbols.sizes[: self.symbols.trials]]
        trials = [np.array(row, dtype=np.int64) for row in rows if all(n < 2**63 for n in row)]
        return Constant(settled([t.reshape(()) if scalar else t for t in trials]), self.symbols, self.store)

    def _unfolded(self, node: Any, domain: str, operator: str) -> Sequence[Any]:
        """Append the body of an operator that ONNX defines as a function; return its results."""
        types = [self._type(name) for name in node.input]
        body = body_of(self.onnx, node, domain, self.versions, types)
        if body is None:
            raise CompileError("has no counterpart")
        outer = self.versions
        self.versions = {**outer, **{each.domain: each.version for each in body.opset_import}}
        before = len(self.problems)
        try:
            self.nodes(inlined(self.onnx, node, body, self.values))
        finally:
            self.versions = outer
        made = [self.values.get(name, MISSING) for name in node.output if name]
        if any(x is MISSING for x in made):
            inner = self.problems[before:]
            del self.problems[before:]
            raise CompileError(inner[0].reason if inner else "has no counterpart")
        return [self.values[name] if name else None for name in node.output]

    def _type(self, name: str) -> Any:
        type = self.onnx.TypeProto()
        dtype = self.dtypes.get(name)
        if dtype in DTYPES:
            type.tensor_type.elem_type = DTYPES[dtype]
            x = self.values.get(name)
            if x is not None and not isinstance(x, list) and x is not MISSING:
                for extent in x.shape:
                    dim = type.tensor_type.shape.dim.add()
                    dim.dim_value = extent.bound(self.symbols.sizes[0])
        return type

    def _infer(self, node: Any, domain: str, operands: Sequence[Any]) -> None:
        """Note the dtypes of the results of a node."""
        if all(name in self.dtypes for name in node.output if name):
            return
        try:
            schema = self.onnx.defs.get_schema(node.op_type, self.versions.get(domain, 1), domain)
            types = {name: self._type(name) for name in node.input if name and name in self.dtypes}
            imports = [self.onnx.helper.make_opsetid(d, v) for d, v in self.versions.items()]
            found = self.onnx.shape_inference.infer_node_outputs(schema, node, types, opset_imports=imports)
        except Exception:  # inference is a convenience: without it a result has the dtype that is computed
            return
        for name, type in found.items():
            if type.HasField("tensor_type") and type.tensor_type.elem_type:
                self.dtypes[name] = dtype_name(self.onnx, type.tensor_type.elem_type)

    def _finished(self, value: Any, dtype: str | None, operator: str) -> Any:
        """Return a result in the dtype that the program has for the model's; halves are rounded, and integers wrap."""
        if not isinstance(value, Arranged) or dtype is None:
            return value
        if dtype not in CARRIED:
            raise CompileError(f"makes elements of {dtype}, which prograd has not")
        if value.dtype != CARRIED[dtype]:
            value = pointwise(lambda v: ops.cast(v, dtype=CARRIED[dtype]), value)
        if dtype in ("float16", "bfloat16"):
            return pointwise(lambda v: ops.cast(ops.cast(v, dtype=dtype), dtype="float32"), value)  # type: ignore[arg-type]
        if dtype in FORMATS and operator in ("QuantizeLinear", "Clip"):
            return pointwise(lambda v: rounded(v, dtype), value)
        return pointwise(wrapping(dtype), value) if operator in WRAPPING and dtype in NARROW else value
