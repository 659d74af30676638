"""Transforms of numbers that are fitted on training rows, and their inverses."""

from __future__ import annotations

from typing import Final

import numpy as np

from prograd_proto.wording import as_asked
from runtime.dtypes import Array
from runtime.rows.encoding.row_errors import RowError

TRANSFORMS: Final = ("", "log", "quantile")
"""No transform; log(1 + x); and the share of training rows below x, from 0 to 1."""

MAX_QUANTILES: Final = 1001
"""Upper bound on the quantiles that a column keeps."""


def transformed(name: str, numbers: Array, transform: str, quantiles: tuple[float, ...]) -> Array:
    """Return transformed numbers; raise DataError, which names the row, for the logarithm of -1 or less."""
    if transform == "log":
        low = numbers <= -1
        if low.any():
            row = int(low.argmax())
            how = f"leave out {as_asked(f'--log {name}', f'log=[{name!r}]')}"
            raise RowError(row, name, f"is {numbers[row]:g}, and log(1 + x) takes numbers above -1; {how}")
        return np.log1p(numbers)
    if transform == "quantile":
        known = np.array(quantiles)
        shares = np.linspace(0, 1, len(known))
        up = np.interp(numbers, known, shares)
        down = -np.interp(-numbers, -known[::-1], -shares[::-1])
        return (up + down) / 2  # the middle of the shares of equal quantiles
    return numbers


def restored(numbers: Array, transform: str, quantiles: tuple[float, ...]) -> Array:
    """Return the numbers that `transformed` made these of."""
    if transform == "log":
        with np.errstate(over="ignore"):  # a prediction may be larger than its type
            return np.expm1(numbers)
    if transform == "quantile":
        return np.interp(numbers, np.linspace(0, 1, len(quantiles)), np.array(quantiles))
    return numbers


def quantiles_of(numbers: Array) -> tuple[float, ...]:
    """Return the quantiles of training rows, at most `MAX_QUANTILES`."""
    count = min(MAX_QUANTILES, max(2, len(numbers)))
    return tuple(np.quantile(numbers, np.linspace(0, 1, count)).tolist())
