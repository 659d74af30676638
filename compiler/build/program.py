"""Program: builds a training run, op by op, and compiles it into one file."""

from __future__ import annotations

import json
import os
from collections import ChainMap
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import wraps
from inspect import Parameter, signature
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Final, Literal, Never, ParamSpec, TypeVar, cast

from compiler.analyses.lifespans import Lifespan, declare_lifespan
from compiler.build.asked_names import require_names
from compiler.build.assembly import Built, assembled
from compiler.build.brought_arrays import Brought
from compiler.build.compiled import Compiled, compile_program
from compiler.build.crossed_rows import require_rows_apart
from compiler.build.data import data_desc, is_outside, run_desc, settle_best
from compiler.build.declarations import Over, declared_state, declared_type, require_dtype, require_no_unnamed
from compiler.build.last_batch import with_last_batch
from compiler.build.locations import Locations, line_here
from compiler.build.mixed import Mixed, with_mixed
from compiler.build.opened import Opened, next_stream, opened, read_program, training_block
from compiler.build.other_words import no_argument_of_program, no_attribute_of_program
from compiler.build.quantized_training import Qat, with_qat
from compiler.build.reports import Reports, require_of
from compiler.build.scopes import Scopes
from compiler.build.setting_numbers import asked_interval, declared_setting, known_settings, require_number
from compiler.build.state_table import StateTable
from compiler.build.whole_numbers import require_whole
from compiler.errors import CompileError
from compiler.passes.leave_frozen import mark
from compiler.passes.pass_table import PassTable
from compiler.passes.pipeline import PASSES
from compiler.passes.run_passes import no_garbage_collection
from compiler.train.adapters import MAGNITUDE, with_adapters
from compiler.train.averages import Average
from compiler.train.clipping import Clip
from compiler.train.descent import Descent
from compiler.train.fixed_statistics import fix_statistics
from compiler.train.initialisers import FromFile, Initialiser, constant, glorot_uniform, zeros
from compiler.train.metrics.metric import Metric
from compiler.train.optimizers import Optimizer
from compiler.train.parameter_groups import Group
from compiler.train.plateaus import settle_plateaus
from compiler.train.shards import mark_shards
from compiler.train.weighted_means import warn_of_different_weights, weight_of, weights_in
from prograd_proto import ProgramError, TensorType, type_of
from prograd_proto import program_pb2 as pb
from prograd_proto.argument_kinds import with_kinds
from prograd_proto.dtypes import REALS, DTypeName
from prograd_proto.entry_views import STRINGS_KEY
from prograd_proto.settings import written
from prograd_proto.spelling import closest
from registry import Block, OpError, Value
from registry.arrays import constant_of, is_array
from registry.block import Setting, streams_from
from registry.errors import Located
from registry.value import HasElements

if TYPE_CHECKING:
    from runtime.runs.run import Run

P = ParamSpec("P")
R = TypeVar("R")

_POSITIONAL: Final = (Parameter.POSITIONAL_ONLY, Parameter.VAR_POSITIONAL)


