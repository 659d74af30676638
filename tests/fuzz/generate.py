"""Random programs from a seed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from fuzz.building import Building
from fuzz.drawing import Draw, Ref, Refused
from fuzz.makers import MAKERS
from fuzz.recipe import Step
from fuzz.training import depending, general, train, update_idle

LONG = 150
"""Ops after which no more calls are appended, but gradients are: compiling takes most of the time."""

OF_GRADIENTS = ("mul", "tanh", "sin", "square", "add", "sum", "where", "softmax")
"""The operators that are applied most often to gradients before they are differentiated again."""


@dataclass
class Generated:
    """A program and how it came about."""

    building: Building
    order: int
    refused: Counter[str] = field(default_factory=Counter)


def generated(seed: int, *, wide: bool = False) -> Generated:
    """The program of that seed; `wide` ones have larger tensors, and one in two is of float32."""
    rng = np.random.default_rng(seed)
    mixed = rng.random() < 0.25
    dtypes = ("float64", "float32") if mixed else ("float64",)
    draw = Draw(
        rng,
        dtypes=("float32",) if wide and seed % 2 else dtypes,
        wide=wide,
        zeros=0.12 if rng.random() < 0.15 else 0.0,
        fresh=float(rng.choice([0.1, 0.2, 0.4])),
        halves=mixed,
    )
    order = int(rng.choice([0, 1, 2, 3], p=[0.1, 0.25, 0.3, 0.35]))
    made = Generated(draw.building, order)
    grow(draw, made.refused, draw.int(2, 10 if order < 3 else 7))
    grads: list[Ref] = []
    for number in range(order):
        if len(draw.building.tape) > 3 * LONG:
            break
        try:
            grads = differentiate(draw, grads)
        except Refused as reason:
            made.refused[general(reason)] += 1
            break
        if number < order - 1 or draw.chance(0.3):
            grow(draw, made.refused, draw.int(0, 2), OF_GRADIENTS if draw.chance(0.7) else None)
    train(draw, made.refused)
    finish(draw, made.refused)
    return made


def grow(draw: Draw, refused: Counter[str], count: int, among: tuple[str, ...] | None = None) -> None:
    """Append `count` calls of any function."""
    for _ in range(count):
        if len(draw.building.tape) > LONG:
            return
        makers = MAKERS[draw.choice(among or NAMES)]
        try:
            draw.choice(makers)(draw)
        except Refused as reason:
            refused[general(reason)] += 1


NAMES = tuple(MAKERS)


def differentiate(draw: Draw, grads: list[Ref]) -> list[Ref]:
    """Append gradients, of what depends on earlier ones if there are any; gives those that there are."""
    floats = [x for x in draw.pool if x.dtype in draw.dtypes]
    leaves = [x for x in floats if x.name[0] in "xw"]
    if not leaves or not floats:
        raise Refused("gradients: nothing to differentiate")
    below = depending(draw, {g.name for g in grads} or {x.name for x in leaves})
    targets = [x for x in floats if x.name in below and x not in leaves]
    if not targets:
        raise Refused("gradients: nothing depends on the inputs")
    targets = [draw.choice(targets[-6:]) for _ in range(draw.choice([1, 1, 1, 2, 3]))]
    if draw.chance(0.5):
        targets = [draw.one(draw.choice(["sum", "mean"]), scaled(draw, t)) for t in targets]
    inputs = [x for x in leaves if draw.chance(0.7)] or leaves[:1]
    of_states = any(step.call.endswith("_layer_gradient") for step in draw.building.recipe.steps)
    if not grads and not of_states and draw.chance(0.3):  # the gradient for what is on the way
        alone = [
            x for x in floats if x.name[0] == "v" and "_" not in x.name
        ]  # one of several results moves with others
        inputs += [x for x in alone if x.name not in {t.name for t in targets}][-2:]
    seeds = [draw.fresh(t.shape, t.dtype) if t.rank and draw.chance(0.6) else None for t in targets]
    return [g for g in draw.gradients(targets, inputs, seeds) if g is not None and g in draw.pool]


def scaled(draw: Draw, x: Ref) -> Ref:
    return draw.one("square", x) if draw.chance(0.3) else draw.one("mul", x, draw.beside(x, into=True))


def finish(draw: Draw, refused: Counter[str]) -> None:
    """Name outputs: whatever nobody reads, and some others; fetch what exists only while training."""
    steps = draw.building.recipe.steps
    read = {name for step in steps for name in step.reads()}
    made = [x for x in (*draw.pool, *draw.wild) if x.name[0] in "vg"]
    kept = [x for x in made if x.name not in read or draw.chance(0.15)] or made or draw.pool
    training = only_in_training(draw)
    outputs = {f"y{number}": x for number, x in enumerate(kept) if x.name not in training}
    try:
        if outputs:
            draw.program("outputs", **outputs)
        if len(outputs) < len(kept) and not any(step.call in ("minimize", "update") for step in steps):
            draw.building.add(Step("buffer", (), {"shape": ()}, ("count",)))
            draw.program("update", "count", draw.one("add", draw.building_ref("count"), 1.0))
            update_idle(draw)
        for number, x in enumerate(x for x in kept if x.name in training):
            draw.program("fetch", f"t{number}", x)
    except Refused as reason:
        refused[general(reason)] += 1


def only_in_training(draw: Draw) -> set[str]:
    """Return the results that batch_norm's inference form lacks: statistics, gradients, and their dependents."""
    steps = draw.building.recipe.steps
    of_norms = {name for step in steps if step.call == "batch_norm" for name in step.outputs}
    first = {name for step in steps if step.call == "batch_norm" for name in step.outputs[1:]}
    below = depending(draw, of_norms) | of_norms
    for step in steps:
        if step.call in ("gradients", "minimize") and not below.isdisjoint(step.reads()):
            first.update(step.outputs)
    return depending(draw, first) | first
