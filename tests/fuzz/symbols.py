"""Programs with a symbol for the first extent of their feeds, where the compiler accepts one."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from compiler import CompileError, OpError
from compiler.build.compiled import compile_program
from fuzz.building import Building
from fuzz.recipe import Recipe, Step

SYMBOL = "n"


def with_symbol(recipe: Recipe) -> Building | None:
    """The program in which the most frequent leading extent of inputs is a symbol; None if that is refused."""
    leading = Counter(
        step.attributes["shape"][0] for step in recipe.steps if step.call == "input" and step.attributes["shape"]
    )
    size = next((extent for extent, _ in leading.most_common() if extent > 1), 0)
    if not size:
        return None
    steps = [_with(step, size) for step in recipe.steps]
    try:
        made = Building.of(replace(recipe, steps=steps, sizes={SYMBOL: size}))
        compile_program(made.program._assembled(), made.recipe.sizes)
    except (OpError, CompileError):
        return None
    return made


def _with(step: Step, size: int) -> Step:
    """The step with the symbol where it has a shape that begins with that size; of states shapes are numbers."""
    shape: Any = step.attributes.get("shape", ())
    if not shape or shape[0] != size or step.call in ("parameter", "buffer"):
        return step
    return replace(step, attributes=step.attributes | {"shape": (SYMBOL, *shape[1:])})
