"""Conditions and loops: operators whose operands are graphs, which become blocks inside an op."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from compiler.errors import CompileError
from compiler.frontends.arranged import Arranged, arranged, plain
from compiler.frontends.torch.constants import Constant
from compiler.frontends.torch.operators.call import Call, Mapping
from compiler.frontends.torch.trips import most_trips
from registry import Value, ops

Graph = Callable[..., list[Value]]
"""A graph of the export: a function of its operands that appends its ops to the block which is being built."""


def _cond(call: Call, predicate: Any, if_true: Graph, if_false: Graph, operands: Sequence[Any]) -> tuple[Arranged, ...]:
    if not isinstance(predicate, Arranged | Constant):
        raise CompileError("its condition is about a size, not a tensor; import without the symbol")
    made = ops.cond(_value(call, predicate), lambda: tuple(if_true(*operands)), lambda: tuple(if_false(*operands)))
    return tuple(map(arranged, made))


def _while_loop(
    call: Call, condition: Any, body: Any, carries: Sequence[Any], more: Sequence[Any] = ()
) -> tuple[Arranged, ...]:
    def going(*values: Value) -> Value:
        return condition(*map(arranged, values), *more)[0]

    def next_carries(*values: Value) -> tuple[Value, ...]:
        return tuple(body(*map(arranged, values), *more))

    begins = [_value(call, x) for x in carries]
    bound = most_trips(condition.graph, body.graph, [*carries, *more], len(carries))
    if len(begins) == 1:
        made, _ = ops.while_loop(going, lambda x: next_carries(x)[0], begins[0], max_trips=bound)
        return (arranged(made),)
    made, _ = ops.while_loop(going, next_carries, *begins, max_trips=bound)
    return tuple(map(arranged, made))


def _scan(
    call: Call, step: Graph, first: Sequence[Any], xs: Sequence[Any], more: Sequence[Any] = ()
) -> tuple[Arranged, ...]:
    def stepped(carries: tuple[Value, ...], rows: tuple[Value, ...]) -> tuple[Any, Any]:
        made = step(*map(arranged, carries), *map(arranged, rows), *more)
        return tuple(made[: len(first)]), tuple(made[len(first) :])

    begins, read = tuple(_value(call, x) for x in first), tuple(_value(call, x) for x in xs)
    last, stacked = ops.scan(stepped, begins, read)
    return tuple(map(arranged, (*last, *stacked)))


def _map(call: Call, function: Graph, xs: Sequence[Any], more: Sequence[Any] = ()) -> tuple[Arranged, ...]:
    made = ops.map(lambda rows: tuple(function(*map(arranged, rows), *more)), tuple(_value(call, x) for x in xs))
    return tuple(map(arranged, made))


def _value(call: Call, x: Arranged | Constant) -> Value:
    """Return an operand with the axes and extents of the model."""
    return plain(call.tensor(x))


OPERATORS: Final[dict[str, Mapping]] = {
    "cond": _cond,
    "while_loop": _while_loop,
    "scan": _scan,
    "map_impl": _map,
}

SEES_CONSTANTS: Final = set(OPERATORS)
"""Operators whose mappings look at the elements of constants; their graphs compute with them."""
