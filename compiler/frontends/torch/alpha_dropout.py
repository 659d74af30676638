"""Alpha dropout in a form that evaluation can leave out, which the operators of its trace in training do not allow.

It is computed from a dropout of ones: the result is 0 for an element that is left out, 1 outside training, and larger
than 1 for a kept element. Klambauer et al., 2017.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

ALPHA: Final = 1.7580993408473766
"""Minus the limit of SELU for small inputs, which replaces an element that is left out."""


@contextmanager
def kept_in_evaluation(torch: Any) -> Generator[None]:
    """Let both alpha dropouts of torch.nn.functional leave their input as it is outside training."""
    functional = torch.nn.functional
    before = functional.alpha_dropout, functional.feature_alpha_dropout

    def elements(input: Any, p: float = 0.5, training: bool = False, inplace: bool = False) -> Any:
        return _dropped(torch, input, torch.ones_like(input), p, training, inplace)

    def features(input: Any, p: float = 0.5, training: bool = False, inplace: bool = False) -> Any:
        ones = input.new_ones((*input.shape[:2], *(1,) * (input.ndim - 2)))
        return _dropped(torch, input, ones, p, training, inplace)

    functional.alpha_dropout, functional.feature_alpha_dropout = elements, features
    try:
        yield
    finally:
        functional.alpha_dropout, functional.feature_alpha_dropout = before


def _dropped(torch: Any, x: Any, ones: Any, rate: float, training: bool, in_place: bool) -> Any:
    """Return alpha dropout by the draw of a dropout of ones, which broadcasts to x."""
    if not training or not rate:
        return x
    draw = torch.nn.functional.dropout(ones, rate)
    scale = ((1 - rate) * (1 + rate * ALPHA**2)) ** -0.5
    kept = torch.where(draw == 1, x, scale * x + scale * ALPHA * rate)
    made = torch.where(draw == 0, -scale * ALPHA * (1 - rate), kept)
    return x.copy_(made) if in_place else made
