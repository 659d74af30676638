"""The rotary positions that a config describes: their base, and the factors by which long texts turn pairs less."""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

from compiler.errors import CompileError
from compiler.frontends.language_models.config_keys import MOST, Config

KINDS: Final = ("default", "linear", "llama3")


class Rotary(NamedTuple):
    """How queries and keys are rotated.

    Attributes:
        base: pair i of a head of n numbers turns by base ** (-2 * i / n) with each position.
        factors: what the turn of each pair is divided by; empty if all are 1.
    """

    base: float
    factors: tuple[float, ...] = ()


def rotary_of(config: Config, base: float, size: int) -> Rotary:
    """Return the rotary positions of heads of `size` numbers; `base` is the family's own.

    Raises CompileError for kinds of scaling other than linear and Llama 3's, and for factors that are missing.
    """
    given = _keys(config)
    kind = given.given.get("rope_type", given.given.get("type", "default")) or "default"
    if kind not in KINDS:
        raise CompileError(f"{config.path}: rope_scaling is of the type {kind!r}; the builder knows {', '.join(KINDS)}")
    base = given.number("rope_theta", base)
    if base <= 1:
        raise CompileError(f"{config.path}: rope_theta is {base!r}, not a number above 1")
    if given.number("partial_rotary_factor", 1.0) != 1:
        raise CompileError(f"{config.path}: partial_rotary_factor is not 1; the builder rotates whole heads")
    factors: tuple[float, ...] = ()
    if kind == "linear":
        factors = (given.number("factor"),) * (size // 2)
    elif kind == "llama3":
        factors = _llama3(given, base, size)
    return Rotary(base, factors if {*factors} != {1.0} else ())


def _keys(config: Config) -> Config:
    """Return the keys that describe rotary positions, which newer configs gather in `rope_parameters`."""
    whole = ("rope_theta", "partial_rotary_factor", "max_position_embeddings")
    found = {key: config.given[key] for key in whole if config.has(key)}
    config.know("rope_theta", "partial_rotary_factor", "rope_scaling", "rope_parameters")
    for key in ("rope_scaling", "rope_parameters"):
        inside: Any = config.given.get(key)
        found |= inside if isinstance(inside, dict) else {}
    return Config(config.path, found)


def _llama3(given: Config, base: float, size: int) -> tuple[float, ...]:
    """Return the factors of Llama 3.1, by how often a pair turns within the texts of its first training.

    Pairs that turn at least `high_freq_factor` times keep their turn, those that turn at most `low_freq_factor` times
    have it divided by `factor`, and between them the turn is a mean of both.
    """
    factor, low, high = (given.number(key) for key in ("factor", "low_freq_factor", "high_freq_factor"))
    if low >= high:
        raise CompileError(f"{given.path}: low_freq_factor is {low}, not below high_freq_factor, {high}")
    length = given.size("original_max_position_embeddings", given.size("max_position_embeddings", 2048), most=MOST)
    factors: list[float] = []
    for i in range(size // 2):
        turns = length * base ** (-2 * i / size) / (2 * math.pi)
        share = min(max((turns - low) / (high - low), 0.0), 1.0)
        factors.append(1 / ((1 - share) / factor + share))
    return tuple(factors)
