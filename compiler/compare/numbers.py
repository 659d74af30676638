"""The numbers of two models on the same inputs: the largest difference of each result, and where it begins.

1. A tensor of the first model is found in the second if that has a tensor of the same elements, in any order of axes.
2. From a result that differs, the nodes of the first model are followed backwards through tensors that are not found.
   The difference begins at a node whose operands are all found, and whose result is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from compiler.compare.models import Model, OnnxModel, ProgramModel
from compiler.frontends.onnx.texts import plain_name


class Difference(NamedTuple):
    """A row of the table.

    Attributes:
        name: name of a result.
        shape: its shape; None if the shapes differ.
        absolute: largest difference of two elements.
        relative: the same, divided by 1 plus the size of the second element.
        agrees: True if the relative difference is within the tolerance.
    """

    name: str
    shape: tuple[int, ...] | None
    absolute: float
    relative: float
    agrees: bool


def differences(
    first: Mapping[str, Any], second: Mapping[str, Any], tolerance: float
) -> tuple[list[Difference], list[str]]:
    """Return a row for each result that both have, and the names of the others."""
    other = {plain_name(name): array for name, array in second.items()}
    rows = [
        _difference(name, np.asarray(array), np.asarray(other[plain_name(name)]), tolerance)
        for name, array in first.items()
        if plain_name(name) in other
    ]
    mine = {plain_name(name) for name in first}
    return rows, [name for name in (*first, *second) if plain_name(name) not in mine & other.keys()]


def _difference(name: str, a: Any, b: Any, tolerance: float) -> Difference:
    if a.shape != b.shape:
        return Difference(name, None, np.inf, np.inf, False)
    a, b = a.astype(np.float64), b.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        apart = np.where(same, 0.0, np.abs(a - b))
        relative = np.where(same, 0.0, apart / (1.0 + np.abs(b)))
    apart, relative = (np.where(np.isnan(v), np.inf, v) for v in (apart, relative))
    worst = float(np.max(relative, initial=0.0))
    return Difference(name, a.shape, float(np.max(apart, initial=0.0)), worst, worst <= tolerance)


def beginning(first: Model, second: Model, feeds: Mapping[str, Any], result: str, tolerance: float) -> str:
    """Return where the difference of a result begins, in words."""
    here, there = first.tensors(feeds), second.tensors(feeds)
    index: dict[int, list[Any]] = {}
    for array in [*there.values(), *(np.asarray(v) for v in feeds.values())]:
        array = np.asarray(array)
        index.setdefault(array.size, []).append(np.sort(array.astype(np.float64).reshape(-1)))
    makers = _makers(first)

    def is_found(name: str) -> bool:
        if name not in here:
            return True  # an input or a weight
        own = np.sort(np.asarray(here[name]).astype(np.float64).reshape(-1))
        others = index.get(own.size, ())
        return any(np.allclose(own, other, rtol=tolerance, atol=tolerance, equal_nan=True) for other in others)

    name, seen = _start(first, result), set[str]()
    while name not in seen:
        seen.add(name)
        lost = [operand for operand in makers.get(name, ("", ()))[1] if operand in makers and not is_found(operand)]
        if not lost:
            break
        name = lost[0]
    kind = makers.get(name, ("an input", ()))[0]
    return f"{result} begins to differ at {name!r}, which {kind} makes from tensors that both models have"


def _makers(model: Model) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return for each tensor the operator that makes it, and its operands."""
    if isinstance(model, OnnxModel):
        return {name: (node.op_type, tuple(node.input)) for node in model.model.graph.node for name in node.output}
    assert isinstance(model, ProgramModel)
    return {name: (op.type, tuple(op.inputs)) for op in model.block.ops for name in op.outputs}


def _start(model: Model, result: str) -> str:
    if isinstance(model, ProgramModel):
        return next(fetch.tensor for fetch in model.block.fetches if fetch.name == result)
    return result
