"""The random choices of a trial, and its program.

At one step a tensor of the model, the gradient that flows through it, or the new value of a running mean is replaced by
NaN or an infinity. The step is the setting `bad_step`, so the same program trains undisturbed with another value.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import prograd
from prograd import (
    Program,
    adafactor,
    adagrad,
    adam,
    adamw,
    by_norm,
    by_value,
    global_norm,
    layers,
    lion,
    look_ahead,
    momentum,
    ops,
    rmsprop,
    schedules,
    sgd,
)
from registry import Value

NEVER = -1
"""The step of a run that is not disturbed."""

OPTIMIZERS: dict[str, Callable[[object], object]] = {
    "sgd": sgd,
    "momentum": momentum,
    "adam": adam,
    "adamw": adamw,
    "rmsprop": rmsprop,
    "adagrad": adagrad,
    "adafactor": adafactor,
    "lion": lion,
    "look_ahead": lambda rate: look_ahead(adam(rate)),
}
ACTIVATIONS = ("relu", "tanh", "sigmoid", "gelu", "silu")
WHERE = ("forward", "gradient", "average")
CLIPS = {"none": None, "value": by_value(1.0), "norm": by_norm(1.0), "global": global_norm(1.0)}


@dataclass(frozen=True)
class Trial:
    """Random choices for a run.

    Attributes:
        bad: the number that is injected.
        where: "forward" for a tensor, "gradient" for what flows back through it, "average" for a running mean.
        layer: number of the layer whose output is disturbed.
        step: the step, counted from 0.
        in_evaluation: True if an evaluation after that step computes with it, too.
        keep_best: metric whose best states are kept; "" for none.
        every: steps between checkpoints; 0 for one at the end of each epoch.
    """

    seed: int
    bad: float
    where: str
    layer: int
    step: int
    in_evaluation: bool
    widths: tuple[int, ...]
    activation: str
    norm: bool
    dropout: bool
    optimizer: str
    clip: str
    accumulate: int
    average: bool
    decays: bool
    batch: int
    rows: int
    epochs: int
    keep_best: str
    every: int
    engine: str

    @property
    def per_epoch(self) -> int:
        """The number of steps of an epoch."""
        return self.rows // self.batch


def drawn(seed: int) -> Trial:
    """The trial of that seed."""
    rng = np.random.default_rng(seed)
    widths = tuple(int(width) for width in rng.integers(3, 33, int(rng.integers(1, 4))))
    batch, epochs = int(rng.choice([4, 8, 16])), int(rng.integers(1, 5))
    rows = batch * int(rng.integers(1, 7))
    total = rows // batch * epochs
    return Trial(
        seed=seed,
        bad=float(rng.choice([math.nan, math.inf, -math.inf])),
        where=str(rng.choice(WHERE, p=[0.4, 0.45, 0.15])),
        layer=int(rng.integers(len(widths))),
        step=total - 1 if rng.random() < 0.25 else int(rng.integers(total)),
        in_evaluation=bool(rng.random() < 0.2),
        widths=widths,
        activation=str(rng.choice(ACTIVATIONS)),
        norm=bool(rng.random() < 0.4),
        dropout=bool(rng.random() < 0.3),
        optimizer=str(rng.choice([*OPTIMIZERS])),
        clip=str(rng.choice([*CLIPS])),
        accumulate=int(rng.choice([1, 1, 2])),
        average=bool(rng.random() < 0.3),
        decays=bool(rng.random() < 0.3),
        batch=batch,
        rows=rows,
        epochs=epochs,
        keep_best=str(rng.choice(["", "loss", "accuracy"])),
        every=int(rng.choice([0, 1, 2, 3])),
        engine=str(rng.choice(["native", "reference"])),
    )


def written(trial: Trial, folder: Path) -> Path:
    """Write the rows and the program of a trial."""
    rng = np.random.default_rng((trial.seed, 1))
    x = rng.standard_normal((trial.rows + 16, 6)).astype("float32")
    arrays = {"x": x, "y": (x[:, 0] > x[:, 1]).astype("int64")}
    splits = {"train": range(trial.rows), "test": range(trial.rows, trial.rows + 16)}
    prograd.data.write(folder / "rows.safetensors", arrays, splits=splits)
    built(trial).compile(batch=trial.batch).save(folder / "p.pb")
    return folder / "p.pb"


def built(trial: Trial) -> Program:
    """The program of a trial."""
    program = Program("disturbed", seed=trial.seed)
    x, y = program.input("x", "float32", ("batch", 6)), program.input("y", "int64", ("batch",))
    now = ops.equal(program.state("step"), program.setting("bad_step", trial.step, dtype="int64"))
    h = x
    for number, width in enumerate(trial.widths):
        h = layers.dense(h, f"hidden{number}", width)
        h = layers.batch_norm(h, f"norm{number}") if trial.norm else h
        h = getattr(ops, trial.activation)(h)
        h = layers.dropout(h, 0.2) if trial.dropout else h
        if number == trial.layer and trial.where != "average":
            h = disturbed(trial, h, now)
    scores = layers.dense(h, "output", 2)
    if trial.where == "average":
        mean = program.buffer("mean", (6,))
        new = mean * 0.9 + ops.mean(x, axis=(0,)) * 0.1
        program.update(mean, ops.where(now, trial.bad, new))
    rate = schedules.cosine(0.02) if trial.decays else 0.02
    program.minimize(
        ops.softmax_cross_entropy(scores, y),
        OPTIMIZERS[trial.optimizer](rate),
        clip=CLIPS[trial.clip],
        accumulate=trial.accumulate,
    )
    if trial.average:
        program.average(0.9)
    program.metrics(accuracy=ops.accuracy(scores, y))
    program.outputs(scores=scores)
    program.data("rows.safetensors", splits={"train": "train", "test": "test"}, shuffle=True, remainder="drop")
    program.training(epochs=trial.epochs, evaluate="test", keep_best=trial.keep_best or None)
    return program


def disturbed(trial: Trial, h: Value, now: Value) -> Value:
    """A tensor that has a bad number at one step, or one whose gradient is NaN then and whose value is not."""
    if trial.where == "forward":
        bad = ops.where(now, trial.bad, h)
    else:
        bad = ops.where(now, ops.sqrt(h * 0.0) + ops.stop_gradient(h), h)  # the gradient of a root at 0, times 0
    return bad if trial.in_evaluation else ops.when_training(bad, h)
