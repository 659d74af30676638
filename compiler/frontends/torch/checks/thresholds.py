"""Thresholds of constants: numbers that positions reach only for larger sizes than those of the trials.

A window of 4096 positions excludes nothing from the trials, so `positions < 4096` is True in all of them. The program
holds only up to the size that reaches the threshold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

COMPARING: Final = {
    "lt", "le", "gt", "ge", "eq", "ne", "clamp", "clamp_min", "clamp_max", "minimum", "maximum", "floor_divide", "div",
    "remainder", "fmod", "bucketize", "searchsorted", "isin", "hardtanh",
}  # fmt: skip
"""Operators, without overloads, that compare elements with a number, or divide by it without a rest."""


def size_of_threshold(name: str, operands: Sequence[Any], results: Sequence[Any], sizes: Sequence[int]) -> int:
    """Return the largest size for which a constant, which is equal in all trials, holds; 0 if there is no limit.

    Args:
        name: the operator, as ATen names it.
        operands: for each trial, the operands of the node.
        results: for each trial, its result.
        sizes: for each trial, the largest size of a symbol.
    """
    if name.split(".")[1] not in COMPARING or not (_are_alike(results) or _are_unchanged(operands, results)):
        return 0
    numbers = [abs(number) for each in operands[0] for number in _numbers(each)]
    growing = [max((_largest(x) for x in each if hasattr(x, "numel")), default=0.0) for each in operands]
    last = max(range(len(sizes)), key=sizes.__getitem__)
    fixed = max([*numbers, *(_largest(x) for x in _equal_in_all(operands))], default=0.0)
    if len({*growing}) < 2 or fixed <= growing[last]:
        return 0
    return max(sizes[last], int(fixed) if growing[last] <= sizes[last] else sizes[last])


def _are_alike(trials: Sequence[Any]) -> bool:
    """Return True if the elements of all trials are one number."""
    firsts = [trial.reshape(-1)[:1] for trial in trials]
    return all(bool((trial == firsts[0]).all()) for trial in trials if trial.numel() and firsts[0].numel())


def _are_unchanged(operands: Sequence[Sequence[Any]], results: Sequence[Any]) -> bool:
    """Return True if the result is the first operand in all trials, as a minimum with a large number is."""
    firsts = [each[0] for each in operands]
    return all(
        hasattr(first, "shape") and first.shape == result.shape and bool((first == result).all())
        for first, result in zip(firsts, results, strict=True)
    )


def _numbers(x: Any) -> Iterator[float]:
    if isinstance(x, int | float) and not isinstance(x, bool) and x == x and abs(x) != float("inf"):
        yield float(x)


def _equal_in_all(operands: Sequence[Sequence[Any]]) -> list[Any]:
    """Return the operands that are the same tensor in all trials."""
    return [one[0] for one in zip(*operands, strict=True) if hasattr(one[0], "numel") and all(x is one[0] for x in one)]


def _largest(x: Any) -> float:
    return float(x.abs().max()) if x.numel() and not x.is_complex() and str(x.dtype) != "torch.bool" else 0.0
