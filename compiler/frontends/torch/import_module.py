"""An exported graph as a program: its placeholders, nodes, outputs and updates of buffers."""

from __future__ import annotations

import importlib
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Literal

from compiler.build.program import Program
from compiler.errors import CompileError
from compiler.frontends.arranged import Arranged, expanded, ordered, transposed
from compiler.frontends.elements import cast_to
from compiler.frontends.extents import Extent
from compiler.frontends.initial_values import InitialValues
from compiler.frontends.report import Problem
from compiler.frontends.torch.checks.guards import Limits, limits_of
from compiler.frontends.torch.checks.signature import require_known
from compiler.frontends.torch.constants import Constant, trial_sizes
from compiler.frontends.torch.graph import MISSING, Walk
from compiler.frontends.torch.places import source_line
from compiler.frontends.torch.sizes import Sizes
from compiler.frontends.torch.states import declared, order_of
from prograd_proto import program_pb2 as pb
from prograd_proto.dtypes import HALVES, NUMBERS
from registry import Value, ops

Layout = Literal["torch", "prograd"]

CARRIED_EXACTLY: Final = {"bool", "uint8", "int8", "int16", "int32", "int64"}
"""Dtypes of buffers that are constants of a program, and whose elements a state can have."""


class Import:
    """One import of a graph.

    An import `beside` another shares inputs and states with the graph of training, and writes no states. A graph
    `in_evaluation` is the computation of predictions. If the whole module is in evaluation mode, it is also the one
    that is trained. `counters` names counters of batches that no result reads; they do not become states.

    Attributes:
        problems: the nodes that could not be imported.
        tensors: the results of the module by name, with its axes.
        limits: the sizes of symbols for which the graph is what the module does, where they are limited.
    """

    def __init__(
        self,
        program: Program,
        graph: Any,
        inputs: Sequence[str],
        names: Mapping[str, list[str]],
        symbols: Mapping[str, Mapping[int, str]],
        layout: Layout,
        counters: Collection[str],
        beside: Import | None = None,
        *,
        in_evaluation: bool = False,
    ) -> None:
        require_known(graph, in_evaluation=in_evaluation)
        self.program, self.graph, self.layout, self.names = program, graph, layout, names
        self.symbols, self.counters = symbols, counters
        self.beside = beside
        self.values = InitialValues(program, f"{program.name}.weights.safetensors") if beside is None else beside.values
        self.stored: dict[tuple[str, tuple[int, ...], bytes], Value] = {} if beside is None else beside.stored
        self.fed: dict[str, Arranged] = {} if beside is None else beside.fed
        self.placeholders = {node.name: node for node in graph.graph.nodes if node.op == "placeholder"}
        fed = [spec.arg.name for spec in graph.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
        self.inputs = dict(zip(fed, inputs, strict=True))
        self.sizes, self.limits = self._sizes()
        self.walk = Walk(program.block, self.sizes, self.store, self._locate, in_evaluation=in_evaluation)
        self.mutated = {
            spec.target: spec.arg.name
            for spec in graph.graph_signature.output_specs
            if spec.kind.name == "BUFFER_MUTATION"
        }
        self.states: dict[str, Arranged] = {} if beside is None else beside.states
        self.kept: set[str] = set()
        self.tensors: dict[str, Arranged] = {}
        self.nodes = {
            spec.target: self.placeholders[spec.arg.name]
            for spec in graph.graph_signature.input_specs
            if spec.target in names and spec.arg.name in self.placeholders
        }

    @property
    def problems(self) -> list[Problem]:
        """The nodes that could not be imported."""
        return self.walk.problems

    def buffer(self, name: str, tensor: Any) -> Value:
        """Return a buffer with a tensor as its initial value."""
        return declared(self.program, name, tensor, range(tensor.ndim), self.values, trainable=None).value

    def states_of(self, module: Any) -> dict[int, str]:
        """Return the names of the states by the ids of a module's parameters."""
        named = dict(module.named_parameters(remove_duplicate=False))
        return {id(named[name]): x.value.name for name, x in self.states.items() if name in named}

    def results(self) -> dict[str, Arranged]:
        """Append the ops of the graph; return the module's results by name, none if there are problems."""
        for spec in self.graph.graph_signature.input_specs:
            self.walk.values[spec.arg.name] = self._input(spec)
        if not self.walk.in_evaluation:
            self.walk.written = {node: self.states[name] for name, node in self.mutated.items() if name in self.states}
        results = self.walk.walk(self.graph.graph)
        most = min(self.sizes.most, default=0)
        for symbol in self.sizes.names.values():
            own = Limits(1 + (symbol in self.sizes.above_one), most)
            self.limits[symbol] = self.limits.get(symbol, Limits(1, 0)).both(own)
        specs = self.graph.graph_signature.output_specs
        made: list[Any] = []
        for spec, value in zip(specs, results, strict=True):
            if spec.kind.name == "BUFFER_MUTATION" and spec.target in self.states and self.beside is None:
                self._update(spec.target, value)
            elif spec.kind.name == "USER_OUTPUT":
                made.append(value)
        return {} if self.problems else self._by_name(made)

    def _sizes(self) -> tuple[Sizes, dict[str, Limits]]:
        names: dict[str, str] = {}
        hints: dict[str, int] = {}
        for spec in self.graph.graph_signature.input_specs:
            if spec.kind.name != "USER_INPUT" or spec.arg.name not in self.placeholders:
                continue
            name = spec.arg.name
            value = self.placeholders[name].meta.get("val")
            for axis, symbol in self.symbols.get(self.inputs[name], {}).items():
                size = value.shape[axis]
                expression = getattr(getattr(size, "node", None), "expr", None)
                if expression is None or not expression.is_Symbol:
                    raise CompileError(
                        f"the module fixes axis {axis} of {self.inputs[name]} at {size}; leave out the "
                        f"symbol {symbol!r}, or make the module independent of that size"
                    )
                names[str(expression)] = symbol
                hints[symbol] = int(size.node.hint)
        limits = limits_of(self.graph, names, hints)
        trials = trial_sizes(hints, {symbol: (each.least, each.most) for symbol, each in limits.items()})
        return Sizes(names, trials), limits

    def _input(self, spec: Any) -> Any:
        kind, name = spec.kind.name, spec.arg.name
        if kind == "TOKEN":
            return None
        if name not in self.placeholders:
            return spec.arg.value  # a number or None
        node = self.placeholders[name]
        if kind == "USER_INPUT":
            return self._fed(name, node) if hasattr(node.meta.get("val"), "shape") else node.meta.get("val")
        if self.beside is not None and spec.target in self.states:
            return self.states[spec.target]
        return self._held(spec, self._tensor(spec))

    def _held(self, spec: Any, tensor: Any) -> Arranged | Constant:
        """Return a tensor of the module: a state, or a constant, which files of states may have, too."""
        is_buffer = spec.kind.name == "BUFFER" and spec.persistent
        if spec.kind.name == "PARAMETER":
            return self._state(spec.target, tensor, trainable=bool(tensor.requires_grad))
        is_read = spec.target not in self.counters
        if is_read and (spec.target in self.mutated or (is_buffer and tensor.dtype.is_floating_point)):
            return self._state(spec.target, tensor, trainable=None)
        if is_buffer and is_read and self.beside is None:
            self._keep(spec.target, tensor)
        return Constant((tensor,) * self.sizes.trials, tuple(map(Extent, tensor.shape)), self.store)

    def _tensor(self, spec: Any) -> Any:
        if spec.kind.name == "PARAMETER" or (spec.kind.name == "BUFFER" and spec.persistent):
            return self.graph.state_dict[spec.target]
        return self.graph.constants[spec.target]

    def _fed(self, name: str, node: Any) -> Arranged:
        value = node.meta["val"]
        dtype = str(value.dtype).removeprefix("torch.")
        if dtype not in NUMBERS:
            pairs = "; give torch.view_as_real of it, and call torch.view_as_complex in forward"
            raise CompileError(
                f"the input {name} is {dtype}, which prograd has not{pairs if dtype.startswith('complex') else ''}"
            )
        shape = [extent.plain() for extent in self.sizes.shape(value.shape)]
        if self.inputs[name] in self.fed:
            return self.fed[self.inputs[name]]
        wide = "float32" if dtype in HALVES else dtype  # rows have float32, which is rounded to the module's dtype
        order = self._channels_last(len(shape), wide)
        fed = self.program.input(self.inputs[name], wide, [shape[i] for i in order])  # pyright: ignore[reportArgumentType]: one of those
        self.fed[self.inputs[name]] = cast_to(transposed(fed, [order.index(i) for i in range(len(order))]), dtype)
        return self.fed[self.inputs[name]]

    def _channels_last(self, rank: int, dtype: str) -> list[int]:
        """Return the order of the axes of images that are inputs or outputs."""
        images = self.layout == "prograd" and rank in (4, 5) and dtype in ("float32", "float64", "uint8")
        return [0, *range(2, rank), 1] if images else list(range(rank))

    def _state(self, name: str, tensor: Any, *, trainable: bool | None) -> Arranged:
        tied = self.names.get(name, [name])
        first = next((other for other in tied if other in self.states), None)
        if first is not None:
            self.states[name] = self.states[first]
            return self.states[first]
        order = order_of([self.nodes[other] for other in tied if other in self.nodes], tensor.ndim)
        self.states[name] = declared(self.program, name, tensor, order, self.values, trainable=trainable)
        others = [other for other in tied if other != name]
        self.program.states[name].imported.CopyFrom(pb.ImportedTensor(names=[name, *others], axes=order))
        return self.states[name]

    def _keep(self, name: str, tensor: Any) -> None:
        """Declare a buffer of integers or truth values that is a constant of the program, for files of states."""
        tied = self.names.get(name, [name])
        dtype = str(tensor.dtype).removeprefix("torch.")
        if dtype not in CARRIED_EXACTLY or not self.kept.isdisjoint(tied):
            return
        self.kept.add(name)
        tensor = tensor.int() if dtype in ("int8", "int16") else tensor
        declared(self.program, name, tensor, range(tensor.ndim), self.values, trainable=None)
        others = [other for other in tied if other != name]
        state = self.program.states[name]
        state.imported.CopyFrom(pb.ImportedTensor(names=[name, *others], axes=range(tensor.ndim)))

    def _update(self, name: str, value: Any) -> None:
        state = self.states[name]
        new = value.tensor(self.program.block) if isinstance(value, Constant) else value
        if new is MISSING:
            return
        order = self.program.states[name].imported.axes
        self.program.update(state.value, ordered(expanded(new, state.shape), list(order)))

    def store(self, array: Any) -> Value:
        """Return an array as a constant of the program, or as a buffer if it is large."""
        key = str(array.dtype), array.shape, array.tobytes()
        if key not in self.stored:
            with self.program.block.appending():  # for all blocks inside ops, too
                self.stored[key] = self._new_constant(array)
        return self.stored[key]

    def _new_constant(self, array: Any) -> Value:
        dtype = str(array.dtype)
        if array.size == 1:
            block, number = self.program.block, array.reshape(-1)[0].item()
            value = block.constant(dtype, float(number) if dtype.startswith("float") else int(number))
            return value if not array.ndim else ops.reshape(value, shape=array.shape)
        if array.nbytes <= 65536:
            small = pb.SmallTensor(dtype=NUMBERS[dtype], shape=array.shape, data=array.tobytes())
            return ops.constant.on(self.program.block)(value=small)
        name = f"constant_{len(self.stored)}"
        return self.program.buffer(name, array.shape, self.values.add(name, array.copy()), dtype=dtype)  # pyright: ignore[reportArgumentType]: one of those

    def _locate(self, node: Any) -> int:
        path, line = source_line(node)
        return self.program.locations.number(path, line) if path else 0

    def _by_name(self, results: list[Any]) -> dict[str, Arranged]:
        """Return the tensors among the results by their names in the module's result."""
        names = _names(self.graph.call_spec.out_spec, len(results))
        return {
            name: x.tensor(self.program.block) if isinstance(x, Constant) else x
            for name, x in zip(names, results, strict=True)
            if x is not None and not isinstance(x, int | float | Extent)
        }

    def named(self, results: Mapping[str, Arranged]) -> dict[str, Value]:
        """Return results as outputs of the program, which are tensors of those names, or of names that are free."""
        made: dict[str, Value] = {}
        for name, tensor in results.items():
            name = self._free(name)
            tensor = cast_to(tensor, "float32") if tensor.dtype in HALVES else tensor
            self.tensors[name] = tensor
            value = ordered(tensor, self._channels_last(tensor.rank, tensor.dtype))
            made[name] = self.program.block.named(ops.identity(value), name)
        return made

    def _free(self, name: str) -> str:
        name = plain(name)
        while name in self.program.block.types or name in self.program.states:
            name += "_"
        return name


def plain(name: str) -> str:
    """Return the name of a result as the program writes it."""
    return re.sub(r"\W", "_", name)


def _names(spec: Any, count: int) -> list[str]:
    """Return a name for each leaf of the module's result: keys of mappings, output, or output with a number."""
    pytree = importlib.import_module("torch.utils._pytree")
    paths = pytree.tree_flatten_with_path(spec.unflatten(list(range(count))))[0]
    keys = ["_".join(keys_of(path)) for path, _ in paths]
    if count == 1 and not keys[0]:
        return ["output"]
    names = [f"output{key}" if key[:1].isdigit() else key for key in keys]
    for name in names:
        if names.count(name) > 1:
            raise CompileError(f"from_torch: two results of the module are named {name!r}; name one of them otherwise")
    return names


def keys_of(path: Sequence[Any]) -> list[str]:
    """Return the keys, positions and names of attributes on the path to a leaf of a tree of PyTorch."""
    return [str(getattr(part, "key", getattr(part, "idx", getattr(part, "name", part)))) for part in path]
