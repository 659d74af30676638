"""An exported graph, node by node, as ops of a program."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from compiler.errors import CompileError
from compiler.frontends.arranged import Arranged, arranged, expanded, plain
from compiler.frontends.extents import Extent, product
from compiler.frontends.report import Problem
from compiler.frontends.torch.checks.thresholds import size_of_threshold
from compiler.frontends.torch.constants import SURE_TRIALS, Constant, Store
from compiler.frontends.torch.halves import in_float32
from compiler.frontends.torch.nodes import SQUEEZES, is_pointwise, require_contiguous, rounded, squeezed_symbols
from compiler.frontends.torch.operators import OPERATORS, REMEDIES, SEES_CONSTANTS, control, fourier
from compiler.frontends.torch.operators.call import Call, Result
from compiler.frontends.torch.pairs import PARTS, Pair, complex_result, is_complex, pair_of
from compiler.frontends.torch.peepholes import folded
from compiler.frontends.torch.picked import REASON, Picked, computed, picked, selected, written
from compiler.frontends.torch.places import module_path, problem_of
from compiler.frontends.torch.sizes import Sizes, Unsized
from prograd_proto import ProgramError
from registry import Block, Value, ops

IGNORED: Final = {
    "aten._assert_tensor_metadata.default",
    "aten._assert_scalar.default",
    "aten._assert_async.msg",
    "aten.sym_constrain_range_for_size.default",
    "aten.sym_constrain_range.default",
    "aten._linalg_check_errors.default",
}
"""Checks of the export, which compute nothing."""

NUMBERS_OF_RUNS: Final = {"aten._local_scalar_dense.default", "aten.item.default"}
"""Numbers that a tensor has when the module runs; checks may read them."""

WITHOUT_OPS: Final = {*IGNORED, *NUMBERS_OF_RUNS, "aten.sym_size.int"}
"""Operators that the walk understands without a mapping."""

NEVER_CONSTANT: Final = {"aten.empty.memory_format", "aten.empty_like.default", "aten.new_empty.default",
                         "aten.empty_permuted.default"}  # fmt: skip
"""Operators whose results have no elements that count."""


@dataclass
class Walk:
    """The state of an import: the values of the nodes seen so far, and what could not be imported.

    Attributes:
        block: the block that ops are appended to.
        sizes: the symbols of the export.
        store: puts the elements of a constant into the program.
        locate: returns the number of a node's location; 0 if it is unknown.
        values: for each node, by name, a tensor, a constant, a size, a graph or a tuple of these.
        problems: the nodes that have no counterpart.
        path: the path of the module for nodes that name none.
        written: by node, the state that it is written to; outside training the module reads the state instead.
        in_evaluation: the graph is that of evaluation, whose ops have no other inference form.
    """

    block: Block
    sizes: Sizes
    store: Store
    locate: Callable[[Any], int]
    values: dict[str, Any] = field(default_factory=dict[str, Any])
    problems: list[Problem] = field(default_factory=list[Problem])
    path: str = ""
    written: dict[str, Arranged] = field(default_factory=dict[str, Arranged])
    in_evaluation: bool = False

    def walk(self, graph: Any) -> Sequence[Any]:
        """Append ops for all nodes in order; return the values of the output."""
        outputs: Sequence[Any] = ()
        for node in graph.nodes:
            if node.op == "output":
                results = node.args[0] if isinstance(node.args[0], list | tuple) else node.args
                outputs = [self._returned(x) for x in results]
            elif node.op == "get_attr":
                self.values[node.name] = Inner(self, getattr(graph.owning_module, node.target))
            elif node.op == "call_function":
                self.values[node.name] = self._kept(node, self._called(node))
        return outputs

    def _returned(self, x: Any) -> Any:
        value = self._operand(x)
        if is_complex(value):
            return self._lacking(x, str(x.target), COMPLEX_RESULT)
        return self._lacking(x, str(x.target), REASON) if isinstance(value, Picked) else value

    def _kept(self, node: Any, value: Any) -> Any:
        """Return the value of a node; of one that becomes a state and is read, too, the state outside training."""
        state = self.written.get(node.name)
        is_read = any(user.op != "output" for user in node.users)
        if state is None or not is_read or not isinstance(value, Arranged) or value.dtype != state.dtype:
            return value
        new = expanded(value, state.shape)
        return arranged(ops.when_training(plain(new), plain(state)))

    def _called(self, node: Any) -> Any:
        if node.target is operator.getitem:
            return self._part(node)
        if not hasattr(node.target, "namespace"):
            return self.sizes.value(node.meta["val"])
        name = str(node.target)
        if name in IGNORED:
            return None
        if name == "with_effects":  # a token, an operator, and its operands
            inner = str(node.args[1])
            return (None, None) if inner in IGNORED else self._lacking(node, inner, "has an effect besides its result")
        if name in NUMBERS_OF_RUNS:
            return Unsized(str(node.meta.get("val")))
        if name == "aten.sym_size.int":
            return self.sizes.value(node.meta["val"])
        return self._operator(node, name, [self._operand(x) for x in (*node.args, *node.kwargs.values())])

    def _part(self, node: Any) -> Any:
        """Return one result of an operator with several."""
        whole = self._operand(node.args[0])
        part = whole if whole is None or whole is MISSING else whole[node.args[1]]
        name = str(node.args[0].target)
        if part is None and whole is not None and node.users and name in OPERATORS:
            return self._lacking(node, name, f"gives no result {node.args[1]} here, which the module reads")
        return part

    def _operator(self, node: Any, name: str, operands: Sequence[Any]) -> Any:
        """Return the results of an operator, computed now if its operands are constants."""
        if any(_is_missing(x) for x in operands):
            return MISSING if name in OPERATORS else self._lacking(node, name, LACKING)
        if name == "aten.slice.Tensor" and len(operands) > 3 and isinstance(operands[3], Unsized):
            return self._mapped(node, name)  # it has the extent of its result
        if any(isinstance(x, Unsized) and not (x.expression and is_pointwise(node)) for x in operands):
            return self._lacking(node, name, "reads a number that is known only when the module runs")
        if not self._is_constant(node, name, operands):
            return self._mapped(node, name)
        try:
            return self._computed(node)
        except RuntimeError as error:  # of PyTorch, such as a number that does not fit the dtype
            return self._lacking(node, name, str(error).partition("\n")[0])

    def _lacking(self, node: Any, name: str, reason: str) -> Any:
        reason = f"{reason}; {REMEDIES[name]}" if reason == LACKING and name in REMEDIES else reason
        self.problems.append(problem_of(name, node, reason))
        return MISSING

    def _operand(self, x: Any) -> Any:
        if hasattr(x, "op") and hasattr(x, "users"):
            return self.values[x.name]
        if isinstance(x, list | tuple):
            return [self._operand(each) for each in x]
        return x

    def _is_constant(self, node: Any, name: str, operands: Sequence[Any]) -> bool:
        if (
            name in NEVER_CONSTANT
            or name in control.OPERATORS
            or any("nondeterministic" in str(tag) for tag in node.target.tags)
        ):
            return False
        return not any(_has_tensor(x) for x in operands)

    def _computed(self, node: Any) -> Any:
        """Return the results of a node as PyTorch computes them, for every trial of the symbols."""
        made = self._made(node)
        self._learn(node, made)
        if isinstance(made[0], tuple | list):
            results = self._results(node)
            return tuple(
                Constant(tuple(each), result.shape, self.store) for *each, result in zip(*made, results, strict=True)
            )
        if not hasattr(made[0], "shape"):
            return made[0]
        ops_of = partial(self._with_ops, node) if self.sizes.trials > 1 and str(node.target) in OPERATORS else None
        return Constant(tuple(made), self._results(node)[0].shape, self.store, ops_of)

    def _made(self, node: Any) -> list[Any]:
        """Return the results of a node in each trial; large trials are left out where they would make many elements."""
        given = [self._operand(x) for x in (*node.args, *node.kwargs.values())]
        counts = [len(x.trials) for x in _constants_in(given)]
        made: list[Any] = []
        operands: list[list[Any]] = []
        for i in range(min([self.sizes.trials, *counts])):
            if i >= SURE_TRIALS and self._is_large(node, i):
                break
            operands.append([*self._trial(node.args, i), *self._trial(node.kwargs, i).values()])
            if i and all(x is y for x, y in zip(operands[0], operands[i], strict=True)):
                made.append(made[0])
                continue
            try:
                made.append(node.target(*self._trial(node.args, i), **self._trial(node.kwargs, i)))
            except RuntimeError:
                if i < SURE_TRIALS:
                    raise
                break
        self._limit(str(node.target), operands[: len(made)], made)
        return made

    def _limit(self, name: str, operands: list[list[Any]], made: list[Any]) -> None:
        """Limit all symbols to sizes below the thresholds that no trial has reached."""
        if len(made) > 1 and hasattr(made[0], "reshape"):
            sizes = [max(trial.values()) for trial in self.sizes.sizes[: len(made)]]
            most = size_of_threshold(name, operands, made, sizes)
            self.sizes.most.extend([most] if most else [])

    def _is_large(self, node: Any, number: int) -> bool:
        """Return True if the results of a node would have many elements in a trial."""
        values = node.meta.get("val")
        shapes = [x.shape for x in (values if isinstance(values, tuple | list) else [values]) if hasattr(x, "shape")]
        try:
            extents = [product(self.sizes.shape(shape)) for shape in shapes]
        except CompileError:
            return True
        return any(extent.bound(self.sizes.sizes[number]) > MAX_TRIAL_ELEMENTS for extent in extents)

    def _with_ops(self, node: Any, block: Block) -> Any:
        """Return a constant as its operator computes it in the program."""
        outer, self.block = self.block, block
        try:
            made = self._appended(node, str(node.target), OPERATORS[str(node.target)])
        finally:
            self.block = outer
        if not isinstance(made, Arranged | Pair):
            raise CompileError(f"{node.target} of sizes is not imported")
        return made

    def _learn(self, node: Any, made: list[Any]) -> None:
        """Note the sizes of computed constants that torch.export takes for numbers of data."""
        values = node.meta["val"] if isinstance(node.meta["val"], tuple | list) else (node.meta["val"],)
        for i, value in enumerate(values):
            trials = [each[i] if isinstance(each, tuple | list) else each for each in made]
            for axis, size in enumerate(getattr(value, "shape", ())):
                self.sizes.learn(size, [trial.shape[axis] for trial in trials])

    def _trial(self, x: Any, number: int) -> Any:
        if isinstance(x, Mapping):
            return {key: self._trial(value, number) for key, value in x.items()}
        if isinstance(x, list | tuple):
            return [self._trial(each, number) for each in x]
        if hasattr(x, "op") and hasattr(x, "users"):
            return self._trial_of(self.values[x.name], number)
        return x

    def _trial_of(self, x: Any, number: int) -> Any:
        if isinstance(x, Constant):
            return x.trials[number]
        if isinstance(x, Unsized):
            return x.in_trial(number)
        return x.bound(self.sizes.sizes[number]) if isinstance(x, Extent) else x

    def _results(self, node: Any) -> tuple[Result, ...]:
        values = node.meta["val"]
        listed = values if isinstance(values, tuple | list) else (values,)
        return tuple(
            Result(str(value.dtype).removeprefix("torch."), self.sizes.shape(value.shape))
            for value in listed
            if value is not None
        )

    def _mapped(self, node: Any, name: str) -> Any:
        mapping = OPERATORS.get(name)
        if mapping is None:
            return self._lacking(node, name, LACKING)
        path = module_path(node) or self.path
        self.block.prefix = f"{path}." if path else ""
        self.block.at(self.locate(node))
        try:
            require_contiguous(node, name)
            return rounded(node, self._appended(node, name, mapping))
        except ProgramError as error:
            return self._lacking(node, name, str(error))
        except (AttributeError, IndexError, TypeError, ValueError) as error:  # an operand of a kind not thought of
            return self._lacking(node, name, f"is called in a way that is not imported ({error})")
        finally:
            self.block.prefix = ""
            self.block.at(None)

    def _appended(self, node: Any, name: str, mapping: Any) -> Any:
        """Return the results of a mapping; masks that are constants become numbers of positions."""
        args, mask = [self._operand(x) for x in node.args], None
        if name in SQUEEZES and isinstance(args[0], Arranged):
            self.sizes.above_one.update(squeezed_symbols(args[0], args[1:]))
        if name == "aten.masked_select.default":
            args, name = selected(self._lifted(args[0]), args[1]), "aten.index.Tensor"
            mapping = OPERATORS[name]
        if name in INDEXED:
            args[1], mask = self._masks(node, args[1])
        if mask is not None and name != "aten.index_put.default":
            self.sizes.pick(node.meta["val"].shape[0], product(mask.shape))
            return picked(self._lifted(args[0]), mask)
        if mask is not None:
            return written(self._lifted(args[0]), mask, *(self._lifted(x) for x in args[2:]))
        return self._applied(node, name, mapping, args)

    def _applied(self, node: Any, name: str, mapping: Any, args: list[Any]) -> Any:
        """Return the results of a mapping, or of its replacement for complex and for picked operands."""
        call = Call(self.block, self._results(node), self.in_evaluation, self.store)
        given = [self._given(x, name) for x in args]
        more = {key: self._given(self._operand(x), name) for key, x in node.kwargs.items() if key not in PLACES}
        if name not in fourier.OPERATORS and (is_complex(given) or call.dtype in PARTS):
            return complex_result(call, name, mapping, given, more)
        wide = in_float32(name, call, given, more)
        special = folded(node, self.values, call) if wide[0] == call else None
        call, given, more = wide

        def mapped() -> Any:
            return mapping(call, *given, **more) if special is None else special

        if not any(_has(x, Picked) for x in args):
            return mapped()
        lifted = [x if isinstance(x, Picked) else y for x, y in zip(args, given, strict=True)]
        return computed(call, name, mapping, lifted, mapped, each=is_pointwise(node))

    def _masks(self, node: Any, indices: Any) -> tuple[list[Any], Arranged | None]:
        """Return indices with constant masks as positions; and the mask of data that alone picks the first axes."""
        made: list[Any] = []
        for x in indices:
            if not isinstance(x, Constant) or x.dtype != "bool":
                made.append(x)
                continue
            found = [trial.nonzero(as_tuple=True) for trial in x.trials]
            counts = [len(each[0]) for each in found]
            if len({*counts}) > 1:
                raise CompileError("a mask picks a number of rows that depends on a size; import without that symbol")
            for size in node.meta["val"].shape:
                if str(size).startswith("u"):
                    self.sizes.learn(size, counts)
            made += [Constant(axis, (Extent(counts[0]),), self.store) for axis in zip(*found, strict=True)]
        [*_, last] = made
        alone = isinstance(last, Arranged) and last.dtype == "bool" and all(x is None for x in made[:-1])
        return made, last if alone and len(made) == 1 else None

    def _lifted(self, x: Any) -> Any:
        return x.tensor(self.block) if isinstance(x, Constant) else x

    def _given(self, x: Any, name: str) -> Any:
        if isinstance(x, Picked):
            return x.tensor
        if isinstance(x, Unsized):
            return x.counted(self.block) if x.expression else x
        if isinstance(x, Constant) and x.dtype in PARTS:
            return pair_of(x, self.block)
        if isinstance(x, Constant):
            return x if name in SEES_CONSTANTS else x.tensor(self.block)
        if isinstance(x, list):
            return [self._given(each, name) for each in x]
        return x.number if isinstance(x, Extent) and not x.symbols else x


MAX_TRIAL_ELEMENTS: Final = 1 << 18
"""Largest number of elements that a constant has in the trials of other sizes than those of the examples."""

INDEXED: Final = {
    "aten.index.Tensor", "aten._unsafe_index.Tensor", "aten.index_put.default", "aten._unsafe_index_put.default",
}  # fmt: skip
"""Operators whose second operand is a list of indices, masks among them."""

PLACES: Final = {"device", "layout", "pin_memory", "memory_format", "dtype", "requires_grad", "non_blocking", "copy"}
"""Keywords that say where and how a tensor is stored; dtypes are those of the result."""

LACKING: Final = "has no counterpart"
"""Reason of a problem."""

COMPLEX_RESULT: Final = "makes a complex result, which no program returns; return torch.view_as_real of it"
"""Reason of a problem."""

MISSING: Final = object()
"""The value of a node that could not be imported, and of all that depend on it."""


def _is_missing(x: Any) -> bool:
    return x is MISSING or (isinstance(x, list) and any(map(_is_missing, x)))


def _has_tensor(x: Any) -> bool:
    if isinstance(x, list | tuple):
        return any(map(_has_tensor, x))
    return isinstance(x, Arranged | Picked | Pair)


def _constants_in(x: Any) -> Iterator[Constant]:
    """Yield the constants among operands, also those in lists."""
    if isinstance(x, Constant):
        yield x
    elif isinstance(x, list):
        for each in x:
            yield from _constants_in(each)


def _has(x: Any, kind: type) -> bool:
    return isinstance(x, kind) or (isinstance(x, list) and any(_has(each, kind) for each in x))


@dataclass(frozen=True, eq=False)
class Inner:
    """A graph that an operator of control flow runs, as a function of its operands.

    Attributes:
        outer: the walk that met the operator.
        module: the graph with the graphs inside it.
    """

    outer: Walk
    module: Any

    @property
    def graph(self) -> Any:
        """The nodes."""
        return self.module.graph

    def __call__(self, *operands: Any) -> list[Value]:
        """Append the ops of the graph to the block that is being built; return the results in the model's order."""
        outer, block = self.outer, self.outer.block.root.active
        names = [node.name for node in self.graph.nodes if node.op == "placeholder"]
        values = dict(zip(names, operands, strict=True))
        location, path = outer.block.location(), outer.block.prefix.removesuffix(".")
        walk = Walk(
            block,
            outer.sizes,
            outer.store,
            lambda node: outer.locate(node) or location,
            values,
            outer.problems,
            path,
            in_evaluation=outer.in_evaluation,
        )
        made = walk.walk(self.graph)
        [*_, end] = self.graph.nodes
        given = end.args[0] if isinstance(end.args[0], list | tuple) else end.args
        return [self._result(block, x, node) for x, node in zip(made, given, strict=True)]

    def _result(self, block: Block, x: Any, node: Any) -> Value:
        if isinstance(x, Constant):
            return plain(x.tensor(block))
        if isinstance(x, Arranged):
            return plain(x)
        value: Any = getattr(node, "meta", {}).get("val")
        if x is not MISSING or not hasattr(value, "shape"):
            raise CompileError(f"a graph inside returns {x!r}, which is no tensor")
        # the problem is recorded: with a tensor in its place, the walk finds further problems
        shape = tuple(extent.plain() for extent in self.outer.sizes.shape(value.shape))
        return ops.full.on(block)(shape=shape, value=0, dtype=str(value.dtype).removeprefix("torch."))  # pyright: ignore[reportArgumentType]: a dtype
