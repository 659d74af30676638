"""`--watch`: histograms of parameters at the end of each epoch, lines of their own in a file of metrics.

Elements are counted in bins of equal width, from the lowest finite one to the highest. An array is looked at piece by
piece, so that its size takes no memory; and states alone are looked at, so that nothing is computed otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from prograd_proto import program_pb2 as pb
from prograd_proto.spelling import closest
from runtime.dtypes import Array
from runtime.errors import UsageError

if TYPE_CHECKING:
    from runtime.runs.events import EpochEnd
    from runtime.runs.run import Run

BINS: Final = 30
PIECE: Final = 1 << 16  # elements


def watched_parameters(program: pb.ProgramDesc, patterns: Sequence[str]) -> list[str]:
    """The parameters that match any of the patterns. Raises UsageError for a pattern that matches none."""
    names = [state.name for state in program.states if state.kind == pb.STATE_KIND_PARAMETER]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise UsageError(f"--watch {pattern}: no parameter matches{closest(pattern, names)}")
    return [name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)]


def histograms(run: Run, names: Sequence[str], event: EpochEnd) -> Iterator[dict[str, Any]]:
    """A line for each parameter, as values that JSON has."""
    where: dict[str, Any] = {"event": "histogram", "epoch": event.epoch, "step": event.step}
    for name in names:
        yield where | {"state": name} | histogram(run.states.arrays[name])


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
        piece = flat[first : first + PIECE].astype(np.float64)
        yield piece[np.isfinite(piece)]
