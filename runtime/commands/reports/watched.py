"""`--watch`: histograms of parameters and of their gradients at the end of each epoch, as JSON values.

Elements are counted in bins of equal width, from the lowest finite one to the highest. An array is read in pieces, so
its size takes no memory. A parameter is read where it lies. A gradient dies within its step, or is never stored if an
engine fuses it into its consumer. A watched gradient is therefore fetched by every step, so the engine stores it and
keeps a copy. Only runs with `--watch` pay for that. No bit of the run depends on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

import numpy as np

from prograd_proto import TensorType, type_of
from prograd_proto import program_pb2 as pb
from prograd_proto.spelling import closest
from runtime.conversion import handed_out
from runtime.dtypes import Array
from runtime.entries import BoundEntry
from runtime.errors import UsageError
from runtime.runs.events import EpochEnd, Event, StepEnd
from runtime.runs.run import Run

HISTOGRAM_BINS: Final = 30
MAX_SEARCH_DEPTH: Final = 4  # upper bound on the ops between a gradient and the update
PIECE_ELEMENTS: Final = 1 << 16  # elements per piece


class Gradient(NamedTuple):
    """A tensor of a step, and the parameter whose gradient it is."""

    tensor: str
    parameter: str


class Watch:
    """The tensors that `--watch` names; raises UsageError for a pattern that no parameter matches.

    `fetch` are the tensors that steps have to fetch for it. `missing` are the trained parameters whose gradient is no
    tensor of every step, because the compiler replaced it by an equal tensor or a constant.
    """

    def __init__(self, run: Run, entry: str, patterns: Sequence[str]) -> None:
        self._run = run
        self._names = watched_parameters(run.program, patterns)
        bindings = [bound for length in run.session.lengths(entry) for bound in length]
        self._gradients = gradients(bindings, self._names)
        self._made_steps = False
        found = {gradient.parameter for gradient in self._gradients}
        trained = {update.state for update in bindings[0].block.updates}
        self.missing = [name for name in self._names if name in trained - found]
        self.fetch = [gradient.tensor for gradient in self._gradients]

    def after(self, event: Event) -> Iterator[dict[str, Any]]:
        """Yield a line for each parameter and for each gradient of its last step, at the end of an epoch."""
        self._made_steps |= isinstance(event, StepEnd)
        if not isinstance(event, EpochEnd):
            return
        where: dict[str, Any] = {"event": "histogram", "epoch": event.epoch, "step": event.step}
        for name in self._names:
            yield where | {"state": name} | histogram(self._run.states.arrays[name])
        for gradient in self._gradients if self._made_steps else ():
            yield where | {"gradient": gradient.parameter} | histogram(self._run.fetched[gradient.tensor])


def watched_parameters(program: pb.ProgramDesc, patterns: Sequence[str]) -> list[str]:
    """Return the parameters that match any of the patterns; raise UsageError for a pattern without a match."""
    names = [state.name for state in program.states if state.kind == pb.STATE_KIND_PARAMETER]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise UsageError(f"--watch {pattern}: no parameter matches{closest(pattern, names)}")
    return [name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)]


def gradients(bindings: Sequence[BoundEntry], names: Sequence[str]) -> list[Gradient]:
    """Return the gradient that trains each parameter, if it is the same tensor in all bindings."""
    found = [_gradients(bound.block, names) for bound in bindings]
    everywhere = set(found[0]).intersection(*found)
    return [gradient for gradient in found[0] if gradient in everywhere]


def _gradients(block: pb.BlockDesc, names: Sequence[str]) -> list[Gradient]:
    """Return the gradients that the op of each update reads, else the last tensor known as the parameter's gradient.

    The compiler computes equal gradients once, and then the tensor is known as the gradient of one parameter only.
    """
    state_of = {p.tensor: p.state for p in block.parameters if p.WhichOneof("source") == "state"}
    known = {t.name: state_of.get(t.gradient_of, "") for t in block.tensors if t.gradient_of}
    last = {name: tensor for tensor, name in known.items() if name}
    maker = {output: op for op in block.ops for output in op.outputs}
    types = {t.name: type_of(t) for t in block.tensors}
    for update in block.updates:
        if update.state in names:
            read = _read(update.tensor, known, maker, types)
            own = [tensor for tensor in read if known[tensor] == update.state] or read
            last |= {update.state: own[0]} if own else {}
    return [Gradient(last[name], name) for name in names if name in last]


def _read(
    updated: str, known: Mapping[str, str], maker: Mapping[str, pb.OpDesc], types: Mapping[str, TensorType]
) -> list[str]:
    """Return the known gradients that an update reads, directly or through a few ops that clip them."""
    now = [updated]
    for _ in range(MAX_SEARCH_DEPTH):
        read = [name for tensor in now if tensor in maker for name in maker[tensor].inputs if name]
        now = [name for name in dict.fromkeys(read) if types[name].shape == types[updated].shape]
        if any(name in known for name in now):
            break
    return [name for name in now if name in known]


def histogram(array: Array) -> dict[str, Any]:
    """Return a histogram of the finite elements: the lowest, the highest, the counts of bins.

    And the non-finite count.
    """
    ranges = [(float(piece.min()), float(piece.max())) for piece in _pieces(array) if piece.size]
    low, high = min((low for low, _ in ranges), default=0.0), max((high for _, high in ranges), default=0.0)
    half = high / 2 - low / 2  # halves, as the full width may exceed the range of floats
    counts = np.zeros(HISTOGRAM_BINS, np.int64)
    for piece in _pieces(array):
        share = (piece / 2 - low / 2) / half if half else np.zeros_like(piece)
        counts += np.bincount(
            np.minimum(share * HISTOGRAM_BINS, HISTOGRAM_BINS - 1).astype(np.int64), minlength=HISTOGRAM_BINS
        )
    return {"low": low, "high": high, "counts": counts.tolist(), "not_finite": array.size - int(counts.sum())}


def _pieces(array: Array) -> Iterator[np.ndarray]:
    """Yield the finite elements in pieces, as float64."""
    flat = array.reshape(-1)
    for first in range(0, flat.size, PIECE_ELEMENTS):
        piece = handed_out(flat[first : first + PIECE_ELEMENTS]).astype(np.float64)
        yield piece[np.isfinite(piece)]
