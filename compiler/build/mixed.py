"""Mixed precision as it is asked for: the dtype of the operands of products, and the ops that stay float32."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compiler.errors import CompileError
from compiler.passes.pass_table import PassTable


@dataclass(frozen=True)
class Mixed:
    """A request for mixed precision.

    Attributes:
        dtype: dtype that operands of products are rounded to.
        keep: patterns of the names of tensors whose ops stay float32.
    """

    dtype: str
    keep: tuple[str, ...] = ()


def mixed(dtype: str, *, keep: Sequence[str] = ()) -> Mixed:
    """Return a request for mixed precision, for `compile(mixed=…)`.

    Args:
        dtype: "bfloat16".
        keep: patterns such as "head.*". An op with an operand or a result of such a name stays float32, with its
            gradient.

    Raises:
        CompileError: `keep` is text, or a pattern has a comma or is empty.
    """
    if isinstance(keep, str):
        raise CompileError(f"mixed: keep={keep!r} is no list of patterns; write keep=[{keep!r}]")
    for pattern in keep:
        if not pattern or "," in pattern:
            raise CompileError(f"mixed: keep={pattern!r} is no pattern of a name; write one item for each pattern")
    return Mixed(dtype, tuple(keep))


def with_mixed(passes: PassTable, request: Mixed | str | None) -> PassTable:
    """Return the table whose pass `mixed_precision` does what is asked for."""
    if request is None:
        return passes
    if isinstance(request, str):
        request = mixed(request)
    if not isinstance(request, Mixed):  # pyright: ignore[reportUnnecessaryIsInstance]: users may not check types
        raise CompileError(f'mixed={request!r}: give "bfloat16" or prograd.mixed("bfloat16", keep=[…])')
    return passes.with_settings({"mixed_precision": {"dtype": request.dtype, "keep": ",".join(request.keep)}})
