"""Mixed precision as it is asked for: the dtype of the operands of products, and the ops that stay float32."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compiler.errors import CompileError
from compiler.passes.mixed_precision import require_order
from compiler.passes.pass_table import PassTable
from prograd_proto.argument_kinds import with_kinds


@dataclass(frozen=True)
class Mixed:
    """A request for mixed precision.

    Attributes:
        dtype: dtype that operands of products are rounded to.
        keep: patterns of the names of tensors whose ops stay float32.
        lower: patterns of the names of results that are rounded although an operand is not.
        order: the order in which products add, "tiles" or "pairs".
    """

    dtype: str
    keep: tuple[str, ...] = ()
    lower: tuple[str, ...] = ()
    order: str = "tiles"


@with_kinds(CompileError, strictly=True)
def mixed(dtype: str, *, keep: Sequence[str] = (), lower: Sequence[str] = (), order: str = "tiles") -> Mixed:
    """Return a request for mixed precision, for `compile(mixed=…)`.

    Args:
        dtype: "bfloat16".
        keep: patterns such as "head.*". An op with an operand or a result of such a name stays float32, with its
            gradient.
        lower: patterns likewise. The result of an op with such a name is rounded to bfloat16 where it is kept in
            memory, although it is a sum with a float32 tensor, such as the residual stream of a transformer.
        order: the order in which products add, on every machine: "tiles" is that of Intel's AMX, and the default;
            "pairs" is that of `vdpbf16ps`. AMD since Zen 4 trains faster with "pairs", and Intel with AMX much faster
            with "tiles". The two give results other last bits, and so the network another hash.

    Raises:
        CompileError: `keep` or `lower` is text, a pattern has a comma or is empty, or `order` is neither of the two.
    """
    keeps, lowers = patterns_of("mixed", "keep", keep), patterns_of("mixed", "lower", lower)
    return Mixed(dtype, keeps, lowers, require_order(order))


def patterns_of(what: str, option: str, given: Sequence[str]) -> tuple[str, ...]:
    """Return the patterns of an option; raise CompileError, beginning with `what`, for a text or an empty list."""
    if isinstance(given, str):
        raise CompileError(f"{what}: {option}={given!r} is no list of patterns; write {option}=[{given!r}]")
    for pattern in given:
        if not isinstance(pattern, str):  # pyright: ignore[reportUnnecessaryIsInstance]: users may not check types
            raise CompileError(f"{what}: {option}={given!r} has {pattern!r}, which is no text; patterns are names")
        if not pattern or "," in pattern:
            raise CompileError(f"{what}: {option}={pattern!r} is no pattern of a name; write one item for each pattern")
    return tuple(given)


def with_mixed(passes: PassTable, request: Mixed | str | None) -> PassTable:
    """Return the table with the requested options of the pass `mixed_precision` added to those that it has."""
    require_mixed(request)
    if request is None:
        return passes
    given = mixed(request) if isinstance(request, str) else request
    return passes.with_settings({"mixed_precision": _settings(given)})


def require_mixed(request: Mixed | str | None) -> None:
    """Raise CompileError for a request that is neither the name of a dtype nor a `Mixed` with one."""
    dtype = getattr(request, "dtype", request)
    if request is not None and not (isinstance(dtype, str) and dtype):
        raise CompileError(f'mixed={dtype!r}: give "bfloat16" or prograd.mixed("bfloat16", keep=[…])')


def _settings(request: Mixed) -> dict[str, str]:
    patterns = {"keep": request.keep, "lower": request.lower}
    settings = {"dtype": request.dtype, **{name: ",".join(given) for name, given in patterns.items() if given}}
    return settings if request.order == "tiles" else {**settings, "order": require_order(request.order)}
