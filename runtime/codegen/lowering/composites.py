"""Composites: an op that is spelled with others becomes those."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from prograd_proto import Attribute, TensorType
from runtime.codegen.rules import Composite, Composition, Part

BESIDE: Final = 8
"""Nodes within which parts are shared: to keep them longer may take more memory than to make them again."""


@dataclass
class Composites:
    """Spells the ops of a block, in order; what ops beside each other begin with alike is made once."""

    _known: dict[Any, Part] = field(default_factory=dict[Any, Part])
    _last: int = 0

    def spelled(
        self,
        position: int,
        form: Composite,
        inputs: tuple[str, ...],
        outputs: tuple[str, ...],
        types: Mapping[str, TensorType],
        attributes: Mapping[str, Attribute],
    ) -> Composition:
        """What stands in place of an op, after so many nodes; its results are views of parts."""
        if position - self._last > BESIDE:
            self._known.clear()
        composition = Composition(outputs[0], self._known)
        operands = [Part(name, types[name]) if name else None for name in inputs]
        results = form.spell(composition, *operands, **attributes)
        parts = [results] if isinstance(results, Part) else results
        composition.views.update((name, part.name) for name, part in zip(outputs, parts, strict=True))
        self._last = position + len(composition.steps)
        return composition
