"""Decompositions: an op whose rule is a decomposition becomes the ops of that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from prograd_proto import Attribute, TensorType
from runtime.codegen.rules import Decomposition, DecompositionBuilder, SymbolicTensor

MAX_SHARING_DISTANCE: Final = 8
"""Number of nodes within which ops are shared: keeping results longer may take more memory than recomputing them."""


@dataclass
class Decompositions:
    """Decomposes the ops of a block, in order; common beginnings of neighbouring ops are computed once."""

    _known: dict[Any, SymbolicTensor] = field(default_factory=dict[Any, SymbolicTensor])
    _last: int = 0

    def decomposed(
        self,
        position: int,
        rule: Decomposition,
        inputs: tuple[str, ...],
        outputs: tuple[str, ...],
        types: Mapping[str, TensorType],
        attributes: Mapping[str, Attribute],
    ) -> DecompositionBuilder:
        """Return the ops that replace an op after `position` nodes; its results are views of theirs."""
        if position - self._last > MAX_SHARING_DISTANCE:
            self._known.clear()
        composition = DecompositionBuilder(outputs[0], self._known)
        operands = [SymbolicTensor(name, types[name]) if name else None for name in inputs]
        results = rule.decompose(composition, *operands, **attributes)
        parts = [results] if isinstance(results, SymbolicTensor) else results
        composition.views.update((name, part.name) for name, part in zip(outputs, parts, strict=True))
        self._last = position + len(composition.steps)
        return composition
