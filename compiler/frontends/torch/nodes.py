"""Questions about one node of an exported graph, and about its results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from compiler.errors import CompileError
from compiler.frontends.arranged import Arranged
from compiler.frontends.elements import cast_to

SQUEEZES: Final = {"aten.squeeze.default", "aten.squeeze.dim", "aten.squeeze.dims"}
"""Operators that drop axes of one element, which are there for other sizes."""

REGION: Final = "wrap_with_set_grad_enabled"
"""The name of the operator that runs a region in which gradients are recorded, or are not."""


def has_fractions(node: Any) -> bool:
    """Return True if a value of a node is a tensor of floats."""
    values = node.meta.get("val")
    each = values if isinstance(values, tuple | list) else [values]
    return any(getattr(getattr(x, "dtype", None), "is_floating_point", False) for x in each)


def require_contiguous(node: Any, name: str) -> None:
    """Raise CompileError for an operator that reads places in memory of a tensor that is laid out otherwise."""
    if name.startswith("aten.as_strided") and not node.args[0].meta["val"].is_contiguous():
        raise CompileError("as_strided of a tensor that is not contiguous; call contiguous() before")


def written(function: Any, args: Sequence[Any], keywords: Mapping[str, Any]) -> list[Any]:
    """Return the operands that an operator writes, as its schema says."""
    schema = getattr(function, "_schema", None)
    if schema is None or not schema.is_mutable:
        return []
    given = dict(zip((argument.name for argument in schema.arguments), args, strict=False)) | dict(keywords)
    names = [each.name for each in schema.arguments if each.alias_info is not None and each.alias_info.is_write]
    return [given[name] for name in names if name in given]


def is_pointwise(node: Any) -> bool:
    """Return True if an operator computes each element by itself."""
    return any("pointwise" in str(tag) for tag in node.target.tags)


def rounded(node: Any, made: Any) -> Any:
    """Return results in the dtypes of the graph where these are halves, which products of halves round."""
    if isinstance(made, tuple):
        return tuple(_in_half(x, value) for x, value in zip(made, node.meta["val"], strict=False))
    return _in_half(made, node.meta["val"])


def _in_half(x: Any, value: Any) -> Any:
    dtype = str(getattr(value, "dtype", "")).removeprefix("torch.")
    return cast_to(x, dtype) if isinstance(x, Arranged) and dtype in ("float16", "bfloat16") else x


def squeezed_symbols(x: Arranged, dims: Sequence[Any]) -> set[str]:
    """Return the symbols of the axes that a squeeze would drop if they had one element."""
    chosen = range(x.rank) if not dims else dims[0] if isinstance(dims[0], list) else [dims[0]]
    return {symbol for axis in chosen if x.shape[axis].number == 1 for symbol in x.shape[axis].symbols}
