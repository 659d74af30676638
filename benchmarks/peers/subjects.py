"""The models that are compared, as data: initial values and rows that every contender begins with.

perceptron  layers with relu between them, softmax cross entropy; or one output and the mean square
"""

from dataclasses import dataclass

import numpy as np

ROWS = 4096
"""Rows that a run takes its steps from, in order, again and again."""


@dataclass(frozen=True)
class Subject:
    """A training step.

    Attributes:
        widths: of a perceptron, from inputs to outputs.
        batch: rows a step.
        optimizer: "sgd", "momentum" (0.9) or "adam".
        rate: of learning.
        target: times faster than the fastest other contender, on two threads of a machine with AVX-512 and with AVX2.
    """

    widths: tuple[int, ...]
    batch: int
    optimizer: str
    rate: float
    target: tuple[float, float]

    @property
    def classifies(self):
        """Whether there are classes; else a number is predicted."""
        return self.widths[-1] > 1


MLP = (784, 256, 128, 10)

SUBJECTS = {
    "mlp, momentum, 32": Subject(MLP, 32, "momentum", 0.01, (3.5, 2.5)),
    "mlp, momentum, 256": Subject(MLP, 256, "momentum", 0.01, (1.85, 1.2)),
    "mlp, adam, 32": Subject(MLP, 32, "adam", 1e-3, (3.0, 2.3)),
    "mlp, adam, 256": Subject(MLP, 256, "adam", 1e-3, (1.9, 1.25)),
    "tabular, adam, 256": Subject((32, 64, 64, 1), 256, "adam", 1e-3, (5.0, 4.0)),
    "logistic regression, sgd, 64": Subject((784, 10), 64, "sgd", 0.01, (5.0, 4.0)),
}


def initial(subject):
    """Weights and biases, layer by layer, by name."""
    rng = np.random.default_rng(0)
    found = {}
    for i, (inside, outside) in enumerate(zip(subject.widths, subject.widths[1:], strict=False)):
        found[f"w{i}"] = (rng.standard_normal((inside, outside)) * (2 / inside) ** 0.5).astype("f4")
        found[f"b{i}"] = np.zeros(outside, "f4")
    return found


def rows(subject):
    """Inputs, and classes or numbers."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((ROWS, subject.widths[0]), dtype="f4")
    if subject.classifies:
        return x, rng.integers(0, subject.widths[-1], ROWS)
    return x, rng.standard_normal((ROWS, 1), dtype="f4")
