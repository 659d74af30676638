"""Tensors and tuples of tensors, as a list and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from registry.errors import OpError
from registry.value import Value


def leaves(what: str, tree: Any) -> list[Value]:
    """Return the tensors of a tree of tuples in order; raise OpError for anything else."""
    if isinstance(tree, tuple | list):
        return [leaf for part in tree for leaf in leaves(what, part)]  # pyright: ignore[reportUnknownVariableType]: checked here
    if not isinstance(tree, Value):
        raise OpError(f"{what} is {_shown(tree)}, which is neither a tensor nor a tuple of tensors")
    return [tree]


def same_form(tree: Any, values: Sequence[Value]) -> Any:
    """Return the values in the form of a tree with as many tensors; lists become tuples."""
    return _rebuilt(tree, iter(values))


def form_of(tree: Any) -> Any:
    """Return a tree with every tensor replaced by None, to compare forms."""
    return tuple(form_of(part) for part in tree) if isinstance(tree, tuple | list) else None  # pyright: ignore[reportUnknownVariableType]: checked here


def _rebuilt(tree: Any, values: Iterator[Value]) -> Any:
    if isinstance(tree, tuple | list):
        return tuple(_rebuilt(part, values) for part in tree)  # pyright: ignore[reportUnknownVariableType]: checked here
    return next(values)


def replaced(tree: Any, change: Callable[[Any], Any]) -> Any:
    """Return a tree with every part that is no tuple replaced by the result of `change`."""
    if isinstance(tree, tuple | list):
        return tuple(replaced(part, change) for part in tree)  # pyright: ignore[reportUnknownVariableType]: checked here
    return change(tree)


def _shown(thing: object) -> str:
    text = repr(thing)
    return f"a {type(thing).__name__}" if len(text) > 60 or "\n" in text else text
