"""Sizes of symbols that an imported program holds for."""

from __future__ import annotations

from compiler.errors import CompileError
from prograd_proto import program_pb2 as pb


def require_within_limits(program: pb.ProgramDesc) -> None:
    """Raise CompileError if a symbol is bound to a size for which the imported model computes something else."""
    limits = {each.symbol: each for each in program.limits}
    bound = {(dim.symbol, dim.size) for entry in program.entries for each in entry.bindings for dim in each.dims}
    for symbol, size in sorted(bound):
        own = limits.get(symbol)
        if own is not None and (size < own.least or 0 < own.most < size):
            why = f", where {own.reason} decides by it" if own.reason else ""
            another = f"import it with an example of {size}" if size > 1 else f"import it without {symbol!r}"
            raise CompileError(
                f"{symbol}={size}: the model was imported for {symbol} {_range(own)}{why}; {another}, or bind another "
                "size"
            )


def _range(limits: pb.SymbolLimits) -> str:
    if not limits.most:
        return f"from {limits.least}"
    return f"up to {limits.most}" if limits.least <= 1 else f"from {limits.least} to {limits.most}"
