"""Descents on one loss or two, with any optimizer, accumulation and clipping; updates of states, averages, metrics."""

from __future__ import annotations

from collections import Counter
from typing import Any

from fuzz.drawing import Draw, Ref, Refused
from fuzz.recipe import Code

OPTIMIZERS = (
    "sgd(0.05)",
    "sgd(warmup_cosine(0.1))",
    "momentum(0.05, clip=global_norm(0.5))",
    "nesterov(0.05)",
    "adam(0.05)",
    "adam(0.05, clip=by_norm(0.3))",
    "adamw(0.05)",
    "adamax(0.05)",
    "nadam(0.05)",
    "radam(0.05)",
    "adagrad(0.05)",
    "adadelta(0.5)",
    "rmsprop(0.05)",
    "lion(0.05)",
    "lamb(0.05)",
    "lars(0.05)",
    "adafactor(0.05)",
    "look_ahead(sgd(0.05), every=2)",
    "lazy(adam(0.05))",
    "sgd(0.1, clip=by_value(0.2), decay=0.01)",
)


METRICS = ("mean({x})", "mean_squared_error({x}, {x} * 0.5)", "root_mean_squared_error({x}, {x} * 0.5)", "r2({x}, {x})")


def train(draw: Draw, refused: Counter[str]) -> None:
    """Append what trains, and fetch some of what there is."""
    parameters = [x for x in draw.pool if x.name[0] == "w"]
    trained: set[str] = set()
    for number in range(draw.choice([0, 1, 1, 2])):
        try:
            trained |= descend(draw, parameters, number)
        except Refused as reason:
            refused[general(reason)] += 1
    if trained or draw.chance(0.3):
        report(draw, refused, parameters)
        update_idle(draw)


def update_idle(draw: Draw) -> None:
    """Update what nothing trains yet: such a parameter is refused."""
    steps = draw.building.recipe.steps
    trained = {name for step in steps if step.call in ("minimize", "update") for name in step.reads()}
    for x in (*draw.pool, *draw.wild):
        if x.name[0] == "w" and x.name not in trained:
            same = [y for y in (*draw.pool, x) if (y.dtype, y.shape) == (x.dtype, x.shape)]
            draw.program("update", x, draw.choice(same))


def descend(draw: Draw, parameters: list[Ref], number: int) -> set[str]:
    """Minimize a function of some tensor that depends on parameters; the names of those that it trains."""
    below = {x.name: depending(draw, {x.name}) for x in parameters}
    targets = [x for x in draw.pool if x.dtype in draw.dtypes and any(x.name in names for names in below.values())]
    if not targets:
        raise Refused("minimize: nothing depends on a parameter")
    target = draw.choice(targets[-6:])
    mine = [x for x in parameters if target.name in below[x.name]]
    mine = mine[:1] if number and draw.chance(0.4) else mine
    how: dict[str, Any] = {"optimizer": Code(draw.choice(OPTIMIZERS))}
    if draw.chance(0.2):
        how["clip"] = Code("global_norm(0.7)")
    if draw.chance(0.2):
        how["accumulate"] = 2
    if number:
        how["name"] = "second"
    if not target.size:
        raise Refused("minimize: a mean of nothing")
    draw.minimize(draw.one("mean", draw.one("square", draw.one("tanh", target))), mine, **how)
    return {x.name for x in mine}


def report(draw: Draw, refused: Counter[str], parameters: list[Ref]) -> None:
    made = [x for x in (*draw.pool, *draw.wild) if x.name[0] != "x"]
    try:
        for number in range(draw.int(0, 3)):
            draw.program("fetch", f"f{number}", draw.choice(made))
        floats = [x for x in draw.pool if x.dtype in draw.dtypes and x.size and x.rank]
        if floats and draw.chance(0.25):
            metric = draw.choice(METRICS).format(x=draw.choice(floats).name)
            draw.program("fetch", "metric", Code(f"metrics.{metric}"))
        if parameters and draw.chance(0.15):
            draw.program("average", 0.9, every=draw.int(1, 2))
    except Refused as reason:
        refused[general(reason)] += 1


def depending(draw: Draw, names: set[str]) -> set[str]:
    """The tensors of the recipe that depend on some of these, by floats."""
    found = set(names)
    for step in draw.building.recipe.steps:
        if not found.isdisjoint(step.reads()):
            found.update(step.outputs)
    return found


def general(reason: Refused) -> str:
    """The sentence without types, lines and numbers."""
    text = str(reason)
    name = text.split(":")[0]
    return f"{name}: {text.rsplit('): ', 1)[-1]}"[:140]
