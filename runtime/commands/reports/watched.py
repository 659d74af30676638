"""`--watch`: histograms of parameters and of their gradients at the end of each epoch, as values that JSON has.

Elements are counted in bins of equal width, from the lowest finite one to the highest. An array is looked at piece by
piece, so that its size takes no memory. A parameter is looked at where it lies. A gradient dies within its step, or is
never stored where an engine computes it together with what reads it: one that is watched is fetched by every step, so
the engine stores it, and a copy of it is kept, which only a run that watches pays for. No bit of the run depends on it.
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

BINS: Final = 30
DEPTH: Final = 4  # ops from a gradient to the update
PIECE: Final = 1 << 16  # elements


class Gradient(NamedTuple):
    """A tensor of a step, and the parameter whose gradient it is."""

    tensor: str
    parameter: str


class Watch:
    """What `--watch` asks for. Raises UsageError for a pattern that no parameter matches.

    `fetch` are the tensors that steps have to fetch for it, and `missing` the trained parameters whose gradient is no
    tensor of every step, because compiling found another one that equals it, or a number.
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
        """At the end of an epoch a line for each parameter, and one for each gradient of its last step."""
        self._made_steps |= isinstance(event, StepEnd)
        if not isinstance(event, EpochEnd):
            return
        where: dict[str, Any] = {"event": "histogram", "epoch": event.epoch, "step": event.step}
        for name in self._names:
            yield where | {"state": name} | histogram(self._run.states.arrays[name])
        for gradient in self._gradients if self._made_steps else ():
            yield where | {"gradient": gradient.parameter} | histogram(self._run.fetched[gradient.tensor])


def watched_parameters(program: pb.ProgramDesc, patterns: Sequence[str]) -> list[str]:
    """The parameters that match any of the patterns. Raises UsageError for a pattern that matches none."""
    names = [state.name for state in program.states if state.kind == pb.STATE_KIND_PARAMETER]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise UsageError(f"--watch {pattern}: no parameter matches{closest(pattern, names)}")
    return [name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)]


def gradients(bindings: Sequence[BoundEntry], names: Sequence[str]) -> list[Gradient]:
    """By parameter the gradient that trains it, as far as it is the same tensor of all bindings."""
    found = [_gradients(bound.block, names) for bound in bindings]
    everywhere = set(found[0]).intersection(*found)
    return [gradient for gradient in found[0] if gradient in everywhere]


def _gradients(block: pb.BlockDesc, names: Sequence[str]) -> list[Gradient]:
    """What the op that updates a parameter is given of gradients, else what is known as the parameter's, the last.

    Compiling computes equal gradients once, and that one is known as the gradient of one tensor alone.
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
    """The known gradients that lie before an update, all as it was made or behind a few ops that clip them."""
    now = [updated]
    for _ in range(DEPTH):
        read = [name for tensor in now if tensor in maker for name in maker[tensor].inputs if name]
        now = [name for name in dict.fromkeys(read) if types[name].shape == types[updated].shape]
        if any(name in known for name in now):
            break
    return [name for name in now if name in known]


def histogram(array: Array) -> dict[str, Any]:
    """The finite elements: the lowest, the highest, how many are in each of the bins; and how many are not finite."""
    ranges = [(float(piece.min()), float(piece.max())) for piece in _pieces(array) if piece.size]
    low, high = min((low for low, _ in ranges), default=0.0), max((high for _, high in ranges), default=0.0)
    half = high / 2 - low / 2  # halves, as the width of all may be more than there are numbers
    counts = np.zeros(BINS, np.int64)
    for piece in _pieces(array):
        share = (piece / 2 - low / 2) / half if half else np.zeros_like(piece)
        counts += np.bincount(np.minimum(share * BINS, BINS - 1).astype(np.int64), minlength=BINS)
    return {"low": low, "high": high, "counts": counts.tolist(), "not_finite": array.size - int(counts.sum())}


def _pieces(array: Array) -> Iterator[np.ndarray]:
    """Finite elements, as float64."""
    flat = array.reshape(-1)
    for first in range(0, flat.size, PIECE):
        piece = handed_out(flat[first : first + PIECE]).astype(np.float64)
        yield piece[np.isfinite(piece)]
