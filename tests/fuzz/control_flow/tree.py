"""A program as data: nodes that read numbered values, and bodies of nodes inside them.

The values of a body are those of the body around it, then its parameters, then the results of its nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np


class Type(NamedTuple):
    """The dtype, "float64" or "int64", and the shape of a value."""

    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Body:
    """A function.

    Attributes:
        nodes: in the order of their computation.
        results: numbers of values.
    """

    nodes: tuple[Node, ...]
    results: tuple[int, ...]


@dataclass(frozen=True)
class Node:
    """A call.

    Attributes:
        call: the name of a method of `Side`.
        operands: numbers of values.
        bodies: the functions that it takes.
        attributes: other arguments.
    """

    call: str
    operands: tuple[int, ...] = ()
    bodies: tuple[Body, ...] = ()
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Tree:
    """A program: arrays to feed, whose floats it is differentiated by, and a function of them that gives a scalar."""

    feeds: tuple[np.ndarray, ...]
    body: Body

    @property
    def leaves(self) -> list[int]:
        """The numbers of the feeds that it is differentiated by."""
        return [i for i, array in enumerate(self.feeds) if array.dtype.kind == "f"]


class Side(Protocol):
    """A library that computes the calls of a program."""

    def unary(self, x: Any, *, name: str) -> Any: ...
    def binary(self, x: Any, y: Any, *, name: str) -> Any: ...
    def total(self, x: Any) -> Any: ...
    def product(self, x: Any, w: Any) -> Any: ...
    def number(self, x: Any, *, name: str, value: float) -> Any: ...
    def expand(self, x: Any, *, shape: tuple[int, ...]) -> Any: ...
    def row(self, x: Any, *, i: int) -> Any: ...
    def as_float(self, x: Any) -> Any: ...
    def choose(self, x: Any, y: Any, z: Any) -> Any: ...
    def cond(self, x: Any, *operands: Any, bodies: Any, limit: float) -> Sequence[Any]: ...
    def scan(
        self, *operands: Any, bodies: Any, carries: int, length: int, reverse: bool, save: str
    ) -> Sequence[Any]: ...
    def loop(self, *operands: Any, bodies: Any, most: int, save: str) -> Sequence[Any]: ...


MANY = ("cond", "scan", "loop")
"""Calls with several results."""


def computed(side: Side, body: Body, values: Sequence[Any], *parameters: Any) -> list[Any]:
    """Return the results of a function, given the values around it."""
    known = [*values, *parameters]
    for node in body.nodes:
        operands = [known[i] for i in node.operands]
        functions = {"bodies": [_function(side, one, tuple(known)) for one in node.bodies]} if node.bodies else {}
        made = getattr(side, node.call)(*operands, **functions, **node.attributes)
        known += made if node.call in MANY else [made]
    return [known[i] for i in body.results]


def _function(side: Side, body: Body, values: tuple[Any, ...]) -> Any:
    return lambda *parameters: computed(side, body, values, *parameters)


def printed(body: Body, start: int, indent: str = "") -> str:
    """The program as text; `start` values are known before its nodes."""
    lines: list[str] = []
    for node in body.nodes:
        lines.append(f"{indent}[{start}] {node.call} {list(node.operands)} {node.attributes or ''}")
        for one, parameters in zip(node.bodies, node_parameters(node), strict=True):
            lines.append(f"{indent}  ({parameters} parameters)")
            lines.append(printed(one, start + parameters, indent + "    "))
        start += results_of(node)
    return "\n".join([*lines, f"{indent}-> {list(body.results)}"])


def node_parameters(node: Node) -> list[int]:
    """Return the number of parameters of each function of a node."""
    given = len(node.operands) - (node.call == "cond")
    return [given] * len(node.bodies)


def results_of(node: Node) -> int:
    """Return the number of values that a node adds."""
    return len(node.operands) + 1 if node.call == "loop" else len(node.bodies[0].results) if node.bodies else 1
