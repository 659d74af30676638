"""Constants of a model whose elements repeat along axes, or count along one, as arrays of several trial sizes show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from compiler.frontends.arranged import Arranged, arranged, expanded
from compiler.frontends.extents import Extent
from prograd_proto.dtypes import DTypeName
from registry import Block, ops


def without_repeats(trial: Any) -> Any:
    """Return the elements; axes along which they are equal get extent 1."""
    for axis in range(trial.ndim):
        first = trial.take([0], axis=axis) if trial.shape[axis] else trial
        signs = trial.dtype.kind != "f" or bool(np.all(np.signbit(trial) == np.signbit(first)))  # of zeros
        if trial.shape[axis] > 1 and signs and bool(np.all(trial == first)):
            trial = first
    return trial


def counted(block: Block, trials: Sequence[Any], shape: Sequence[Extent], dtype: DTypeName) -> Arranged | None:
    """Return first, first + step ... along the axis of a symbol; None unless the elements count so in all trials.

    Args:
        block: block that gets the ops.
        trials: the elements for each trial size, without repeats.
        shape: extents of the constant.
        dtype: dtype of the tensor.
    """
    counts = {_first_and_step(trial) for trial in trials}
    count = counts.pop()
    if counts or count is None:
        return None
    first, step = count
    axis = next(i for i, n in enumerate(trials[0].shape) if n > 1)
    made = tuple(extent.plain() if i == axis else 1 for i, extent in enumerate(shape))
    steps = ops.cumsum(ops.full.on(block)(shape=made, value=step, dtype="int64"), axis=axis, exclusive=True)
    numbers = steps + first if first else steps
    return expanded(arranged(numbers if dtype == "int64" else ops.cast(numbers, dtype=dtype)), shape)


def _first_and_step(trial: Any) -> tuple[int, int] | None:
    """Return the first element and the step, if all elements rise by whole steps along the one axis that is not 1."""
    wide = [extent for extent in trial.shape if extent != 1]
    if len(wide) != 1 or trial.dtype.kind not in "iuf" or wide[0] < 2:
        return None
    flat = trial.reshape(-1)
    is_whole = bool(np.all((flat == np.floor(flat)) & ((flat != 0) | ~np.signbit(flat))))  # -0.0 is no integer
    if not is_whole or np.any(flat[1:] - flat[:-1] != flat[1] - flat[0]):
        return None
    return int(flat[0]), int(flat[1] - flat[0])
