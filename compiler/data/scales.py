"""The mean and the deviation of training rows, by which numbers are scaled; a constant column has the deviation 1."""

from __future__ import annotations

import logging
from typing import Final

import numpy as np

from prograd_proto.wording import as_asked
from runtime.dtypes import Array

_log = logging.getLogger("prograd")

ROUNDINGS: Final = 16
"""Roundings of float64 by which equal numbers may differ after arithmetic, as 0.1 + 0.2 differs from 0.3."""


def scale_of(name: str, numbers: Array, *, remedy: str = "") -> tuple[float, float]:
    """Return the mean and the deviation of the training rows of a column; the deviation is 1 if they are constant.

    Numbers are constant if their largest difference is within `ROUNDINGS` roundings of the largest of them. A constant
    column is logged, with the option that leaves it out unless `remedy` has other words.
    """
    if is_constant(numbers):
        remedy = remedy or f"{as_asked(f'--drop {name}', f'drop=[{name!r}]')} leaves it out"
        _log.warning("%r is constant in the training rows, so it is centred and not scaled; %s", name, remedy)
        return float(numbers[0]), 1.0
    return float(np.mean(numbers)), float(np.std(numbers))


def is_constant(numbers: Array) -> bool:
    """Return True if all numbers are equal but for roundings; `numbers` is not empty."""
    low, high = float(numbers.min()), float(numbers.max())
    return high - low <= ROUNDINGS * float(np.finfo(np.float64).eps) * max(abs(low), abs(high))
