"""Quantisation-aware training as it is asked for: the form of the products, and the parameters that stay float32."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compiler.build.mixed import patterns_of
from compiler.errors import CompileError
from compiler.passes.pass_table import PassTable
from prograd_proto.argument_kinds import with_kinds


@dataclass(frozen=True)
class Qat:
    """A request for quantisation-aware training.

    Attributes:
        dtype: form that products shall have after the training.
        keep: patterns of the names of parameters whose products stay in float32.
    """

    dtype: str
    keep: tuple[str, ...] = ()


@with_kinds(CompileError, strictly=True)
def qat(dtype: str, *, keep: Sequence[str] = ()) -> Qat:
    """Return a request for quantisation-aware training, for `compile(qat=…)`.

    Args:
        dtype: "int8".
        keep: patterns such as "head.*" or "head": products of parameters of such names stay in float32.

    Raises:
        CompileError: `keep` is text, or a pattern has a comma or is empty.
    """
    return Qat(dtype, patterns_of("qat", "keep", keep))


def with_qat(passes: PassTable, request: Qat | str | None) -> PassTable:
    """Return the table with the requested options of the pass `fake_quantize`.

    Raise CompileError for an unknown request.
    """
    if request is None:
        return passes
    dtype = getattr(request, "dtype", request)
    if not (isinstance(dtype, str) and dtype):
        raise CompileError(f'qat={dtype!r}: give "int8" or prograd.qat("int8", keep=[…])')
    given = qat(request) if isinstance(request, str) else request
    return passes.with_settings({"fake_quantize": {"dtype": given.dtype, "keep": ",".join(given.keep)}})
