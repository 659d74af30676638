"""A second engine, which shares nothing with the first but what an engine is to the rest of the runtime.

No arena, no plan, nothing in place: every tensor is an array of its own. Numbers are computed in float64 by functions
of this file and rounded once; what it does not know falls back to a kernel, one op at a time. Neighbours of one stage
are one part, and a step that moves values to a file keeps them in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from time import perf_counter

import numpy as np

from oracles.interpret import compute
from oracles.philox import scalar_words
from prograd_proto import attributes_of, type_of
from prograd_proto import program_pb2 as pb
from runtime.conversion import converted, python_dtype
from runtime.engines.engine import EngineOptions, Footprint, InMemory, Repeat, Version, unknown_version
from runtime.engines.parts import Buffer, Part, Spell, TimeInBlocks
from runtime.engines.step_start import StepStart
from runtime.entries import BoundEntry
from runtime.errors import NonFinite


class OtherEngine:
    name, instructions = "other", ""

    def __init__(self, program: pb.ProgramDesc, options: EngineOptions) -> None:
        self.program, self.options, self.threads = program, options, options.threads

    def needs(self, bound: BoundEntry) -> Footprint:
        return Footprint(sum(type_of(tensor).nbytes for tensor in bound.block.tensors))

    def explain(self, bound: BoundEntry, after: str | None = None) -> Iterator[str]:
        yield f"{bound.name} by the other engine"

    def code(self, bound: BoundEntry) -> str:
        return ""

    def workspace(self) -> OtherWorkspace:
        return OtherWorkspace(self)


class OtherWorkspace:
    def __init__(self, engine: OtherEngine) -> None:
        self.engine, self.footprint = engine, Footprint()

    def prepare(
        self,
        bound: BoundEntry,
        states: Mapping[str, np.ndarray],
        fetch: Sequence[str],
        version: Version = unknown_version,
    ) -> OtherExecutor:
        needed = self.engine.needs(bound)
        self.engine.options.memory.take(needed.arena, "the tensors")
        self.footprint = self.footprint._replace(arena=self.footprint.arena + needed.arena)
        return OtherExecutor(self.engine, bound, states, fetch)

    def close(self) -> None:
        """It has no threads."""


class OtherExecutor:
    def __init__(
        self, engine: OtherEngine, bound: BoundEntry, states: Mapping[str, np.ndarray], fetch: Sequence[str]
    ) -> None:
        block = bound.block
        self.block, self.states, self.footprint = block, states, engine.needs(bound)
        self.types = {tensor.name: type_of(tensor) for tensor in block.tensors}
        self.wanted = {f.name: f.tensor for f in block.fetches} | {name: name for name in fetch}
        self.feeds = {p.feed: empty(self.types[p.tensor]) for p in block.parameters if p.feed}
        self.fetches = {name: handed(empty(self.types[tensor])) for name, tensor in self.wanted.items()}
        runs = groupby((op for op in block.ops if op.type != "constant"), lambda op: op.stage)
        self.parts = [Part(f"{len(ops)} ops", ops) for ops in (tuple(run) for _, run in runs)]
        self.buffers = [Buffer("all", self.footprint.arena, list(range(len(self.parts))), fed=True, kept=True)]
        self.start: StepStart | None = None
        if engine.options.check_nan:
            self.start = StepStart(engine.program, block, states, self.feeds, lambda nbytes: np.empty(nbytes, "u1"))

    def step(self) -> None:
        self.profile_step()

    def step_with(self, feeds: Mapping[str, np.ndarray]) -> None:
        for name, out in self.feeds.items():
            out[...] = feeds[name]
        self.step()

    def profile_blocks(self) -> list[TimeInBlocks]:
        return []

    def repeated(self, rows: InMemory, fetches: Sequence[str]) -> Repeat | None:
        return None

    def profile_step(self) -> list[Spell]:
        arrays = {p.tensor: (self.states[p.state] if p.state else self.feeds[p.feed]) for p in self.block.parameters}
        arrays = {name: array.copy() for name, array in arrays.items()}
        for op in self.block.ops:
            if op.type == "constant":
                self.compute(op, arrays)
        spells = []
        for i, part in enumerate(self.parts):
            begin = perf_counter()
            for op in part.ops:
                self.compute(op, arrays)
            middle = perf_counter()
            spells += [Spell(i, begin, middle, 0), Spell(i, middle, perf_counter(), 1)]  # a part that two threads share
        for name, tensor in self.wanted.items():
            np.copyto(self.fetches[name], handed(arrays[tensor]))
        for update in self.block.updates:
            np.copyto(self.states[update.state], arrays[update.tensor])
        return spells

    def compute(self, op: pb.OpDesc, arrays: dict[str, np.ndarray]) -> None:
        inputs = [arrays[name] if name else None for name in op.inputs]
        types = [self.types[name] for name in op.outputs]
        known = FUNCTIONS.get(op.type)
        if known is None:
            made = compute(op, inputs)
        else:
            wide = [x.astype("f8") if x is not None and x.dtype.kind == "f" else x for x in inputs]
            attributes = attributes_of(op)
            if op.type == "dropout":
                attributes["stream"] = op.random_stream
            found = known(*wide, **attributes)
            made = [np.array(x) for x in (found if isinstance(found, tuple) else (found,))]
        for name, array, type in zip(op.outputs, made, types, strict=True):
            arrays[name] = array.astype(type.dtype).reshape(type.static_shape)
            if self.start is not None and array.dtype.kind == "f" and not np.isfinite(arrays[name]).all():
                self.start.keep()  # nothing has been written over yet
                raise NonFinite(f"op {op.id} ({op.type}): %{name} has NaN or Inf", self.start.failed_step())


def empty(type) -> np.ndarray:
    return np.zeros(type.static_shape, type.dtype)


def handed(array: np.ndarray) -> np.ndarray:
    return converted(array, python_dtype(array.dtype.name))


def axes_of(axes) -> tuple[int, ...] | None:
    return tuple(axes) or None


def dropout(x, seed, step, *, rate, stream):
    words = scalar_words(x.size, seed=int(seed), stream=stream, step=int(step))
    kept = np.array([word >= int(rate * 2**32) for word in words]).reshape(x.shape)
    return np.where(kept, x / (1 - rate), 0.0)


def adam(w, dw, m, v, rate, step, *, beta1, beta2, epsilon, decay):
    g, t = dw + decay * w, int(step) + 1
    m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g**2
    return w - rate * (m / (1 - beta1**t)) / (np.sqrt(v / (1 - beta2**t)) + epsilon), m, v


FUNCTIONS: dict[str, Callable[..., object]] = {
    "abs": lambda x: np.where(x < 0, -x, x),
    "add": lambda x, y: x - (-y),
    "adam": adam,
    "broadcast_to": lambda x, shape: x + np.zeros(shape),
    "cos": lambda x: np.sin(x + np.pi / 2),
    "div": lambda x, y: x * (1 / y),
    "dropout": dropout,
    "less": lambda x, y: ~(x >= y),
    "max": lambda x, axes, keepdims: -np.min(-x, axis=axes_of(axes), keepdims=keepdims),
    "maximum": lambda x, y: np.where(x > y, x, y),
    "mean": lambda x, axes, keepdims: np.average(x, axis=axes_of(axes), keepdims=keepdims),
    "minimum": lambda x, y: np.where(x < y, x, y),
    "mul": lambda x, y: x * y,
    "reload": lambda x: x,
    "sgd": lambda w, dw, rate, decay: w - rate * (dw + decay * w),
    "spill": lambda x: x,
    "squared_error": lambda x, y, reduction: {"mean": np.mean, "sum": np.sum}[reduction]((x - y) ** 2),
    "sub": lambda x, y: x + (-y),
    "sum": lambda x, axes, keepdims: np.sum(x, axis=axes_of(axes), keepdims=keepdims),
}
"""By op type, what it gives for float64 operands; the engine rounds it."""
