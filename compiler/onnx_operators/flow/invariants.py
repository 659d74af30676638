"""Carried values that a loop leaves unchanged, such as recurrent weights: its body reads them from outside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from compiler.frontends.onnx.node import Node

FIRST: Final = {"Loop": (2, 2, 1), "Scan": (0, 0, 0)}
"""Position of the first carried value among the operands, the inputs of the body and its results, by operator."""


def unchanged(operator: str, body: Any, count: int) -> list[int]:
    """Return the numbers of those of `count` carried values that a body returns unchanged."""
    _, read, made = FIRST[operator]
    sources = {node.output[0]: node.input[0] for node in body.node if node.op_type == "Identity"}
    pairs = zip(body.input[read : read + count], body.output[made : made + count], strict=False)
    return [number for number, (x, y) in enumerate(pairs) if origin_of(y.name, sources) == x.name]


def origin_of(name: str, sources: Mapping[str, str]) -> str:
    """Return the name that has no source, to which a name leads by its source, the source of that, and so on."""
    seen = set[str]()
    while name in sources and name not in seen:
        seen.add(name)
        name = sources[name]
    return name


def aliases(node: Any) -> Iterator[tuple[str, str]]:
    """Yield the names inside the body of a node that are names outside: those of unchanged values."""
    if node.op_type not in FIRST or node.domain not in ("", "ai.onnx"):
        return
    given, read, _ = FIRST[node.op_type]
    attributes = {attribute.name: attribute for attribute in node.attribute}
    scanned = attributes["num_scan_inputs"].i if "num_scan_inputs" in attributes else 0
    if "body" not in attributes:
        return
    body, count = attributes["body"].g, len(node.input) - given - scanned
    for number in unchanged(node.op_type, body, count):
        yield body.input[read + number].name, node.input[given + number]


def without_unchanged(node: Node, count: int) -> tuple[Node, list[int]]:
    """Return a loop of `count` carried values whose body reads the unchanged ones from outside, and their numbers."""
    body = node.attribute("body")
    numbers = unchanged(node.operator, body, count)
    if not numbers:
        return node, []
    given, read, made = FIRST[node.operator]
    inner = type(body)()
    inner.CopyFrom(body)
    for number in reversed(numbers):
        node.walk.define(body.input[read + number].name, node.operands[given + number], node.dtypes[given + number])
        del inner.input[read + number], inner.output[made + number]

    def rest(values: Sequence[Any], first: int) -> list[Any]:
        return [value for i, value in enumerate(values) if i - first not in numbers]

    less = replace(
        node,
        attributes={**node.attributes, "body": inner},
        operands=rest(node.operands, given),
        dtypes=rest(node.dtypes, given),
        outputs=rest(node.outputs, 0),
        results=rest(node.results, 0),
    )
    return less, numbers


def with_unchanged(node: Node, numbers: Sequence[int], results: Sequence[Any]) -> tuple[Any, ...]:
    """Return the results of a loop, with its unchanged values in their places."""
    first, made = FIRST[node.operator][0], list(results)
    for number in numbers:
        made.insert(number, node.operands[first + number])
    return tuple(made)
