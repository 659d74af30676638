"""Subjects of the comparison: networks with rows, batches and optimizers, and initial values that all share."""

from collections.abc import Callable
from dataclasses import dataclass

import in_shapes
import networks
import numpy as np

OF_IMAGES = ("torch", "torch.channels-last", "torch.compile", "jax")
OF_ROWS = ("torch", "torch.compile", "jax")


@dataclass(frozen=True)
class Subject:
    """A training step.

    Attributes:
        network: from layers and inputs to logits, or to a number.
        shape: of a row of inputs.
        batch: rows a step.
        optimizer: "sgd", "momentum" (0.9) or "adam".
        rate: of learning.
        target: times faster than the fastest other contender, on two threads of a machine with AVX-512 and with AVX2.
        peers: the other contenders.
        rows: that a run takes its steps from, in order, again and again.
        words: how many kinds of tokens rows are made of, and are predicted; 0 if rows are floats.
        classes: 1 if a number is predicted.
        first_steps: steps that are made first: contenders compile, and their losses are compared after them.
    """

    network: Callable
    shape: tuple[int, ...]
    batch: int
    optimizer: str
    rate: float
    target: tuple[float, float]
    peers: tuple[str, ...] = OF_ROWS
    rows: int = 4096
    words: int = 0
    classes: int = 10
    first_steps: int = 10

    @property
    def classifies(self):
        """True if the subject predicts classes, not a number."""
        return self.classes > 1


MLP = networks.perceptron(256, 128, 10)
PIXELS, SEQUENCE = (32, 32, 3), (32, 128)

SUBJECTS = {
    "mlp, momentum, 32": Subject(MLP, (784,), 32, "momentum", 0.01, (3.5, 2.5)),
    "mlp, momentum, 256": Subject(MLP, (784,), 256, "momentum", 0.01, (1.85, 1.2)),
    "mlp, adam, 32": Subject(MLP, (784,), 32, "adam", 1e-3, (3.0, 2.3)),
    "mlp, adam, 256": Subject(MLP, (784,), 256, "adam", 1e-3, (1.9, 1.25)),
    "tabular, adam, 256": Subject(networks.perceptron(64, 64, 1), (32,), 256, "adam", 1e-3, (5.0, 4.0), classes=1),
    "logistic regression, sgd, 64": Subject(networks.perceptron(10), (784,), 64, "sgd", 0.01, (5.0, 4.0)),
    "lenet, adam, 32": Subject(networks.lenet, (28, 28, 1), 32, "adam", 1e-3, (4.0, 3.0), OF_IMAGES),
    "lstm, adam, 32": Subject(networks.lstm, SEQUENCE, 32, "adam", 1e-3, (1.4, 1.15), rows=1024),
    "gru, adam, 32": Subject(networks.gru, SEQUENCE, 32, "adam", 1e-3, (2.2, 1.6), (*OF_ROWS, "tensorflow"), 1024),
    "transformer, adam, 8": Subject(
        networks.transformer, (128,), 8, "adam", 1e-3, (1.4, 1.1), (*OF_ROWS, "tensorflow"), 1024, words=1000
    ),
    "gpt2, adamw, 4": Subject(
        networks.gpt2, (128,), 4, "adamw", 1e-4, (1.3, 1.1), ("torch",), 64, words=50257, first_steps=3
    ),
    "mobilenet, sgd, 32": Subject(
        networks.mobilenet, PIXELS, 32, "sgd", 0.01, (2.0, 1.5), (*OF_IMAGES, "jax.shifted"), 1024
    ),
    "resnet18, sgd, 32": Subject(networks.resnet18, PIXELS, 32, "sgd", 1e-3, (1.15, 1.05), OF_IMAGES, 1024),
}


def initial(subject):
    """Weights and biases by name. Those named mean and variance are not trained."""
    shapes = in_shapes.Layers()
    subject.network(shapes, in_shapes.Shape(subject.shape))
    return shapes.values


def is_trained(name):
    """Return True if an optimizer updates it."""
    return name.rsplit(".", 1)[-1] not in ("mean", "variance")


def rows(subject):
    """Inputs, and classes or numbers."""
    rng = np.random.default_rng(1)
    if subject.words:
        return tuple(rng.integers(0, subject.words, (subject.rows, *subject.shape)) for _ in "xy")
    x = rng.standard_normal((subject.rows, *subject.shape), dtype="f4")
    if subject.classifies:
        return x, rng.integers(0, subject.classes, subject.rows)
    return x, rng.standard_normal((subject.rows, 1), dtype="f4")
