"""All judges on one program."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Final

import numpy as np

from compiler import CompileError
from fuzz import differences, symbols, variants
from fuzz.building import Building
from fuzz.recipe import Recipe
from fuzz.variants import VARIANTS, Variant
from fuzz.verdict import Verdict

LONGEST = 500
"""Ops of a program that is compiled in other ways: longer ones take minutes within a budget."""

PYTORCH = find_spec("torch") is not None


def judged(
    building: Building,
    seed: int,
    chosen: Sequence[Variant],
    judges: Sequence[str] = ("differences", "torch"),
    *,
    symbol: bool = False,
) -> list[Verdict]:
    """Return the verdicts of all judges; an exception is a verdict too. With `symbol`, a symbol replaces a size."""
    rng = np.random.default_rng((seed, 1))
    found: list[Verdict] = []
    if "differences" in judges:
        found += guarded("differences", lambda: differences.judge(building, rng))
    if "torch" in judges and PYTORCH:
        from fuzz import pytorch

        found += guarded("torch", lambda: pytorch.judge(building))
    symbolic = symbols.with_symbol(building.recipe) if symbol and (chosen or judges) else None
    if symbolic is not None:
        found.append(same_numbers(building, symbolic))
    return found + varied(building if symbolic is None else symbolic, seed, chosen)


def same_numbers(building: Building, symbolic: Building) -> Verdict:
    """Return a verdict if a symbol in place of a size changes a bit."""
    for step in building.recipe.steps:
        for name in step.outputs:
            there = bool(name) and building.value(name) is not None
            if there and variants.bits(building.array(name)) != variants.bits(symbolic.array(name)):
                return Verdict("differs", "symbol", f"{step.call}: {name}")
    return Verdict("agreed", "symbol", "bits")


def varied(building: Building, seed: int, chosen: Sequence[Variant]) -> list[Verdict]:
    """Return the verdicts of the variants."""
    if not chosen:
        return []
    if len(building.tape) > LONGEST:
        return [Verdict("skipped", "variants", "bits", f"more than {LONGEST} ops")]
    rng = np.random.default_rng((seed, 2))
    recipe = building.recipe
    try:
        subject = variants.Subject.of(building.program, recipe.feeds, recipe.sizes, rng)
    except CompileError as error:
        if "which exists only while training" in str(error) or "computes nothing" in str(error):
            return [Verdict("skipped", "compile", "compile", "refused: it exists only while training")]
        return [Verdict("raised", "compile", "CompileError", str(error))]
    except Exception as error:
        return [raised("compile", error)]
    return [
        v
        for variant in chosen
        for v in guarded(variant.name, lambda variant=variant: [variants.judge(subject, variant)])
    ]


def guarded(judge: str, call) -> list[Verdict]:
    try:
        return call()
    except Exception as error:
        return [raised(judge, error)]


def raised(judge: str, error: Exception) -> Verdict:
    return Verdict("raised", judge, type(error).__name__, str(error)[:300])


def pick(seed: int, count: int) -> list[Variant]:
    """Return the variant with all passes and `count` others, or all variants for a negative count."""
    if count < 0:
        return list(VARIANTS)
    rng = np.random.default_rng((seed, 3))
    others = rng.choice(np.arange(1, len(VARIANTS)), min(count, len(VARIANTS) - 1), replace=False)
    return [VARIANTS[0], *(VARIANTS[int(i)] for i in others)]


OWN_WAYS: Final = {
    "native": "fuzz.native",
    "libraries": "fuzz.libraries.__main__",
    "instruction sets": "fuzz.instruction_sets",
}
"""Modules with a `fails_again` of their own, by the first words of their judge's name."""


def fails_again(recipe: Recipe, like: Verdict) -> bool:
    """Return True if the recipe, built again, still fails in that way."""
    try:
        building = Building.of(recipe)
    except Exception as error:
        return like.word == "raised" and like.judge == "build" and like.what == type(error).__name__
    if like.judge == "build":
        return False
    judge = next((module for prefix, module in OWN_WAYS.items() if like.judge.startswith(prefix)), None)
    if judge is not None:
        return import_module(judge).fails_again(building, like)
    chosen = [v for v in VARIANTS if v.name == like.judge] or (VARIANTS[:1] if like.judge == "compile" else [])
    judges = [like.judge] if like.judge in ("differences", "torch", "symbol") else []
    for seed in range(4 if chosen else 1):
        for v in judged(building, seed, chosen, judges, symbol=seed % 2 == 1 or like.judge == "symbol"):
            if (v.word, v.judge) == (like.word, like.judge) and (v.word != "raised" or v.what == like.what):
                return True
    return False
