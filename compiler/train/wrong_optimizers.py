"""Sentences about names and functions that users pass in place of optimizers."""

from __future__ import annotations

from collections.abc import Sequence
from types import FunctionType

from prograd_proto.spelling import nearest


def wrong_optimizer(given: object, names: Sequence[str]) -> str:
    """Return a sentence: this is no optimizer; for one of `names` or its function, with the right call."""
    name = given.__name__ if isinstance(given, FunctionType) else given
    if not isinstance(name, str):
        return f"{given!r} is not an optimizer; use one as sgd(0.1)"
    shown = name if isinstance(given, FunctionType) else repr(name)
    known = [each for each in names if each not in ("lazy", "look_ahead")]
    near = nearest(name.lower(), known)
    remedy = f"call the function, as {near}(0.001)" if near else f"use one as sgd(0.1); there are {', '.join(known)}"
    return f"{shown} is not an optimizer; {remedy}"