def _with_the_line(method: Callable[Concatenate[Program, P], R]) -> Callable[Concatenate[Program, P], R]:
    """Let the errors of a method begin with the user's line, also those of unknown arguments."""
    taken = signature(method).parameters
    checked = with_kinds(OpError)(method)
    known = [name for name, parameter in taken.items() if name != "self" and parameter.kind not in _POSITIONAL]
    open_ended = any(parameter.kind is Parameter.VAR_KEYWORD for parameter in taken.values())

    @wraps(method)
    def call(self: Program, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with Located(lambda: self.locations.text(self.locations.here())):
            if not open_ended:
                for name in kwargs:
                    if name not in known:
                        raise OpError(no_argument_of_program(method.__name__, name, known))
            return checked(self, *args, **kwargs)

    return call


class Program:
    """A training run under construction.

    Tensors are made by `input`, `parameter`, `buffer`, `constant` and by calling operators of `compiler.ops`.
    `minimize` appends gradients and updates, `data` and `training` say what executing the file does, `compile` binds
    symbolic sizes and runs the passes.
    """

    def __init__(self, name: str = "program", *, seed: int = 0) -> None:
        require_whole("Program", least=None, seed=seed)
        self.name = name
        self.seed = seed
        self.data_desc: pb.DataDesc | None = None
        self.folder = Path()  # from which the paths of initial values count
        self.rows_folder = ""  # path from the folder of the program to another folder that has its rows
        self.run_desc: pb.RunDesc | None = None
        self.arrays: dict[str, dict[str, Any]] = {}  # by path and key: initial values that `save` writes beside it
        self.outputs_of_module: list[str] = []  # names of an imported module's results
        self._bfloat16_order = pb.BFLOAT16_ORDER_UNSPECIFIED
        self.mixed_of_import: Mixed | str | None = None  # mixed precision that the import was asked for
        self.notes_of_import: list[str] = []  # changes that the exporter of an imported file made to its weights
        self.tensors_of_file: list[Any] = []  # weights of an imported file: name, shape, trained, reason
        self.texts_of_model: dict[str, str] = {}  # descriptions in an imported model, by key
        self.limits: dict[str, pb.SymbolLimits] = {}  # sizes that an imported model was traced for, by symbol
        self.locations = Locations()
        self._run_line = ""
        self._opened = Opened()
        self._streams = streams_from(1)
        self._states = StateTable(self.locations.here, self._streams)
        self.states = self._states.descs
        self._scopes = Scopes()
        self._recomputed: list[str] = []
        self._updates: dict[str, Value] = {}
        self._averages: dict[str, Average] = {}
        self._plateaus: list[pb.PlateauDesc] = []
        self._losses: dict[str, str] = {}  # for each gradient that minimize took, its loss
        self._loss_weights: dict[str, set[str]] = {}  # weights that minimize was given, by loss
        self._block = self._growing(pb.BlockDesc())
        self._reports = Reports(self._block, self._new_total)
        for counter in ("seed", "step", "total_steps"):
            self._states.add(counter, TensorType("int64", ()), pb.STATE_KIND_COUNTER)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Program:
        """Return a program file as a starting point for building, with its tensors, states, entries, data and run.

        `program["hidden.w"]` is a tensor by its name; `program.fetched()` has those that training reports. Ops that
        only other entries compute have their inference form. The program can be extended like a new one, and `compile`
        binds the sizes of the file unless it is given others. Without additions the result equals the file, except for
        a plan with a budget or for threads: call `Compiled.plan` again.

        Raises ProgramError, beginning with the path, for a file that is no program, needs a plugin that is not in use,
        was written without its source blocks, or trains with another entry than `train`.
        """
        desc = read_program(path)
        program = cls(desc.name, seed=desc.seed)
        program.folder = Path(path).parent
        program._restore(desc)
        return program

    def __repr__(self) -> str:
        feeds = [p.feed for p in self._block.desc.parameters if p.WhichOneof("source") == "feed"]
        kept = [type_of(state) for state in self.states.values() if state.kind != pb.STATE_KIND_COUNTER]
        elements = sum(prod(type.static_shape) for type in kept)
        return (
            f"<Program {self.name!r}: inputs {', '.join(feeds) or 'none'}; "
            f"{len(kept)} states with {elements:,} elements; {len(self._block.desc.ops):,} ops>"
        )

    def _ipython_key_completions_(self) -> list[str]:
        return [*self.states, *self._block.types]

    def _repr_html_(self) -> str:
        """Return the summary for a notebook, or the part of it that is known so far."""
        from html import escape

        try:
            text = self.summary()
        except ProgramError:
            text = repr(self)
        return f"<pre>{escape(text)}</pre>"

    def summary(self) -> str:
        """Return tables of the layers and entries so far, as text; `compiler summary` prints those of a file.

        Raises CompileError for a program that computes nothing, or a parameter that is never trained.
        """
        from compiler.analyses.summary import summary  # for callers

        return summary(self._assembled())

    def __getitem__(self, name: str) -> Value:
        """Return the tensor of that name, as `tensor` does."""
        return self.tensor(name)

    @_with_the_line
    def tensor(self, name: str) -> Value:
        """Return the tensor with this name, or the tensor of the state with this name.

        Raise OpError if there is none.
        """
        if name in self._block.types:
            return self._block.value(name)
        if name in self.states:
            return self.state(name)
        raise OpError(f"there is no tensor and no state {name!r}{closest(name, [*self.states, *self._block.types])}")

    @with_kinds(OpError)
    def freeze(self, *patterns: str, statistics: bool = False) -> list[str]:
        """Freeze the parameters whose names match a pattern such as "encoder.*", and return their names.

        The updates stay in the program: `compile` leaves out updates, slots and gradients of frozen parameters, until
        `thaw`. Running statistics are still updated, unless `statistics` is True: normalisations whose statistics match
        a pattern then take them in training, too, and none is updated, also after `thaw`. Call it before `minimize`
        then. Raises OpError if a pattern matches none.
        """
        if statistics and self._block.differentiations:
            raise OpError("freeze: statistics=True comes before minimize and gradients, which would not see it")
        frozen = mark(self.states.values(), patterns, trainable=False)
        return [*frozen, *fix_statistics(self._block, self._updates, patterns)] if statistics else frozen

    @with_kinds(OpError)
    def thaw(self, *patterns: str) -> list[str]:
        """Train frozen parameters again and return their names. Raise OpError if a pattern matches none."""
        return mark(self.states.values(), patterns, trainable=True)

    @_with_the_line
    def lora(self, *patterns: str, r: int = 8, alpha: float | None = None, dora: bool = False) -> list[str]:
        """Add low-rank adapters to matching weights, freeze all parameters but adapters, and return the weights.

        A product x @ W becomes x @ W + alpha / r * (x @ A) @ B, and any other op that reads W reads
        W + alpha / r * A @ B. A and B are the parameters `W.lora_a` and `W.lora_b`; one of them begins with zeros. Call
        it after the forward pass and before `minimize`; `thaw` trains other parameters too. `to_onnx` and
        `compiler merge` add the products to the weights. Hu et al., 2021.

        Args:
            *patterns: names of weights of two axes or more, such as "attention.*"; the last word of a name may be left
                out, and the first ones if no whole name matches.
            r: the rank, at most the smaller side of each matrix.
            alpha: the factor of the product is alpha / r; r unless given, for the factor 1.
            dora: also train a magnitude for each output, the parameter `W.lora_magnitude`, as DoRA does (Liu et al.,
                2024): x @ W' has the weights W' = W + alpha / r * A @ B, of each output scaled to this norm.

        Raises OpError if nothing matches, if a rank is too large, or after `minimize`; and with `dora` for weights
        that other ops than products read, or whose values are not known yet.
        """
        if not patterns:
            raise OpError('lora: name the weights that get adapters, as in lora("*.q_proj", "*.v_proj", r=8)')
        if self._block.differentiations or any(self.states[name].trainable for name in self._updates):
            raise OpError("lora: adapters come before minimize and gradients, which would not see them")
        return with_adapters(
            self._states,
            self._blocks(),
            self.state,
            patterns,
            rank=r,
            alpha=alpha,
            norms=self._norms_of_outputs if dora else None,
        )

    def _norms_of_outputs(self, weight: str, outputs_first: bool) -> FromFile:
        """Keep the norms of the weights of each output as initial values, and return where; see `lora`."""
        from compiler.quantization.quantized import Stored, norms_of  # brings NumPy

        path, name = f"{self.name}.weights.safetensors", f"{weight}.{MAGNITUDE}"
        if path not in self.arrays and any(state.external.path == path for state in self.states.values()):
            path = f"{self.name}.magnitudes.safetensors"  # a file of the former name came with the opened program
        norms = norms_of(Stored(self.states, self.arrays, self.folder), weight, 1 if outputs_first else 0)
        self.arrays = {**self.arrays, path: {**self.arrays.get(path, {}), name: norms}}
        return FromFile(path, name)

    @_with_the_line
    def quantize(
        self,
        weights: str = "q8_0",
        *,
        keep: Sequence[str] = (),
        values: Mapping[str, Any] | None = None,
        run: Run | None = None,
        rows: str | Mapping[str, Any] | None = None,
        percentile: float | None = None,
    ) -> list[str]:
        """Store weights as codes of 8 or 4 bits in blocks of 32 that share a scale, and return their names.

        The weights are all parameters of two axes or more whose last axis is a multiple of 32. A weight W becomes the
        buffers `W.codes` and `W.scales`, which `dequantize` widens where ops read it; it is not trained any more, and a
        program that trained it keeps its other entries only. Adapters of frozen weights are trained as before: call it
        after `lora` and before `minimize`.

        Args:
            weights: "q8_0" takes 8.5 bits for a number, "q4_0" takes 4.5; GGUF has the same forms. With "int8",
                products, convolutions and recurrent layers multiply integers of 8 bits; it needs a `run`.
            keep: names of parameters that stay as they are, such as "head.*"; the last word may be left out.
            values: the values of states by name, such as `run.state`, with which all parameters and buffers then begin;
                otherwise those that the program brings, or the files that it names.
            run: for "int8", a run of the same program, whose states are the values; the entry `predict`, or `evaluate`,
                computes the ranges of what weights multiply.
            rows: a split, or an array per feed: the first 1024 rows give the ranges; by default all of the data.
            percentile: percentage of numbers within a range, as 99.9; by default all.

        Raises OpError if nothing is quantised, or for a weight that has no values, or values that no codes stand for.
        """
        from compiler.quantization.forms import Calibration, form_of  # brings NumPy
        from compiler.quantization.quantized import Stored

        blocks, stored = self._blocks(), Stored(self.states, self.arrays, self.folder)
        form = form_of(weights, stored, [block.desc for block in blocks], keep, Calibration(run, rows, percentile))
        chosen = form.chosen
        brought, numbers = form.values(run.states.arrays if values is None and run is not None else values)
        coded = {name: form.codes_of(name, array) for name, array in numbers}
        if any(name in self._updates for name in chosen):
            self._stop_training()
        path, types = f"{self.name}.weights.safetensors", dict[str, list[TensorType]]()
        for name in chosen:
            types[name] = []
            for own, array in coded.pop(name).items():
                type = TensorType(array.dtype.name, array.shape)
                self._states.add(own, type, pb.STATE_KIND_BUFFER, FromFile(path, own))
                types[name].append(type)
                brought[own] = array
            del self.states[name]
        for name in form.dropped:
            del self.states[name], brought[name]
        self.arrays = {path: brought}
        for name in brought:
            self.states[name].ClearField("initial")
            self.states[name].external.path, self.states[name].external.key = path, name
        for block in blocks:
            form.rewrite(block, types)
        return chosen

    def _blocks(self) -> list[Block]:
        """Return the growing block and the blocks of kept entries.

        All of them number the blocks inside ops in the same way.
        """
        kept = [Block(each.block) for each in self._opened.kept.values()]
        for block in kept:
            block.bodies = self._block.bodies
        return [self._block, *kept]

    def _stop_training(self) -> None:
        """Remove the updates, the reports of training and the states of optimizers.

        Of the run, the evaluation remains.
        """
        self._updates.clear()
        self._averages.clear()
        self._plateaus.clear()
        self._reports.train.clear()
        self._reports.losses.clear()
        asked = None if self.run_desc is None else self.run_desc.evaluate
        self.run_desc = None
        if asked is not None and asked.entry:
            evaluate = pb.EvaluateDesc(entry=asked.entry, split=asked.split, every=1)
            self.run_desc = pb.RunDesc(entry=asked.entry, epochs=1, split=asked.split, evaluate=evaluate)
        for name in [name for name, state in self.states.items() if state.kind == pb.STATE_KIND_SLOT]:
            del self.states[name]

    @property
    def strings_of_model(self) -> tuple[str, ...]:
        """The strings of an imported model by their codes; the program computes with the codes."""
        return tuple(json.loads(self.texts_of_model.get(STRINGS_KEY, "[]")))

    @property
    def tensors(self) -> dict[str, Value]:
        """Return all tensors by name, in the order of their definitions; `states` describes the states."""
        return {name: self._block.value(name) for name in self._block.types}

    def fetched(self, entry: str = "train") -> dict[str, Value]:
        """Return the tensors that an entry reports, by name. Raise OpError if there is no such entry."""
        added = self._reports.train if entry == "train" else self._reports.entries.get(entry)
        if added is None:
            raise OpError(f"there is no entry {entry!r}{closest(entry, ['train', *self._reports.entries])}")
        return self._opened.fetched(entry, self._block) | {name: value for name, (value, _) in added.items()}

    @property
    def symbols(self) -> list[str]:
        """The symbols of the inputs, which `compile` binds, in the order of their first use."""
        shapes = [
            self._block.types[p.tensor].shape for p in self._block.desc.parameters if p.WhichOneof("source") == "feed"
        ]
        return list(dict.fromkeys(extent for shape in shapes for extent in shape if isinstance(extent, str)))

    @property
    def block(self) -> Block:
        """The training block under construction."""
        return self._block

    @_with_the_line
    def scope(self, name: str, *, reuse: bool = False) -> AbstractContextManager[None]:
        """Return a context that prefixes names of parameters, buffers and results of ops with `name` and a dot.

        Scopes may be nested. With `reuse`, an existing parameter or buffer of the same type is used again, so a
        function that declares its states may be called twice. `scope("", reuse=True)` adds no prefix.
        """
        return self._scopes.entered(self._block, name, reuse=reuse)

    @_with_the_line
    def input(self, name: str, dtype: DTypeName, shape: Sequence[int | str]) -> Value:
        """Return a tensor that is fed at every step; extents that are strings are bound by `compile`."""
        self._require_outside("input", "declare the input before the loop, and use it in its function")
        value = self._block.define(name, declared_type(f"input {name!r}", name, dtype, shape, self._names()))
        self._block.desc.parameters.add(tensor=name, feed=name)
        return value

    @_with_the_line
    def parameter(
        self,
        name: str,
        shape: Sequence[int],
        initial: Initialiser | FromFile | None = None,
        *,
        dtype: DTypeName = "float32",
        trainable: bool = True,
        rate_scale: float = 1.0,
        decay_scale: float = 1.0,
    ) -> Value:
        """Return a state that is trained; it starts with Glorot's uniform values unless `initial` is given.

        Args:
            name: name of the state, after those of the open scopes; unique in the program.
            shape: static extents.
            initial: one of compiler.train.initialisers.
            dtype: float32 or float64. float16 and bfloat16 take half the memory and are read through `cast`; their
                updates are computed in float32 and rounded, so an update below half of the last digit is lost.
            trainable: False freezes it: no gradient, no update.
            rate_scale: factor of the learning rate.
            decay_scale: factor of the weight decay.
        """
        name = self._scopes.named(name)
        if self._scopes.has(f"parameter {name!r}", self.states.get(name), pb.STATE_KIND_PARAMETER, dtype, shape):
            return self.state(name)
        type = declared_state(f"parameter {name!r}", name, dtype, shape, initial, self._names())
        if dtype not in REALS:
            raise OpError(f"parameter {name!r}: {dtype} cannot be trained; use float32 or float64, or a buffer")
        state = self._states.add(name, type, pb.STATE_KIND_PARAMETER, initial or glorot_uniform())
        state.trainable, state.rate_scale, state.decay_scale = trainable, rate_scale, decay_scale
        return self.state(name)

    @_with_the_line
    def buffer(
        self,
        name: str,
        shape: Sequence[int],
        initial: Initialiser | FromFile | None = None,
        *,
        dtype: DTypeName = "float32",
        lifespan: Literal["always", "epoch"] = "always",
    ) -> Value:
        """Return a state that is not trained, zeros unless `initial` is given; `update` changes it.

        With lifespan "epoch" it returns to its initial value at the start of each epoch.
        """
        name = self._scopes.named(name)
        if self._scopes.has(f"buffer {name!r}", self.states.get(name), pb.STATE_KIND_BUFFER, dtype, shape):
            return self.state(name)
        type = declared_state(f"buffer {name!r}", name, dtype, shape, initial, self._names())
        if lifespan not in ("always", "epoch"):
            raise OpError(f"buffer {name!r}: lifespan={lifespan!r} is neither 'always' nor 'epoch'")
        state = self._states.add(name, type, pb.STATE_KIND_BUFFER, initial or zeros())
        state.lifespan = pb.LIFESPAN_EPOCH if lifespan == "epoch" else pb.LIFESPAN_ALWAYS
        return self.state(name)

    @_with_the_line
    def setting(
        self,
        name: str,
        value: float,
        *,
        least: float | None = None,
        most: float | None = None,
        above: float | None = None,
        below: float | None = None,
        dtype: Literal["float64", "float32", "int64"] = "float64",
    ) -> Value:
        """Return a number that a run may replace without compiling: `runtime execute --set name=value`.

        It may be used as a number: as a rate or within a schedule, as `decay` of an optimizer, as a limit of gradients,
        as the rate of `layers.dropout`, as an operand. It adopts the dtype of the other float operands.

        Args:
            name: name of the setting, after those of the open scopes; unique in the program.
            value: the default.
            least: the smallest valid number; a use adds its own bound, as a rate adds 0.
            most: the largest valid number.
            above: an exclusive lower bound.
            below: an exclusive upper bound.
            dtype: dtype of the stored value.
        """
        name = self._scopes.named(name)
        what = f"setting {name!r}"
        if self._scopes.has(what, self.states.get(name), pb.STATE_KIND_COUNTER, dtype, ()):
            return self.state(name)
        type = declared_setting(what, name, dtype, self._names())
        interval = asked_interval(what, least=least, most=most, above=above, below=below)
        require_number(what, value, interval, dtype)
        self._states.add(name, type, pb.STATE_KIND_COUNTER, constant(float(value))).slot = written(interval)
        self._block.settings[name] = Setting(float(value), interval)
        self._block.weak.add(name)
        return self.state(name)

    @_with_the_line
    def constant(self, value: float | Sequence[Any] | HasElements, dtype: DTypeName = "float32") -> Value:
        """Return a tensor with the elements of a number, a list or an array, of at most 64 KiB, in `dtype`."""
        require_dtype("constant", dtype)
        if is_array(value):
            return constant_of(self._block, dtype, value)
        return self._block.constant(dtype, cast(float, value))

    @_with_the_line
    def state(self, name: str) -> Value:
        """Return the tensor that stands for a state: its value at the start of the step."""
        if name not in self.states:
            raise OpError(f"there is no state {name!r}{closest(name, self.states)}")
        if name not in self._block.state_tensors:
            self._block.define(name, type_of(self.states[name]))
            self._block.desc.parameters.add(tensor=name, state=name)
            self._block.state_tensors.add(name)
        return self._block.value(name)

    @_with_the_line
    def update(self, state: Value, value: Value) -> None:
        """Set the new value of a state at the end of each training step; a later call replaces it."""
        if not isinstance(state, Value):  # pyright: ignore[reportUnnecessaryIsInstance]: users may not check types
            raise OpError(
                f"update: {state!r} is not a tensor of a program; program.state({state!r}) gives that of a name"
            )
        self._require_outside("update", "let its function return the new value, and update the state with the result")
        if state.name not in self.states or state.block is not self._block:
            raise OpError(f"update: {state!r} is not a state of this program")
        self._require_own("update", value)
        if state.type != value.type:
            raise OpError(f"update: {value!r} cannot become the value of the state {state!r}; the types differ")
        followers = self._opened.followers(state.name, self._updates)
        if followers:
            raise OpError(
                f"update: in the file, {', '.join(followers)} follows what {state!r} becomes, as averages do; "
                "to change that, build the program anew"
            )
        self._updates[state.name] = value

    @_with_the_line
    def lifespan(self, value: Value, lifespan: Lifespan) -> None:
        """Declare how long `value` is needed; `compile` refuses a program that reads it beyond that.

        Args:
            value: any tensor, or the tensor of a state.
            lifespan: for a tensor "forward" (defined and read by forward ops only), "backward" (by other ops only) or
                "iteration" (by all ops and the end of the step); for a buffer "epoch" or "always".
        """
        self._require_own("lifespan", value)
        declare_lifespan(value, self.states.get(value.name), lifespan)

    @_with_the_line
    def minimize(
        self,
        loss: Value,
        optimizer: Optimizer,
        parameters: Sequence[Value] | None = None,
        *,
        groups: Sequence[Group] = (),
        clip: Clip | None = None,
        accumulate: int = 1,
        no_grad: Sequence[Value | str] = (),
        name: str = "loss",
        weight: Value | None = None,
    ) -> list[tuple[Value, Value]]:
        """Append the gradients of the loss and the optimizer's updates.

        All gradients are at the states' values at the start of the step. A parameter that two losses train is
        updated by the first optimizer and then, from there, by the second.

        Args:
            loss: a rank-0 float tensor.
            optimizer: one of compiler.train.optimizers.
            parameters: the parameters to train; by default every trainable one that the loss depends on.
            groups: pairs of parameters and the optimizer that trains them in place of `optimizer`.
            clip: limits the gradients of all parameters, before an optimizer limits those that it trains.
            accumulate: the steps whose mean gradient makes one update. Optimizers count updates, schedules steps. Each
                step is weighted by its labels that count in the loss, or by `weight`, as the rows of one batch are.
            no_grad: tensors, or their names, that block the gradient; parameters among them are not trained.
            name: the name of the loss in reports of training and `evaluate`. The rate is reported as `rate`, or as
                `<name>_rate` for a loss of another name.
            weight: a scalar, the weight of a step's loss in an evaluation and among accumulated steps, such as the
                number of unmasked elements; by default the number of labels that count in the loss, else the rows.

        Returns:
            The trained parameters with their gradients of this step, before clipping.

        Raises:
            CompileError: the loss is no scalar, does not depend on a given parameter or on any, or an op has no
                gradient.
            OpError: a broadcast pairs the predictions of each row with the labels of all rows.
        """
        if not isinstance(parameters, list | tuple | None):
            raise CompileError(f"minimize: parameters={parameters!r} is no list of parameters")
        for value in (loss, *(parameters or ()), *(() if weight is None else (weight,))):
            self._require_own("minimize", value)
        if weight is not None and weight.rank != 0:
            raise OpError(f"minimize: weight={weight!r} is not a scalar; take ops.sum(weight)")
        require_rows_apart(self._block, loss)
        descent = Descent(self._block, self._states, self._updates, self.update, self._free_state)
        counted = weight if weight is not None else weight_of(loss)
        pairs, rates = descent.append(loss, optimizer, parameters, groups, clip, accumulate, no_grad, counted)
        if accumulate > 1 and weight is None:
            warn_of_different_weights(loss, accumulate)
        self._losses.update((dw.name, loss.name) for _, dw in pairs)
        if weight is not None:
            self._loss_weights[loss.name] = {weight.name}
        self._reports.loss(name, loss, weight)
        for rate in rates:
            self._reports.fetch(self._reports.free("rate" if name == "loss" else f"{name}_rate"), rate, "last")
        return pairs

    def recompute(self, *scopes: str) -> None:
        """Run the forward ops of scopes again in the backward pass, in place of keeping their results.

        Each scope that a pattern matches, such as "layers.*", is computed again from its inputs, right before its
        gradients. The step takes less memory and up to one more forward pass; no bit of a result changes. `compile`
        applies it, and raises CompileError for a pattern that matches no scope; `plan` prints the memory. Scopes are
        the beginnings of the names of tensors, which `program.scope` makes. Chen et al., 2016.
        """
        if not scopes:
            raise OpError('recompute: name the scopes that run again, as in recompute("layers.*")')
        self._recomputed += scopes

    @_with_the_line
    def average(
        self,
        decay: float,
        parameters: Sequence[Value] | None = None,
        *,
        every: int = 1,
        entries: Sequence[str] = ("evaluate", "predict"),
    ) -> list[Value]:
        """Keep the exponential moving averages of parameters, and compute with them outside training.

        After each step that counts, the average is decay * average + (1 - decay) * the new parameter, as in Polyak
        and Juditsky, 1992; at first it is the parameter's initial value. Averages of 16-bit parameters are float32, and
        are rounded where they replace the parameters.

        Args:
            decay: weight of the old average.
            parameters: the parameters to average; by default every trainable one declared so far.
            every: the period in steps, for instance that of `accumulate`.
            entries: the entries in which the averages replace the parameters.

        Returns:
            The averages, as states.
        """
        require_whole("average", least=None, every=every)
        if not 0 <= decay < 1 or every < 1:
            raise OpError(f"average: decay={decay} and every={every}; they are in [0, 1) and from 1")
        if every > 1:
            self.state("step")
        made: list[Value] = []
        for w in map(self.state, self._states.trainable()) if parameters is None else parameters:
            self._require_own("average", w)
            if w.name not in self.states or w.name in self._averages:
                raise OpError(f"average: {w!r} is no parameter, or is averaged already")
            state = self._states.add(self._free_state(f"{w.name}.average"), w.type.wide, pb.STATE_KIND_BUFFER)
            self._states.begin_like(state, w.name)
            self._averages[w.name] = Average(state.name, decay, every, tuple(entries))
            made.append(self.state(state.name))
        return made

    @_with_the_line
    def fetch(self, name: str, value: Value | Metric, *, over: Over = "last") -> None:
        """Report `value` from training under that name; `over` reduces it over an epoch: last, mean by rows, or sum.

        A metric is reported over all rows of the epoch so far.
        """
        self._reports.fetch(name, value, over)

    @_with_the_line
    def metrics(self, *unnamed: Never, **values: Value | Metric) -> None:
        """Report these values from training and from the entry `evaluate`.

        Scalars are averaged over steps, weighted by rows, or by the labels that count in a loss. The metrics of
        `compiler.train.metrics` cover all rows so far of the epoch or the evaluation, and may have any shape.
        """
        require_no_unnamed("metrics", unnamed, "accuracy")
        for name, value in values.items():
            self._reports.metric(name, value)

    @_with_the_line
    def outputs(self, *unnamed: Never, **values: Value) -> None:
        """Set the tensors that the entry `predict` computes."""
        require_no_unnamed("outputs", unnamed, "logits")
        self.entry("predict", over="last", **values)

    @_with_the_line
    def entry(self, entry: str, /, *, over: Over = "last", **values: Value | Metric) -> None:
        """Add fetches to a named entry that computes without training: ops take their inference form.

        The entry updates states of lifespan "epoch" that it reads; a metric covers all rows so far.
        """
        self._reports.entry(entry, values, over)

    @_with_the_line
    def data(
        self,
        file: str,
        *,
        columns: Mapping[str, str] | None = None,
        splits: Mapping[str, str | slice] | None = None,
        shuffle: bool | int = True,
        remainder: Literal["drop", "exact", "partial"] = "partial",
    ) -> None:
        """Read rows from a file beside the program.

        Args:
            file: a safetensors or npz file, by its path relative to the folder that the program is saved in; or several
                as one, as in "rows/part-*.safetensors", in the order of their names. A file elsewhere, as in
                "../data/rows.safetensors", is read here; the saved program has its name without the folder, because a
                program reads no file outside of its own. Whoever runs it names the file: `--data`, or `load(data=…)`.
            columns: the key in the file for each input; by default its own name. Axis 0 counts the rows.
            splits: for each split the key of an int64 tensor of row numbers, or a slice of rows.
            shuffle: True, the default, if training reads the rows in another order each epoch; the approximate window
                in rows, such as 65536, for rows that do not fit into memory; False to keep the order of the file.
            remainder: what becomes of the rows that do not fill the last training step of an epoch: "partial", the
                default, makes a step of them whose loss is of these rows alone, "drop" leaves them out, and "exact"
                refuses them. Both defaults are those of `Run.train` for rows in memory.
        """
        feeds = [p.feed for p in self._block.desc.parameters if p.WhichOneof("source") == "feed"]
        self.data_desc = data_desc(file, feeds, columns or {}, splits or {}, shuffle=shuffle, remainder=remainder)
        self.rows_folder = os.path.dirname(file) if is_outside(file) else ""

    @_with_the_line
    def training(
        self,
        epochs: int,
        *,
        split: str = "train",
        evaluate: str | None = None,
        every: int = 1,
        keep_best: str | None = None,
        best: Literal["min", "max"] | None = None,
        stop_after: int | Value = 0,
        min_delta: float | Value = 0.0,
        restore_best: bool = True,
        best_checkpoints: int = 0,
    ) -> None:
        """Declare the default training of the file; nothing is trained before `Run.train` or `runtime execute`.

        Args:
            epochs: number of passes over the rows.
            split: the rows to train on; all rows if it is "train" and the data has no such split.
            evaluate: the split to evaluate on, if any.
            every: epochs between evaluations.
            keep_best: the metric of the evaluation by which the best states are kept and returned at the end.
            best: "min" if lower values of that metric are better, "max" if higher ones are. Unless given, losses and
                errors are "min" and accuracies "max"; `compile` refuses a metric of unknown direction.
            stop_after: evaluations without improvement before the run stops; 0 never stops early. It may be a setting
                with dtype="int64".
            min_delta: the improvement that `stop_after` asks for: a smaller one does not count. It may be a setting.
            restore_best: False to keep no states of the best evaluation; the run then ends with its last ones.
            best_checkpoints: number of checkpoints of the best evaluations that stay in the folder of checkpoints
                besides the newest ones.
        """
        self._run_line = line_here()
        self.run_desc = run_desc(
            epochs,
            split,
            evaluate,
            every=every,
            keep_best=keep_best,
            best=best,
            stop_after=stop_after,
            min_delta=min_delta,
            restore_best=restore_best,
            best_checkpoints=best_checkpoints,
        )

    @with_kinds(CompileError)
    def compile(
        self,
        passes: PassTable = PASSES,
        /,
        *,
        mixed: Mixed | str | None = None,
        qat: Qat | str | None = None,
        shards: int | None = None,
        folder: str | os.PathLike[str] = ".",
        **sizes: int | Sequence[int],
    ) -> Compiled:
        """Bind the symbols, run the passes, and return the finished program.

        Modify `PASSES` of `compiler.passes.pipeline` for another table, as in
        `compile(PASSES.without("merge_identical"), batch=32)`.

        Several sizes of the row symbol give a step for each: the largest as long as there are enough rows, then the
        others for the rest.

        A program that trains on the rows left at the end of an epoch (`remainder="partial"`) gets a step for them if
        the file of its rows is in `folder`, where the program will be saved; by default it is the current one.

        With `shards=K` a training step computes its batch in K shards, one after another, and adds their gradients in
        a balanced tree: its temporary memory is that of one shard. docs/machines.md lists what the shards of a batch
        have in common.

        With `mixed="bfloat16"`, or `prograd.mixed("bfloat16", keep=["head.*"])`, operands of products are rounded to
        bfloat16, and the backward pass keeps the rounded operands; states, sums and updates stay float32.

        With `qat="int8"`, or `prograd.qat("int8", keep=["head"])`, training prepares for `quantize`: products read the
        numbers that codes of eight bits stand for, and the other entries multiply codes. docs/int8.md describes it.

        Raises CompileError for a symbol without a size, an unknown symbol, a parameter that is never trained, a missing
        split or metric that `training` names, or a program that computes nothing.
        """
        if not isinstance(passes, PassTable):  # pyright: ignore[reportUnnecessaryIsInstance]: users may not check types
            raise CompileError(f"compile: {passes!r} is given without the symbol that it binds; write batch={passes!r}")
        passes = with_qat(with_mixed(passes, self.mixed_of_import if mixed is None else mixed), qat)
        with no_garbage_collection():
            program = self._assembled()
            if shards is not None:
                mark_shards(program, shards, self._losses, self._weights())
            with Located(lambda: self._run_line):
                require_names(program)
                settle_best(program.run, self._reports.best)
            settle_plateaus(program, self._reports.best)
            bound = with_last_batch(program, self._opened.sizes(program) | sizes, Path(folder, self.rows_folder))
            compiled = compile_program(program, bound, passes=passes, unread=self.symbols)
            compiled.arrays = {path: Brought(arrays) for path, arrays in self.arrays.items()}
            compiled.rows_folder = self.rows_folder
            if self._recomputed:
                compiled.recomputed = tuple(self._recomputed)
                compiled.plan()
            return compiled

    if not TYPE_CHECKING:  # hidden from type checkers, which know the methods

        def __getattr__(self, name: str) -> Any:
            raise no_attribute_of_program(name, Program)

    def _weights(self) -> dict[str, set[str]]:
        """Return the weights of the terms of each loss and of each report of training."""
        reported = [value.name for value, _ in self._reports.train.values()]
        found = {name: weights_in(self._block.value(name)) for name in (*self._losses.values(), *reported)}
        return found | self._loss_weights

    def _assembled(self) -> pb.ProgramDesc:
        block, reports, kept = self._block, self._reports, self._opened.kept
        for name, setting in block.settings.items():
            self.states[name].slot = written(setting.interval)  # with the intervals that its uses narrowed
        program = assembled(
            Built(
                block.desc,
                self.states,
                self._updates,
                reports.totals,
                reports.train,
                reports.with_losses(),
                self._averages,
                kept,
                block.differentiations,
                block.bodies,
            )
        )
        program.name, program.seed, program.bfloat16_order = self.name, self.seed, self._bfloat16_order
        program.model.extend(pb.ModelText(key=key, text=text) for key, text in sorted(self.texts_of_model.items()))
        program.limits.extend(limits for _, limits in sorted(self.limits.items()))
        if self.data_desc is not None:
            program.data.CopyFrom(self.data_desc)
        if self.run_desc is not None:
            program.run.CopyFrom(self.run_desc)
        if self._plateaus:
            program.run.MergeFrom(pb.RunDesc(plateaus=self._plateaus))
            if self.run_desc is None:
                program.run.MergeFrom(pb.RunDesc(entry="train", epochs=1, split="train"))
        program.locations.extend(self.locations.texts)
        program.files.extend(self._opened.files(program))
        return program

    def _growing(self, desc: pb.BlockDesc) -> Block:
        """Return the block under construction, from an existing one."""
        here, text = self.locations.here, self.locations.text
        return Block(desc, locate=here, location_text=text, streams=self._streams, state=self.state, program=self)

    def _restore(self, desc: pb.ProgramDesc) -> None:
        """Restore the builder's state from the program of a file."""
        self.locations.texts.extend(desc.locations)
        self.texts_of_model.update((each.key, each.text) for each in desc.model)
        self.limits.update((each.symbol, each) for each in desc.limits)
        self._bfloat16_order = desc.bfloat16_order
        self._streams = streams_from(next_stream(desc))
        self._states = StateTable(self.locations.here, self._streams)
        self.states = self._states.descs
        self.states.update((state.name, state) for state in desc.states)
        self._block = self._growing(training_block(desc))
        self._block.bodies.extend(desc.blocks)  # ops of source blocks name the blocks inside them by these numbers
        self._block.settings.update(known_settings(desc.states))
        self._block.weak.update(self._block.settings)
        self._reports = Reports(self._block, self._new_total)
        self._opened = opened(self._block, desc)
        train = self._opened.source("train")
        for fetch in train.fetches:
            self._reports.train[fetch.name] = self._block.value(fetch.tensor), fetch.over
        self._updates.update((update.state, self._block.value(update.tensor)) for update in train.updates)
        self._reports.entries.update((name, {}) for name in self._opened.kept)
        self.data_desc = desc.data if desc.HasField("data") else None
        self.run_desc = desc.run if desc.HasField("run") else None
        if self.run_desc is not None:
            self._plateaus = list(self.run_desc.plateaus)
            del self.run_desc.plateaus[:]

    def add_plateau(self, plateau: pb.PlateauDesc) -> Value:
        """Declare the state of a rate that is reduced when a metric stops improving, and return its tensor."""
        state = self._states.add(
            self._free_state("plateau"), TensorType("float64", ()), pb.STATE_KIND_COUNTER, constant(1.0)
        )
        self._plateaus.append(pb.PlateauDesc(state=state.name))
        self._plateaus[-1].MergeFrom(plateau)
        return self.state(state.name)

    def _new_total(self, name: str, type: TensorType) -> Value:
        """Return a state for a total of a metric, which is reset each epoch."""
        state = self._states.add(self._free_state(name), type, pb.STATE_KIND_BUFFER, zeros())
        state.lifespan = pb.LIFESPAN_EPOCH
        return self.state(state.name)

    def _free_state(self, name: str) -> str:
        while name in self.states or name in self._block.types:
            name += "_"
        return name

    def _names(self) -> Container[str]:
        return ChainMap[str, Any](self.states, self._block.types)

    def _require_outside(self, what: str, remedy: str) -> None:
        """Raise OpError within a function that becomes a block inside an op."""
        inside = self._block.active
        if inside is not self._block:
            raise OpError(f"{what}: this is {inside.what}, which only computes; {remedy}")

    def _require_own(self, what: str, value: Value) -> None:
        if not isinstance(value, Value):  # pyright: ignore[reportUnnecessaryIsInstance]: users may not check types
            raise OpError(f"{what}: {value!r} is not a tensor of a program")
        self._require_outside(what, "call it after the loop, with what its function returns")
        require_of(self._block, what, value)
