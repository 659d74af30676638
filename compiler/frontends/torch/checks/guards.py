"""Guards of torch.export: the sizes of symbols for which an exported graph computes what the module computes.

Python code that branches on a size, and operators that do, take one way while they are traced. torch.export notes the
conditions, which depend on its symbols. A condition that holds for a range of sizes limits the symbol; others are
refused.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from compiler.errors import CompileError
from compiler.frontends.torch.messages import is_users
from prograd_proto import program_pb2 as pb

LARGEST: Final = 1 << 20
"""Sizes above are not tried."""

TRIED: Final = (*range(2, 18), 31, 32, 33, 64, 97, 100, 127, 128, 129, 255, 256, 512, 1000, 1024, 4096, 65537, LARGEST)
"""Sizes for which each condition is tried."""


class Limits(NamedTuple):
    """Sizes of a symbol, from `least` to `most`, and the place in the module that fixes them; 0: no largest size."""

    least: int
    most: int
    reason: str = ""

    def both(self, other: Limits) -> Limits:
        """Return the sizes that two limits have in common."""
        most = min(self.most or other.most, other.most or self.most)
        narrower = self if (self.least, self.most or LARGEST) != (1, LARGEST) else other
        return Limits(max(self.least, other.least), most, narrower.reason or other.reason)

    def message(self, symbol: str) -> pb.SymbolLimits:
        """Return the limits as a program holds them."""
        return pb.SymbolLimits(symbol=symbol, least=self.least, most=self.most, reason=self.reason)


def limits_of(graph: Any, names: Mapping[str, str], hints: Mapping[str, int]) -> dict[str, Limits]:
    """Return the limits of our symbols; `names` has our symbols by PyTorch's, and `hints` their sizes in the examples.

    Raises CompileError for a condition that is no range of one symbol.
    """
    found: dict[str, Limits] = {}
    for condition, place in _conditions(graph, names):
        free = sorted({names[str(symbol)] for symbol in condition.free_symbols})
        if len(free) == 1:
            [symbol] = free
            own = _range_of(condition, names, hints, place)
            found[symbol] = own if symbol not in found else found[symbol].both(own)
        elif len(free) > 1 and not _holds_for_all(condition, names, free, hints):
            raise CompileError(_refusal(condition, names, place))
    return {symbol: each for symbol, each in found.items() if (each.least, each.most) != (1, 0)}


def _conditions(graph: Any, names: Mapping[str, str]) -> Iterator[tuple[Any, str]]:
    """Yield the conditions about our symbols, with the places in the module that made them."""
    values = [node.meta.get("val") for node in graph.graph.nodes if node.op == "placeholder"]
    sizes = [size for value in values for size in getattr(value, "shape", ()) if not isinstance(size, int)]
    environments = {id(size.node.shape_env): size.node.shape_env for size in sizes}
    seen: set[str] = set()
    for environment in environments.values():
        for guard in environment.guards:
            condition = environment.simplify(guard.expr)
            ours = condition.free_symbols and all(str(symbol) in names for symbol in condition.free_symbols)
            if ours and str(condition) not in seen:
                seen.add(str(condition))
                yield condition, _place(guard)
    for symbol, bounds in graph.range_constraints.items():
        if not environments or not any(environment.guards for environment in environments.values()):
            yield from ((bound, "") for bound in _bounds(symbol, bounds) if str(symbol) in names)


def _bounds(symbol: Any, bounds: Any) -> list[Any]:
    """Return the bounds of a symbol as conditions; an exported program that was loaded has no guards."""
    least = [symbol >= bounds.lower] if bounds.lower.is_Integer and bounds.lower > 2 else []
    return least + ([symbol <= bounds.upper] if bounds.upper.is_Integer else [])


def _range_of(condition: Any, names: Mapping[str, str], hints: Mapping[str, int], place: str) -> Limits:
    """Return the sizes for which a condition on one symbol holds; raise CompileError if they are no range."""
    [symbol] = {names[str(each)] for each in condition.free_symbols}
    hint = hints[symbol]

    def holds(size: int) -> bool:
        return _is_true(condition, dict.fromkeys(condition.free_symbols, size))

    tried = sorted({*TRIED, hint, hint + 1, max(hint - 1, 2)})
    true = [size for size in tried if holds(size)]
    span = [size for size in tried if true and true[0] <= size <= true[-1]]
    if hint not in true or true != span:
        raise CompileError(_refusal(condition, names, place))
    before, after = [size for size in tried if size < true[0]], [size for size in tried if size > true[-1]]
    least = 1 if not before else _edge(holds, true[0], before[-1])
    most = 0 if not after else _edge(holds, true[-1], after[0])
    return Limits(least, most, place if before or after else "")


def _edge(holds: Any, inside: int, outside: int) -> int:
    """Return the last size from `inside` towards `outside` for which a condition holds."""
    while abs(outside - inside) > 1:
        middle = (inside + outside) // 2
        inside, outside = (middle, outside) if holds(middle) else (inside, middle)
    return inside


def _holds_for_all(condition: Any, names: Mapping[str, str], free: Sequence[str], hints: Mapping[str, int]) -> bool:
    """Return True if a condition on several symbols holds for all sizes that are tried."""
    columns = [(2, 3, 4, 5, 7, 8, 31, 64, 1000, hints[symbol]) for symbol in free]
    rows = [{free[i]: columns[i][(k * (i + 1) + i) % 10] for i in range(len(free))} for k in range(10)]
    rows += [dict.fromkeys(free, size) for size in columns[0]]
    return all(_is_true(condition, {each: row[names[str(each)]] for each in condition.free_symbols}) for row in rows)


def _is_true(condition: Any, sizes: Mapping[Any, int]) -> bool:
    integer = sys.modules["sympy"].Integer
    return bool(condition.xreplace({symbol: integer(size) for symbol, size in sizes.items()}) == True)  # noqa: E712 - of sympy


def _refusal(condition: Any, names: Mapping[str, str], place: str) -> str:
    text = str(condition)
    for theirs, ours in names.items():
        text = text.replace(theirs, ours)
    symbols = sorted({names[str(symbol)] for symbol in condition.free_symbols})
    where = f" (at {place})" if place else ""
    return (
        f"from_torch: the module decides by a size{where}, and the program would be right only while {text} holds; "
        f"import it without the symbol {symbols[-1]!r}"
    )


def _place(guard: Any) -> str:
    """Return file and line of the user's code that made a guard; "" if an operator made it."""
    frame = getattr(guard.sloc, "framework_loc", None)
    return f"{Path(frame.filename).name}:{frame.lineno}" if frame is not None and is_users(frame) else ""
